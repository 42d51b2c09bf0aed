// The keybag: what parses serialises to the same bytes, and its bundle entries and MAC ranges lie within it.

import VolumeFormat

func fuzz(_ bytes: Span<UInt8>) {
    guard let keybag = try? KeybagLayout(parsing: bytes) else { return }
    let again = keybag.serialized()
    check(again.span.hasSameBytes(as: bytes), "the keybag is serialised to other bytes")
    check(keybag.length == bytes.count, "the keybag has another length")
    for slot in keybag.slots {
        check(slot.entryCount >= 0, "a slot has a negative number of entries")
        let data = slot.associatedData(volume: keybag.volumeID)
        check(!data.isEmpty, "a slot has no associated data")
        for index in 0..<slot.entryCount {
            _ = try? BundleEntry(parsing: slot.bundle.span, at: index * BundleEntry.length)
        }
    }
}

func seeds() -> [[UInt8]] {
    var result: [[UInt8]] = []
    for kinds in [[SlotLayout.Kind.device], [.device, .passphrase, .recovery], [.passphrase, .passphrase]] {
        var keybag = KeybagLayout(
            suite: .aes256GCM, hasNoDeviceKey: !kinds.contains(.device),
            volumeID: VolumeID(InlineArray(repeating: 7)), publicKey: InlineArray(repeating: 9))
        keybag.serial = 3
        for (index, kind) in kinds.enumerated() {
            let isPassphrase = kind == .passphrase
            let entries = kind == .device ? 2 : 6
            keybag.slots.append(
                SlotLayout(
                    kind: kind, isBoundToDevice: isPassphrase && index == 1, slotID: UInt32(index + 1),
                    derivation: isPassphrase ? .argon2id13 : .none, passes: isPassphrase ? 3 : 0,
                    memory: isPassphrase ? 64 << 20 : 0, salt: InlineArray(repeating: 1),
                    commitment: InlineArray(repeating: 2), nonce: InlineArray(repeating: 3),
                    bundle: pattern(entries * BundleEntry.length + SlotLayout.tagLength)))
        }
        result.append(keybag.serialized())
    }
    return result
}
