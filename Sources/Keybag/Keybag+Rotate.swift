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

extension Keybag {
    /// The slots that a change of keys drops: all but the device's, the recovery code's, those of recipients, and the one that gave
    /// `keys`.
    package func slotsWithoutSecret(_ keys: borrowing VolumeKeys) -> [SlotSummary] {
        let opened = keys.slot
        return slots.filter { $0.id != opened && ![.device, .recovery, .recipient].contains($0.kind) }
    }

    /// Makes a new key, of the next generation, for each of `classes` and for the class that is reserved, and a new U. The former
    /// class keys stay in the bundle, because files need them. The recovery code is a new one.
    ///
    /// - Parameters:
    ///   - passphrase: the one that gave `keys`.
    ///   - deviceKey: the volume's device key. Nil only if it has none.
    /// - Throws: `deviceKeyNeeded`, `newerDeviceSlot`, `notAPassphraseSlot` if `keys` are not a passphrase's, and
    ///   `numbersUsedUp` if a class has had every generation.
    package func rotating(
        _ classes: [ProtectionClass], passphrase: borrowing SecretBytes, deviceKey: borrowing SecretKey?,
        keys: borrowing VolumeKeys
    ) throws(KeybagError) -> RotatedKeybag {
        try resealed(try keys.rotated(classes), passphrase, deviceKey, code: nil, verifying: keys)
    }

    /// Takes class keys out of the bundle that are not in use any more.
    ///
    /// - Parameters:
    ///   - former: the keys. Those that new wraps use stay.
    ///   - code: the recovery code that stays valid. Nil makes a new one.
    /// - Throws: as `rotating`.
    package func dropping(
        _ former: Set<FormerKey>, passphrase: borrowing SecretBytes, deviceKey: borrowing SecretKey?,
        code: borrowing SecretBytes?, keys: borrowing VolumeKeys
    ) throws(KeybagError) -> RotatedKeybag {
        try resealed(try keys.dropping(former), passphrase, deviceKey, code: code, verifying: keys)
    }

    private func resealed(
        _ next: consuming VolumeKeys, _ passphrase: borrowing SecretBytes, _ deviceKey: borrowing SecretKey?,
        code: borrowing SecretBytes?, verifying keys: borrowing VolumeKeys
    ) throws(KeybagError) -> RotatedKeybag {
        try requireWritable()
        try verify(keys)
        if let newer = newerDeviceSlot { throw .newerDeviceSlot(newer) }
        var editor = KeybagEditor(layout)
        editor.layout.slots = layout.slots.filter { $0.slotID == keys.slot }
        guard let slot = editor.layout.slots.first?.known, slot.kind == .passphrase else {
            throw .notAPassphraseSlot(keys.slot ?? 0)
        }
        let generations = next.generations
        for index in 1..<8 { editor.layout.generations[index] = generations[index] }
        editor.layout.publicKey = X25519.publicKey(
            of: try secretMemory { () throws(SodiumError) in try next.key(.classKey(.completeUnlessOpen)) })
        let cost = Argon2Parameters(passes: slot.passes, memory: slot.memory)
        switch deviceKey {
        case .some(let key):
            try key.withBytes { device throws(KeybagError) in
                if hasDeviceKey { try editor.addDevice(device, label: label(of: .device), keys: next) }
                try editor.addPassphrase(
                    passphrase, bound: slot.isBoundToDevice, device: device, cost: cost, label: nil, keys: next,
                    replacing: 0)
            }
        case .none:
            guard !hasDeviceKey else { throw .deviceKeyNeeded }
            try editor.addPassphrase(
                passphrase, bound: false, device: Span<UInt8>(), cost: cost, label: nil, keys: next, replacing: 0)
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
