// The keybag: what parses serialises to the same bytes, and its bundle entries and MAC ranges lie within it.

import VolumeFormat

enum KeybagTarget: FuzzTarget {
    static func fuzz(_ bytes: Span<UInt8>) {
        guard let keybag = try? KeybagLayout(parsing: bytes) else { return }
        let again = keybag.serialized()
        check(again.span.hasSameBytes(as: bytes), "the keybag is serialised to other bytes")
        check(keybag.length == bytes.count, "the keybag has another length")
        check(KeybagLayout.writer(of: bytes) == keybag.writer, "the writer depends on the way of reading")
        for slot in keybag.slots {
            if case .newer(let slot) = slot { _ = slot.label }
            guard let slot = slot.known else { continue }
            check(slot.entryCount >= 0, "a slot has a negative number of entries")
            check((slot.kind == .recipient) == (slot.recipient != nil), "only a recipient's slot has a recipient")
            check((slot.kind == .tpm2) == (slot.tpm2 != nil), "only a TPM's slot has what a TPM has sealed")
            check(
                (slot.kind == .securityKey) == (slot.securityKey != nil), "only a security key's slot has a credential")
            let data = slot.associatedData(volume: keybag.volumeID)
            check(!data.isEmpty, "a slot has no associated data")
            for index in 0..<slot.entryCount {
                _ = try? BundleEntry(parsing: slot.bundle.span, at: index * BundleEntry.length)
            }
        }
    }

    static func seeds() -> [[UInt8]] {
        var result: [[UInt8]] = []
        let lists: [[SlotLayout.Kind]] = [
            [.device], [.device, .passphrase, .recovery, .recipient, .tpm2, .securityKey], [.passphrase, .passphrase],
        ]
        for kinds in lists {
            var keybag = KeybagLayout(
                suite: .aes256GCM, hasNoDeviceKey: !kinds.contains(.device),
                volumeID: VolumeID(InlineArray(repeating: 7)), publicKey: InlineArray(repeating: 9))
            keybag.serial = 3
            for (index, kind) in kinds.enumerated() {
                let isPassphrase = kind == .passphrase
                let entries = kind == .device ? 2 : 8
                var slot = SlotLayout(
                    kind: kind, isBoundToDevice: isPassphrase && index == 1, slotID: UInt32(index + 1),
                    derivation: isPassphrase ? .argon2id13 : .none, passes: isPassphrase ? 3 : 0,
                    memory: isPassphrase ? 64 << 20 : 0, salt: InlineArray(repeating: 1),
                    commitment: InlineArray(repeating: 2), nonce: InlineArray(repeating: 3),
                    bundle: pattern(entries * BundleEntry.length + SlotLayout.tagLength))
                slot.label = SlotLabel(name: isPassphrase ? "label" : nil, seconds: 1 << 31)
                if kind == .tpm2 {
                    slot.tpm2 = SlotTPM2(
                        hasPIN: true, pcrs: 1 << 7, pinSalt: InlineArray(repeating: 5),
                        parentName: pattern(SlotTPM2.nameLength), publicPart: pattern(80), privatePart: pattern(160))
                }
                if kind == .recipient {
                    slot.recipient = SlotRecipient(
                        publicKey: InlineArray(repeating: 4), sealed: pattern(SlotRecipient.sealedLength))
                }
                if kind == .securityKey {
                    slot.securityKey = SlotSecurityKey(
                        usesPIN: true, salt: InlineArray(repeating: 5), credential: pattern(64))
                }
                keybag.slots.append(.known(slot))
            }
            keybag.extensions[KeybagLayout.writerType] = Array("protectfs 9".utf8)
            keybag.slots.append(.newer(NewerSlot(bytes: [12, 0, 4, 1, 99, 0, 0, 0, 1, 2, 3, 4])))
            result.append(keybag.serialized())
        }
        return result
    }
}
