// Opens a keybag: the device key gives the keys of before first unlock, a credential gives all keys.

package import SodiumKit
import VolumeFormat

extension Keybag {
    /// Opens the device's slot and checks the first MAC, as mounting needs.
    ///
    /// - Throws: `noDeviceSlot`, `newerDeviceSlot`, `wrongDeviceKey`, `malformedBundle`, `deviceMACMismatch`.
    package func open(deviceKey: borrowing SecretKey) throws(KeybagError) -> DeviceKeys {
        try deviceKey.withBytes { bytes throws(KeybagError) in try open(device: bytes) }
    }

    /// Opens with a credential and the device key, and checks everything: both MACs, the public key, and that D and M are those
    /// of the device's slot. If no known slot is the device's, the device key only opens the slots that are bound to it.
    package func unlock(
        _ credential: borrowing Credential, deviceKey: borrowing SecretKey
    ) throws(KeybagError) -> VolumeKeys {
        try deviceKey.withBytes { device throws(KeybagError) in
            guard opensWithDeviceKey else {
                let keys = try keys(for: credential, device: device, isAuthenticated: false)
                try verify(keys)
                return keys
            }
            // This comes first, so that even the password hash's parameters are authenticated before use.
            let deviceKeys = try open(device: device)
            let keys = try keys(for: credential, device: device, isAuthenticated: true)
            guard keys.bundle.agrees(with: deviceKeys.bundle) else { throw .bundleMismatch }
            try verify(keys)
            return keys
        }
    }

    /// Opens with a credential alone, if there is no device key or it is not on this machine. This works for portable
    /// passphrases and the recovery code. Checks both MACs and the public key.
    package func unlock(_ credential: borrowing Credential) throws(KeybagError) -> VolumeKeys {
        let keys = try keys(for: credential, device: Span<UInt8>(), isAuthenticated: false)
        try verify(keys)
        return keys
    }

    /// Whether a slot that this program knows is the device's. Without one, the device key does not open the volume alone.
    package var opensWithDeviceKey: Bool { !slots(of: .device).isEmpty }

    /// The number of the slot of a newer version that is in place of the device's slot: one with its kind, or the first. Nil if a
    /// known slot is the device's, or the volume has no device key.
    package var newerDeviceSlot: UInt32? {
        guard hasDeviceKey, !opensWithDeviceKey else { return nil }
        let newer = layout.slots.compactMap { if case .newer(let slot) = $0 { slot } else { nil } }
        return (newer.first { $0.kind == SlotLayout.Kind.device.rawValue } ?? newer.first)?.slotID
    }

    /// Checks both MACs and the public key with the keys from a slot.
    func verify(_ keys: borrowing VolumeKeys) throws(KeybagError) {
        try verifyDeviceMAC(try secretMemory { () throws(SodiumError) in try keys.key(.metadata) })
        let covered = bytes.span.extracting(KeybagLayout.unlockAuthenticated(length: bytes.count))
        let uuid = volumeID.bytes
        let key = try secretMemory { () throws(SodiumError) in
            try deriveKey(from: keys.key(.unlockAuthentication), label: KeyLabel.keybagUnlock, context: uuid.span)
        }
        let expected = mac256(key, covered)
        guard constantTimeEqual(expected.span, layout.unlockMAC.span) else {
            throw .unlockMACMismatch
        }
        let privateKey = try secretMemory { () throws(SodiumError) in try keys.key(.classKey(.completeUnlessOpen)) }
        guard haveSameBytes(X25519.publicKey(of: privateKey), publicKey) else {
            throw .publicKeyMismatch
        }
    }

    /// Whether the first MAC is right under the volume's metadata key, which no rotation changes. It covers all but the MACs.
    package func isAuthentic(_ keys: borrowing VolumeKeys) throws(SodiumError) -> Bool {
        do throws(KeybagError) {
            try verifyDeviceMAC(try secretMemory { () throws(SodiumError) in try keys.key(.metadata) })
            return true
        } catch .memory(let error) {
            throw error
        } catch {
            return false
        }
    }

    private func verifyDeviceMAC(_ metadata: borrowing SecretKey) throws(KeybagError) {
        let covered = bytes.span.extracting(KeybagLayout.deviceAuthenticated(length: bytes.count))
        let uuid = volumeID.bytes
        let key = try secretMemory { () throws(SodiumError) in
            try deriveKey(from: metadata, label: KeyLabel.keybagDevice, context: uuid.span)
        }
        let expected = mac256(key, covered)
        guard constantTimeEqual(expected.span, layout.deviceMAC.span) else {
            throw .deviceMACMismatch
        }
    }

    private func open(device: Span<UInt8>) throws(KeybagError) -> DeviceKeys {
        let deviceSlots = slots(of: .device)
        guard !deviceSlots.isEmpty else {
            if let newer = newerDeviceSlot { throw .newerDeviceSlot(newer) }
            throw .noDeviceSlot
        }
        for slot in deviceSlots {
            guard let bundle = try open(slot, material: device, device: device) else { continue }
            guard let keys = DeviceKeys.parse(bundle, volumeID: volumeID, generations: generations) else {
                throw .malformedBundle(slot: slot.slotID)
            }
            try verifyDeviceMAC(try secretMemory { () throws(SodiumError) in try keys.key(.metadata) })
            return keys
        }
        throw .wrongDeviceKey
    }

    private func keys(
        for credential: borrowing Credential, device: Span<UInt8>, isAuthenticated: Bool
    ) throws(KeybagError) -> VolumeKeys {
        switch credential {
        case .passphrase(let passphrase):
            return try passphrase.withBytes { bytes throws(KeybagError) in
                try keys(passphrase: bytes, device: device, isAuthenticated: isAuthenticated)
            }
        case .recoveryCode(let text):
            let secret = try text.withBytes { bytes throws(KeybagError) in try RecoverySecret.parse(bytes) }
            for slot in slots(of: .recovery) {
                let keys = try secret.withBytes { bytes throws(KeybagError) in
                    try openFull(slot, material: bytes, device: device)
                }
                if let keys { return keys }
            }
            throw .wrongRecoveryCode
        case .recipientKey(let text):
            let key = try text.withBytes { text throws(KeybagError) in try RecipientKey.privateKey(from: text) }
            return try keys(recipient: key, device: device)
        case .tpm2(let material):
            return try material.withBytes { bytes throws(KeybagError) in try keys(tpm2: bytes, device: device) }
        case .securityKey(let secret):
            return try secret.withBytes { bytes throws(KeybagError) in try keys(fromSecurityKey: bytes) }
        }
    }

    private func keys(tpm2 material: Span<UInt8>, device: Span<UInt8>) throws(KeybagError) -> VolumeKeys {
        guard material.count == SlotTPM2.secretLength else { throw .wrongTPM2 }
        var failure = KeybagError.wrongTPM2
        for slot in slots(of: .tpm2) {
            if slot.isBoundToDevice, device.isEmpty {
                failure = .tpm2NeedsDeviceKey
                continue
            }
            if let keys = try openFull(slot, material: material, device: device) { return keys }
        }
        throw failure
    }

    private func keys(fromSecurityKey secret: Span<UInt8>) throws(KeybagError) -> VolumeKeys {
        guard secret.count == SlotSecurityKey.saltLength else { throw .wrongSecurityKey }
        for slot in slots(of: .securityKey) {
            if let keys = try openFull(slot, material: secret, device: Span<UInt8>()) { return keys }
        }
        throw .wrongSecurityKey
    }

    private func keys(recipient key: borrowing SecretKey, device: Span<UInt8>) throws(KeybagError) -> VolumeKeys {
        let publicKey = X25519.publicKey(of: key)
        for slot in slots(of: .recipient) {
            guard let recipient = slot.recipient, haveSameBytes(recipient.publicKey, publicKey) else { continue }
            guard let material = try recipient.open(key, slot: slot, volumeID: volumeID) else {
                throw .malformedBundle(slot: slot.slotID)
            }
            let keys = try material.withBytes { bytes throws(KeybagError) in
                try openFull(slot, material: bytes, device: device)
            }
            if let keys { return keys }
        }
        throw .wrongRecipientKey
    }

    private func keys(
        passphrase: Span<UInt8>, device: Span<UInt8>, isAuthenticated: Bool
    ) throws(KeybagError) -> VolumeKeys {
        let opened = try passphraseSlot(openedBy: passphrase, device: device, isAuthenticated: isAuthenticated)
        return opened.keys
    }

    /// The first passphrase slot that opens, and its keys.
    ///
    /// - Parameter isAuthenticated: whether the first MAC has been checked, so that the costs are the owner's.
    func passphraseSlot(
        openedBy passphrase: Span<UInt8>, device: Span<UInt8>, isAuthenticated: Bool
    ) throws(KeybagError) -> OpenedSlot {
        guard passphrase.count > 0, passphrase.count <= Credential.maximumLength else {
            throw .unusablePassphrase
        }
        let slots = slots(of: .passphrase)
        guard !slots.isEmpty else { throw .noPassphraseSlot }
        if !isAuthenticated { try Self.refuseTooMuchWork(slots.filter { !$0.isBoundToDevice || !device.isEmpty }) }
        var failure = KeybagError.wrongPassphrase
        for slot in slots {
            if slot.isBoundToDevice, device.isEmpty {
                failure = .deviceKeyNeeded
                continue
            }
            let material: SecretKey
            do throws(KeybagError) {
                material = try Self.hash(
                    passphrase, salt: slot.salt,
                    cost: Argon2Parameters(passes: slot.passes, memory: slot.memory))
            } catch {
                // Another slot may still open. This error is thrown if none does.
                failure = error
                continue
            }
            let keys = try material.withBytes { bytes throws(KeybagError) in
                try openFull(slot, material: bytes, device: device)
            }
            if let keys { return OpenedSlot(id: slot.slotID, keys: keys) }
        }
        throw failure
    }

    /// Anyone can add slots to a keybag, so the work of trying them all is bounded.
    private static func refuseTooMuchWork(_ tried: [SlotLayout]) throws(KeybagError) {
        var work: UInt64 = 0
        for slot in tried {
            let (cost, isTooMuch) = slot.memory.multipliedReportingOverflow(by: UInt64(slot.passes))
            guard !isTooMuch, cost <= SlotLayout.acceptedWork, work + cost <= SlotLayout.acceptedWork else {
                throw .passwordHashesRefused(slots: tried.count)
            }
            work += cost
        }
    }

    /// Runs Argon2id, within the accepted limits and this machine's memory.
    static func hash(
        _ passphrase: Span<UInt8>, salt: InlineArray<16, UInt8>, cost: Argon2Parameters
    ) throws(KeybagError) -> SecretKey {
        do throws(SodiumError) {
            return try PasswordHash.argon2id(passphrase, salt: salt.span, parameters: cost)
        } catch .passwordHashMemory {
            throw .passwordHashRefused(passes: cost.passes, memory: cost.memory)
        } catch {
            throw .memory(error)
        }
    }

    private func openFull(
        _ slot: SlotLayout, material: Span<UInt8>, device: Span<UInt8>
    ) throws(KeybagError) -> VolumeKeys? {
        guard let bundle = try open(slot, material: material, device: device) else { return nil }
        let keys = VolumeKeys.parse(bundle, volumeID: volumeID, slot: slot.slotID, generations: generations)
        guard let keys else {
            throw .malformedBundle(slot: slot.slotID)
        }
        return keys
    }

    /// The slots of `kind`, in the order in which they are tried.
    private func slots(of kind: SlotLayout.Kind) -> [SlotLayout] {
        layout.slots.compactMap(\.known).filter { $0.kind == kind }
    }

    /// The slot's bundle. Nil if the key material is not this slot's.
    private func open(
        _ slot: SlotLayout, material: Span<UInt8>, device: Span<UInt8>
    ) throws(KeybagError) -> SecretBytes? {
        let opening: SlotCipher.Opening
        do throws(SodiumError) {
            opening = try SlotCipher.open(slot, volumeID: volumeID, material: material, device: device)
        } catch {
            throw .memory(error)
        }
        switch consume opening {
        case .bundle(let bundle): return bundle
        case .wrongMaterial: return nil
        case .damaged: throw .malformedBundle(slot: slot.slotID)
        }
    }
}

/// A slot that has opened.
struct OpenedSlot: ~Copyable {
    let id: UInt32
    let keys: VolumeKeys
}
