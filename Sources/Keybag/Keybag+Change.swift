// Changes of a keybag. Each verifies the old keybag with the given keys and makes a new one with a higher serial.

package import SodiumKit
import VolumeFormat

/// A keybag with a new recovery code.
package struct RenewedKeybag: ~Copyable, Sendable {
    /// The keybag, for the caller to write and pin.
    package let bag: Keybag
    /// The recovery code's 35 characters, to be shown once and never stored.
    package let recoveryCode: SecretBytes
}

extension Keybag {
    /// Adds a passphrase.
    ///
    /// - Parameter device: lends the device key to bind the passphrase to it. Nil makes a portable passphrase.
    package func addingPassphrase(
        _ passphrase: borrowing SecretBytes, boundTo device: borrowing SecretKey, cost: Argon2Parameters,
        keys: borrowing VolumeKeys
    ) throws(KeybagError) -> Keybag {
        try device.withBytes { device throws(KeybagError) in
            try adding(passphrase, bound: true, device: device, cost: cost, keys: keys)
        }
    }

    /// Adds a passphrase that works without the device key.
    package func addingPortablePassphrase(
        _ passphrase: borrowing SecretBytes, cost: Argon2Parameters, keys: borrowing VolumeKeys
    ) throws(KeybagError) -> Keybag {
        try adding(passphrase, bound: false, device: Span<UInt8>(), cost: cost, keys: keys)
    }

    /// Replaces the passphrase of slot `id`, which stays portable or bound as it was.
    ///
    /// - Throws: `noSuchSlot`, `notAPassphraseSlot`, and the errors of adding.
    package func changingPassphrase(
        ofSlot id: UInt32, to passphrase: borrowing SecretBytes, deviceKey: borrowing SecretKey,
        cost: Argon2Parameters, keys: borrowing VolumeKeys
    ) throws(KeybagError) -> Keybag {
        try deviceKey.withBytes { device throws(KeybagError) in
            try changing(id, to: passphrase, device: device, cost: cost, keys: keys)
        }
    }

    /// The same without a device key. A slot that is bound to one throws `deviceKeyNeeded`.
    package func changingPassphrase(
        ofSlot id: UInt32, to passphrase: borrowing SecretBytes, cost: Argon2Parameters,
        keys: borrowing VolumeKeys
    ) throws(KeybagError) -> Keybag {
        try changing(id, to: passphrase, device: Span<UInt8>(), cost: cost, keys: keys)
    }

    /// Removes the passphrase of slot `id`.
    ///
    /// - Throws: `noSuchSlot`, `notAPassphraseSlot`, `lastPassphrase`.
    package func removingPassphrase(ofSlot id: UInt32, keys: borrowing VolumeKeys) throws(KeybagError) -> Keybag {
        let index = try passphraseIndex(id)
        guard layout.slots.filter({ $0.kind == .passphrase }).count > 1 else { throw .lastPassphrase }
        return try edited(with: keys) { (editor: inout KeybagEditor) throws(KeybagError) in
            editor.layout.slots.remove(at: index)
            try editor.raiseSerial()
        }
    }

    /// Makes a new recovery code. The old one stops working.
    package func renewingRecoveryCode(keys: borrowing VolumeKeys) throws(KeybagError) -> RenewedKeybag {
        var code: SecretBytes?
        let bag = try edited(with: keys) { (editor: inout KeybagEditor) throws(KeybagError) in
            editor.layout.slots.removeAll { $0.kind == .recovery }
            code = try editor.addRecovery(keys: keys)
        }
        guard let code else { throw .full }
        return RenewedKeybag(bag: bag, recoveryCode: code)
    }

    /// Moves the volume to a new device. Its key replaces every device slot, the passphrases bound to the old key are removed,
    /// and `passphrase` is added.
    package func recovering(
        passphrase: borrowing SecretBytes, portable: Bool = false, newDeviceKey: borrowing SecretKey,
        cost: Argon2Parameters, keys: borrowing VolumeKeys
    ) throws(KeybagError) -> Keybag {
        guard hasDeviceKey else { throw .noDeviceSlot }
        return try newDeviceKey.withBytes { device throws(KeybagError) in
            try edited(with: keys) { (editor: inout KeybagEditor) throws(KeybagError) in
                editor.layout.slots.removeAll { $0.kind == .device || $0.isBoundToDevice }
                try editor.addDevice(device, keys: keys)
                try editor.addPassphrase(passphrase, bound: !portable, device: device, cost: cost, keys: keys)
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
        _ = try open(deviceKey: deviceKey)
        return try deviceKey.withBytes { device throws(KeybagError) in
            try passphrase.withBytes { bytes throws(KeybagError) in
                try passphraseSlot(openedBy: bytes, device: device).id
            }
        }
    }

    /// The same without a device key.
    package func slot(openedBy passphrase: borrowing SecretBytes) throws(KeybagError) -> UInt32 {
        try passphrase.withBytes { bytes throws(KeybagError) in
            try passphraseSlot(openedBy: bytes, device: Span<UInt8>()).id
        }
    }

    private func adding(
        _ passphrase: borrowing SecretBytes, bound: Bool, device: Span<UInt8>, cost: Argon2Parameters,
        keys: borrowing VolumeKeys
    ) throws(KeybagError) -> Keybag {
        guard !bound || hasDeviceKey else { throw .noDeviceSlot }
        return try edited(with: keys) { (editor: inout KeybagEditor) throws(KeybagError) in
            try editor.addPassphrase(passphrase, bound: bound, device: device, cost: cost, keys: keys)
        }
    }

    private func changing(
        _ id: UInt32, to passphrase: borrowing SecretBytes, device: Span<UInt8>, cost: Argon2Parameters,
        keys: borrowing VolumeKeys
    ) throws(KeybagError) -> Keybag {
        let index = try passphraseIndex(id)
        let bound = layout.slots[index].isBoundToDevice
        return try edited(with: keys) { (editor: inout KeybagEditor) throws(KeybagError) in
            try editor.addPassphrase(
                passphrase, bound: bound, device: device, cost: cost, keys: keys, replacing: index)
        }
    }

    private func passphraseIndex(_ id: UInt32) throws(KeybagError) -> Int {
        guard let index = layout.slots.firstIndex(where: { $0.slotID == id }) else { throw .noSuchSlot(id) }
        guard layout.slots[index].kind == .passphrase else { throw .notAPassphraseSlot(id) }
        return index
    }

    /// A changed copy. A keybag that does not verify is never signed again.
    private func edited(
        with keys: borrowing VolumeKeys, _ change: (inout KeybagEditor) throws(KeybagError) -> Void
    ) throws(KeybagError) -> Keybag {
        try verify(keys)
        var editor = KeybagEditor(layout)
        try change(&editor)
        return try Keybag(signing: editor.layout, metadata: keys.metadata, unlock: keys.unlock)
    }
}
