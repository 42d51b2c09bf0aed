// Makes a new keybag with new keys and the slots that open them.

package import SodiumKit
package import VolumeFormat

/// The results of making a volume's keybag.
package struct NewKeybag: ~Copyable, Sendable {
    /// The keybag, for the caller to write and pin.
    package let bag: Keybag
    /// Every key, verified.
    package let keys: VolumeKeys
    /// The recovery code's 35 characters, to be shown once and never stored.
    package let recoveryCode: SecretBytes
}

extension Keybag {
    /// Makes the keybag of a new volume with a device key: slots for the device key, the passphrase and a recovery code.
    ///
    /// - Parameters:
    ///   - portable: the passphrase also works without the device key, so it can be brute-forced from a copy of the volume.
    ///   - cost: the cost of one guess; `PasswordHash.calibrated()` outside of tests.
    ///   - label: the name of the slots, for people. Anyone with the volume can read it.
    package static func create(
        suite: CipherSuite, passphrase: borrowing SecretBytes, portable: Bool = false,
        deviceKey: borrowing SecretKey, cost: Argon2Parameters, label: String? = nil
    ) throws(KeybagError) -> NewKeybag {
        try deviceKey.withBytes { device throws(KeybagError) in
            try create(
                suite: suite, passphrase: passphrase, portable: portable, device: device, cost: cost, label: label)
        }
    }

    /// Makes the keybag of a new volume without a device key. Mounting it asks for the passphrase.
    package static func create(
        suite: CipherSuite, passphrase: borrowing SecretBytes, cost: Argon2Parameters, label: String? = nil
    ) throws(KeybagError) -> NewKeybag {
        try create(
            suite: suite, passphrase: passphrase, portable: true, device: Span<UInt8>(), cost: cost, label: label)
    }

    private static func create(
        suite: CipherSuite, passphrase: borrowing SecretBytes, portable: Bool, device: Span<UInt8>,
        cost: Argon2Parameters, label: String?
    ) throws(KeybagError) -> NewKeybag {
        let volumeID = VolumeID(random: randomInlineBytes())
        let keys = try secretMemory { () throws(SodiumError) in try VolumeKeys.random(volumeID: volumeID) }
        let publicKey = X25519.publicKey(
            of: try secretMemory { () throws(SodiumError) in try keys.key(.classKey(.completeUnlessOpen)) })
        var editor = KeybagEditor(
            KeybagLayout(
                suite: suite, hasNoDeviceKey: device.isEmpty, volumeID: volumeID,
                publicKey: publicKey))
        editor.layout.serial = 0
        if !device.isEmpty {
            try editor.vouch(by: device)
            try editor.addDevice(device, label: label, keys: keys)
        }
        try editor.addPassphrase(
            passphrase, bound: !portable, device: device, cost: cost, label: label, keys: keys)
        let code = try editor.addRecovery(label: label, keys: keys)
        let bag = try Keybag(signing: editor.layout, keys)
        return NewKeybag(bag: bag, keys: keys, recoveryCode: code)
    }
}
