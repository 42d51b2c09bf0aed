// Exchanges class keys and U. Every slot is sealed anew, so a slot is dropped whose secret or public key is not here.

package import SodiumKit
package import VolumeFormat

/// A keybag whose bundle has other entries than the one before.
package struct RotatedKeybag: ~Copyable, Sendable {
    /// The keybag, for the caller to write and pin.
    package let bag: Keybag
    /// Every key of it.
    package let keys: VolumeKeys
    /// The recovery code's 35 characters. Nil if the keybag before had no slot for one.
    package let recoveryCode: SecretBytes?
}

/// The passphrase of a slot, for a change of keys that keeps the slot.
package final class SlotPassphrase: Sendable {
    /// The slot that it opens.
    package let slot: UInt32
    let text: SecretBytes

    /// The caller has opened the slot with `text`.
    package init(slot: UInt32, text: consuming SecretBytes) {
        self.slot = slot
        self.text = text
    }
}

extension Keybag {
    /// The slots that a change of keys drops: all but the device's, the recovery code's, those of recipients, the one that gave
    /// `keys`, and those of `others`.
    package func slotsWithoutSecret(
        _ keys: borrowing VolumeKeys, _ others: [SlotPassphrase] = []
    ) -> [SlotSummary] {
        let kept = others.map(\.slot) + [keys.slot].compactMap { $0 }
        return slots.filter { !kept.contains($0.id) && ![.device, .recovery, .recipient].contains($0.kind) }
    }

    /// Makes a new key, of the next generation, for each of `classes` and for class B, and a new U. The former
    /// class keys stay in the bundle, because files need them. The recovery code is a new one.
    ///
    /// Class B is among them because its public key is what other machines compare: with the old one, someone who has an old
    /// keybag and its passphrase could make a keybag that they accept.
    ///
    /// - Parameters:
    ///   - passphrase: the one that gave `keys`.
    ///   - others: passphrases of other slots, which stay.
    ///   - deviceKey: the volume's device key. Nil only if it has none.
    /// - Throws: `deviceKeyNeeded`, `newerDeviceSlot`, `notAPassphraseSlot` if `keys` are not a passphrase's, and
    ///   `numbersUsedUp` if a class has had every generation.
    package func rotating(
        _ classes: [ProtectionClass], passphrase: borrowing SecretBytes, others: [SlotPassphrase] = [],
        deviceKey: borrowing SecretKey?, keys: borrowing VolumeKeys
    ) throws(KeybagError) -> RotatedKeybag {
        let all = ProtectionClass.allCases.filter { $0 == .completeUnlessOpen || classes.contains($0) }
        return try resealed(try keys.rotated(all), passphrase, others, deviceKey, code: nil, verifying: keys)
    }

    /// Takes class keys out of the bundle that are not in use any more.
    ///
    /// - Parameters:
    ///   - former: the keys. Those that new wraps use stay.
    ///   - code: the recovery code that stays valid. Nil makes a new one.
    /// - Throws: as `rotating`.
    package func dropping(
        _ former: Set<FormerKey>, passphrase: borrowing SecretBytes, others: [SlotPassphrase] = [],
        deviceKey: borrowing SecretKey?, code: borrowing SecretBytes?, keys: borrowing VolumeKeys
    ) throws(KeybagError) -> RotatedKeybag {
        try resealed(try keys.dropping(former), passphrase, others, deviceKey, code: code, verifying: keys)
    }

    private func resealed(
        _ next: consuming VolumeKeys, _ passphrase: borrowing SecretBytes, _ others: [SlotPassphrase],
        _ deviceKey: borrowing SecretKey?, code: borrowing SecretBytes?, verifying keys: borrowing VolumeKeys
    ) throws(KeybagError) -> RotatedKeybag {
        try requireWritable()
        try verify(keys)
        if let newer = newerDeviceSlot { throw .newerDeviceSlot(newer) }
        var editor = KeybagEditor(layout)
        let kept = others.map(\.slot) + [keys.slot ?? 0]
        editor.layout.slots = layout.slots.filter { kept.contains($0.slotID) }
        for id in kept {
            let slot = editor.layout.slots.first { $0.slotID == id }
            guard slot?.known?.kind == .passphrase else { throw .notAPassphraseSlot(id) }
        }
        let generations = next.generations
        for index in 1..<8 { editor.layout.generations[index] = generations[index] }
        editor.layout.publicKey = X25519.publicKey(
            of: try secretMemory { () throws(SodiumError) in try next.key(.classKey(.completeUnlessOpen)) })
        switch deviceKey {
        case .some(let key):
            try key.withBytes { device throws(KeybagError) in
                if hasDeviceKey { try editor.vouch(by: device) }
                if hasDeviceKey { try editor.addDevice(device, label: label(of: .device), keys: next) }
                try editor.renew(keys.slot ?? 0, passphrase, device: device, keys: next)
                for other in others { try editor.renew(other.slot, other.text, device: device, keys: next) }
            }
        case .none:
            guard !hasDeviceKey else { throw .deviceKeyNeeded }
            try editor.renew(keys.slot ?? 0, passphrase, device: Span<UInt8>(), keys: next)
            for other in others { try editor.renew(other.slot, other.text, device: Span<UInt8>(), keys: next) }
        }
        var text: SecretBytes?
        if layout.slots.contains(where: { $0.known?.kind == .recovery }) {
            let label = label(of: .recovery)
            switch code {
            case .some(let code): text = try editor.addRecovery(text: code, label: label, keys: next)
            case .none: text = try editor.addRecovery(label: label, keys: next)
            }
        }
        for old in layout.slots.compactMap(\.known) {
            guard let recipient = old.recipient else { continue }
            try editor.addRecipient(recipient.publicKey, label: old.label.name, keys: next)
        }
        return RotatedKeybag(bag: try Keybag(signing: editor.layout, next), keys: next, recoveryCode: text)
    }

    private func label(of kind: SlotLayout.Kind) -> String? {
        layout.slots.compactMap(\.known).first { $0.kind == kind }?.label.name
    }
}

extension KeybagEditor {
    /// Seals other keys for the passphrase of a slot. What the slot says beside them stays.
    fileprivate mutating func renew(
        _ id: UInt32, _ passphrase: borrowing SecretBytes, device: Span<UInt8>, keys: borrowing VolumeKeys
    ) throws(KeybagError) {
        guard let index = layout.slots.firstIndex(where: { $0.slotID == id }), let slot = layout.slots[index].known
        else { throw .notAPassphraseSlot(id) }
        try addPassphrase(
            passphrase, bound: slot.isBoundToDevice, device: device,
            cost: Argon2Parameters(passes: slot.passes, memory: slot.memory), label: nil, keys: keys, replacing: index)
    }
}
