// Changes of a keybag. Each verifies the old keybag with the given keys and makes a new one with a higher serial.

package import SodiumKit
package import VolumeFormat

/// A keybag with a new recovery code.
package struct RenewedKeybag: ~Copyable, Sendable {
    /// The keybag, for the caller to write and pin.
    package let bag: Keybag
    /// The recovery code's 35 characters, to be shown once and never stored.
    package let recoveryCode: SecretBytes
}

extension Keybag {
    /// Adds a passphrase that works only together with the device key.
    ///
    /// - Parameter label: the name of the slot, for people. Anyone with the volume can read it.
    package func addingPassphrase(
        _ passphrase: borrowing SecretBytes, boundTo device: borrowing SecretKey, cost: Argon2Parameters,
        label: String? = nil, keys: borrowing VolumeKeys
    ) throws(KeybagError) -> Keybag {
        try device.withBytes { device throws(KeybagError) in
            try adding(passphrase, bound: true, device: device, cost: cost, label: label, keys: keys)
        }
    }

    /// Adds a passphrase that works without the device key.
    package func addingPortablePassphrase(
        _ passphrase: borrowing SecretBytes, cost: Argon2Parameters, label: String? = nil,
        keys: borrowing VolumeKeys
    ) throws(KeybagError) -> Keybag {
        try adding(passphrase, bound: false, device: Span<UInt8>(), cost: cost, label: label, keys: keys)
    }

    /// Adds a recipient: the private key of `publicKey` opens the volume, on any machine.
    ///
    /// - Throws: `unusableRecipient`, and the errors of adding.
    package func addingRecipient(
        _ publicKey: InlineArray<32, UInt8>, label: String? = nil, keys: borrowing VolumeKeys
    ) throws(KeybagError) -> Keybag {
        try edited(with: keys) { (editor: inout KeybagEditor) throws(KeybagError) in
            try editor.addRecipient(publicKey, label: label, keys: keys)
        }
    }

    /// Adds a TPM. If the volume has a device key, the slot needs it too.
    ///
    /// - Parameters:
    ///   - tpm2: what the TPM has sealed.
    ///   - material: the slot's material, as `TPM2PIN` gives it, or what the TPM unseals.
    /// - Throws: `deviceKeyNeeded`, and the errors of adding.
    package func addingTPM2(
        _ tpm2: SlotTPM2, material: borrowing SecretBytes, deviceKey: borrowing SecretKey?, label: String? = nil,
        keys: borrowing VolumeKeys
    ) throws(KeybagError) -> Keybag {
        guard hasDeviceKey else {
            return try edited(with: keys) { (editor: inout KeybagEditor) throws(KeybagError) in
                try editor.addTPM2(tpm2, material: material, device: Span<UInt8>(), label: label, keys: keys)
            }
        }
        switch deviceKey {
        case .none: throw .deviceKeyNeeded
        case .some(let key):
            return try key.withBytes { device throws(KeybagError) in
                try edited(with: keys) { (editor: inout KeybagEditor) throws(KeybagError) in
                    try editor.addTPM2(tpm2, material: material, device: device, label: label, keys: keys)
                }
            }
        }
    }

    /// Adds a security key, which opens the volume on any machine.
    ///
    /// - Parameter secret: what the key gave for the credential and the salt of `key`.
    /// - Throws: `wrongSecurityKey` if the secret has another length, and the errors of adding.
    package func addingSecurityKey(
        _ key: SlotSecurityKey, secret: borrowing SecretBytes, label: String? = nil, keys: borrowing VolumeKeys
    ) throws(KeybagError) -> Keybag {
        try edited(with: keys) { (editor: inout KeybagEditor) throws(KeybagError) in
            try editor.addSecurityKey(key, secret: secret, label: label, keys: keys)
        }
    }

    /// Replaces the passphrase of slot `id`, which stays portable or bound as it was.
    ///
    /// - Parameter label: the new name of the slot; nil keeps its name, and an empty one removes it.
    /// - Throws: `noSuchSlot`, `notAPassphraseSlot`, `newerSlot`, and the errors of adding.
    package func changingPassphrase(
        ofSlot id: UInt32, to passphrase: borrowing SecretBytes, deviceKey: borrowing SecretKey,
        cost: Argon2Parameters, label: String? = nil, keys: borrowing VolumeKeys
    ) throws(KeybagError) -> Keybag {
        try deviceKey.withBytes { device throws(KeybagError) in
            try changing(id, to: passphrase, device: device, cost: cost, label: label, keys: keys)
        }
    }

    /// The same without a device key. A slot that is bound to one throws `deviceKeyNeeded`.
    package func changingPassphrase(
        ofSlot id: UInt32, to passphrase: borrowing SecretBytes, cost: Argon2Parameters, label: String? = nil,
        keys: borrowing VolumeKeys
    ) throws(KeybagError) -> Keybag {
        try changing(id, to: passphrase, device: Span<UInt8>(), cost: cost, label: label, keys: keys)
    }

    /// Removes slot `id`, unless it is the device's, the only passphrase, or the only slot that opens without the device key.
    ///
    /// - Parameter newer: whether to remove a slot of a newer version too, whatever opens it.
    /// - Throws: `noSuchSlot`, `deviceSlot`, `newerSlot`, `lastPassphrase`, `lastPortableSlot`.
    package func removingSlot(
        _ id: UInt32, newer: Bool = false, keys: borrowing VolumeKeys
    ) throws(KeybagError) -> Keybag {
        let index = try slotIndex(id, newer: newer)
        guard layout.slots[index].known?.kind != .device else { throw .deviceSlot(id) }
        return try removing(slotAt: index, keys: keys)
    }

    /// Makes a new recovery code. The old one stops working.
    package func renewingRecoveryCode(
        label: String? = nil, keys: borrowing VolumeKeys
    ) throws(KeybagError) -> RenewedKeybag {
        var code: SecretBytes?
        let bag = try edited(with: keys) { (editor: inout KeybagEditor) throws(KeybagError) in
            editor.layout.slots.removeAll { $0.known?.kind == .recovery }
            code = try editor.addRecovery(label: label, keys: keys)
        }
        guard let code else { throw .full }
        return RenewedKeybag(bag: bag, recoveryCode: code)
    }

    /// Moves the volume to a new device. Its key replaces every device slot, the passphrases bound to the old key are removed,
    /// and `passphrase` is added. Slots of a newer version are kept.
    ///
    /// - Parameter oldDeviceKey: the device key before, if it is at hand. Machines that know it then know the new one.
    package func recovering(
        passphrase: borrowing SecretBytes, portable: Bool = false, newDeviceKey: borrowing SecretKey,
        oldDeviceKey: borrowing SecretKey? = nil, cost: Argon2Parameters, label: String? = nil,
        keys: borrowing VolumeKeys
    ) throws(KeybagError) -> Keybag {
        guard hasDeviceKey else { throw .noDeviceSlot }
        return try newDeviceKey.withBytes { device throws(KeybagError) in
            try edited(with: keys) { (editor: inout KeybagEditor) throws(KeybagError) in
                editor.layout.slots.removeAll { slot in
                    slot.known.map { $0.kind == .device || $0.isBoundToDevice } ?? false
                }
                try editor.vouch(by: device, after: oldDeviceKey)
                try editor.addDevice(device, label: label, keys: keys)
                try editor.addPassphrase(
                    passphrase, bound: !portable, device: device, cost: cost, label: label, keys: keys)
            }
        }
    }

    /// The passphrase slot that `credential` opens, for `passphrase change` without a number.
    ///
    /// - Throws: the errors of `unlock`.
    package func slot(
        openedBy passphrase: borrowing SecretBytes, deviceKey: borrowing SecretKey
    ) throws(KeybagError) -> UInt32 {
        // As in `unlock`, the costs of the password hash are not trusted before the first MAC is checked.
        let isAuthenticated = opensWithDeviceKey
        if isAuthenticated { _ = try open(deviceKey: deviceKey) }
        return try deviceKey.withBytes { device throws(KeybagError) in
            try passphrase.withBytes { bytes throws(KeybagError) in
                try passphraseSlot(openedBy: bytes, device: device, isAuthenticated: isAuthenticated).id
            }
        }
    }

    /// The same without a device key.
    package func slot(openedBy passphrase: borrowing SecretBytes) throws(KeybagError) -> UInt32 {
        try passphrase.withBytes { bytes throws(KeybagError) in
            try passphraseSlot(openedBy: bytes, device: Span<UInt8>(), isAuthenticated: false).id
        }
    }

    private func adding(
        _ passphrase: borrowing SecretBytes, bound: Bool, device: Span<UInt8>, cost: Argon2Parameters,
        label: String?, keys: borrowing VolumeKeys
    ) throws(KeybagError) -> Keybag {
        guard !bound || hasDeviceKey else { throw .noDeviceSlot }
        return try edited(with: keys) { (editor: inout KeybagEditor) throws(KeybagError) in
            try editor.addPassphrase(
                passphrase, bound: bound, device: device, cost: cost, label: label, keys: keys)
        }
    }

    private func changing(
        _ id: UInt32, to passphrase: borrowing SecretBytes, device: Span<UInt8>, cost: Argon2Parameters,
        label: String?, keys: borrowing VolumeKeys
    ) throws(KeybagError) -> Keybag {
        let index = try passphraseIndex(id)
        let bound = layout.slots[index].known?.isBoundToDevice ?? false
        return try edited(with: keys) { (editor: inout KeybagEditor) throws(KeybagError) in
            try editor.addPassphrase(
                passphrase, bound: bound, device: device, cost: cost, label: label, keys: keys, replacing: index)
        }
    }

    private func removing(slotAt index: Int, keys: borrowing VolumeKeys) throws(KeybagError) -> Keybag {
        // Nobody knows what opens a newer slot, so it does not count as a way in.
        if let removed = layout.slots[index].known {
            let others = layout.slots.indices.compactMap { $0 == index ? nil : layout.slots[$0].known }
            let isLast = !others.contains { $0.kind == removed.kind }
            if removed.kind == .passphrase, isLast { throw .lastPassphrase }
            if removed.isPortable, !others.contains(where: \.isPortable) { throw .lastPortableSlot }
        }
        return try edited(with: keys) { (editor: inout KeybagEditor) throws(KeybagError) in
            editor.layout.slots.remove(at: index)
            try editor.raiseSerial()
        }
    }

    private func passphraseIndex(_ id: UInt32) throws(KeybagError) -> Int {
        let index = try slotIndex(id, newer: false)
        if let slot = layout.slots[index].known, slot.kind != .passphrase { throw .notAPassphraseSlot(id) }
        return index
    }

    private func slotIndex(_ id: UInt32, newer: Bool) throws(KeybagError) -> Int {
        guard let index = layout.slots.firstIndex(where: { $0.slotID == id }) else { throw .noSuchSlot(id) }
        guard newer || layout.slots[index].known != nil else { throw .newerSlot(id) }
        return index
    }

    /// A changed copy. A keybag that does not verify is never signed again.
    private func edited(
        with keys: borrowing VolumeKeys, _ change: (inout KeybagEditor) throws(KeybagError) -> Void
    ) throws(KeybagError) -> Keybag {
        try requireWritable()
        try verify(keys)
        var editor = KeybagEditor(layout)
        try change(&editor)
        return try Keybag(signing: editor.layout, keys)
    }
}
