// Seals and opens one slot: key material gives the slot secret, and the slot secret gives the bundle.

import SodiumKit
import VolumeFormat

extension SlotLayout {
    /// What the slot's secret depends on beside its material.
    borrowing func secretContext(_ volumeID: VolumeID) -> InlineArray<37, UInt8> {
        AssociatedData.slotContext(volume: volumeID, slotID: slotID, kind: kind.rawValue, salt: salt)
    }
}

/// Seals and opens slots. `material` is the device key, Argon2's output, the recovery code's 16 bytes, what is encrypted to a
/// recipient, or what a TPM or a security key gave. `device` is the device key for a slot that is bound to it, and is ignored
/// for others.
enum SlotCipher {
    /// S, the secret from which one slot's keys are derived. Wiped with its owner, at once after use.
    private static func secret(
        of slot: borrowing SlotLayout, volumeID: VolumeID, material: Span<UInt8>, device: Span<UInt8>
    ) throws(SodiumError) -> SecretKey {
        let context = slot.secretContext(volumeID)
        var whole = try SecretBytes(byteCount: 37 + (slot.isBoundToDevice ? SecretKey.byteCount : 0))
        whole.withMutableBytes { bytes in
            bytes.copy(context.span, to: 0)
            if slot.isBoundToDevice { bytes.copy(device, to: 37) }
        }
        return try whole.withBytes { context throws(SodiumError) in
            try deriveKey(fromSecret: material, label: KeyLabel.slot, context: context)
        }
    }

    /// Fills in commitment, nonce and bundle of `slot`, whose salt is fresh.
    static func seal(
        _ slot: inout SlotLayout, bundle: borrowing KeyBundle, volumeID: VolumeID, material: Span<UInt8>,
        device: Span<UInt8>
    ) throws(SodiumError) {
        let secret = try secret(of: slot, volumeID: volumeID, material: material, device: device)
        let commitment = try deriveKey(from: secret, label: KeyLabel.slotCommit)
        let key = try deriveKey(from: secret, label: KeyLabel.slotWrap)
        let nonce: InlineArray<24, UInt8> = randomInlineBytes()
        slot.commitment = commitment.withBytes { $0.inline(at: 0) }
        slot.nonce = nonce
        var sealed = [UInt8](
            repeating: 0, count: bundle.entries.count * BundleEntry.length + SlotLayout.tagLength)
        slot.bundle = sealed
        let associatedData = slot.associatedData(volume: volumeID)
        bundle.withBytes { plaintext in
            var output = sealed.mutableSpan
            XChaCha.seal(
                plaintext, key: key, nonce: nonce.span, associatedData: associatedData.span,
                into: &output)
        }
        slot.bundle = sealed
    }

    /// The outcome of opening a slot.
    enum Opening: ~Copyable {
        case bundle(SecretBytes)
        /// The commitment shows that the key material is not this slot's.
        case wrongMaterial
        /// The key material is right, but the bundle was changed.
        case damaged
    }

    /// Whether the slot was made with this key material, by its commitment alone.
    static func isMade(
        _ slot: borrowing SlotLayout, volumeID: VolumeID, with material: Span<UInt8>, device: Span<UInt8>
    ) throws(SodiumError) -> Bool {
        try isMade(slot, from: secret(of: slot, volumeID: volumeID, material: material, device: device))
    }

    private static func isMade(
        _ slot: borrowing SlotLayout, from secret: borrowing SecretKey
    ) throws(SodiumError) -> Bool {
        let commitment = try deriveKey(from: secret, label: KeyLabel.slotCommit)
        let stored = slot.commitment
        return commitment.withBytes { constantTimeEqual($0, stored.span) }
    }

    static func open(
        _ slot: borrowing SlotLayout, volumeID: VolumeID, material: Span<UInt8>, device: Span<UInt8>
    ) throws(SodiumError) -> Opening {
        let secret = try secret(of: slot, volumeID: volumeID, material: material, device: device)
        guard try isMade(slot, from: secret) else { return .wrongMaterial }
        let key = try deriveKey(from: secret, label: KeyLabel.slotWrap)
        let associatedData = slot.associatedData(volume: volumeID)
        let opened = try XChaCha.openBytes(
            slot.bundle.span, key: key, nonce: slot.nonce.span,
            associatedData: associatedData.span)
        if let bundle = opened { return .bundle(bundle) }
        return .damaged
    }
}
