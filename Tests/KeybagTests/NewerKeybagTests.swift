// Keybags, slots, bundle entries and TLVs of newer versions: what is refused, what is skipped, and what is kept.

import SodiumKit
import Testing
import VolumeFormat

@testable import Keybag

@Suite struct NewerKeybagTests {
    /// A slot of kind 4 with a label and a date, behind lengths of its own.
    private static let tpm: [UInt8] = {
        var values = TypeLengthValues()
        values[SlotLabel.nameType] = Array("the TPM 💻".utf8)
        values[SlotLabel.dateType] = [9, 0, 0, 0, 0, 0, 0, 0]
        values[0x8009] = [1, 2, 3]
        var slot = [UInt8](repeating: 0x5a, count: 300)
        var bytes = slot.mutableSpan
        bytes.storeLittleEndian(300 as UInt16, at: 0)
        bytes.storeLittleEndian(4 as UInt8, at: 2)
        bytes.storeLittleEndian(SlotLayout.bindDevice, at: 3)
        bytes.storeLittleEndian(70 as UInt32, at: 4)
        bytes.storeLittleEndian(UInt16(values.length), at: 10)
        values.store(into: &bytes, at: SlotLayout.fixedLength)
        return slot
    }()
    private static let shortest: [UInt8] = [8, 0, 255, 0, 50, 0, 0, 0]

    private struct Made: ~Copyable {
        let device: SecretKey
        let bag: Keybag
        let keys: VolumeKeys
        let recovery: SecretBytes
    }

    /// A keybag with a device key and the passphrase "one", changed by `change`.
    private func make(_ change: (inout KeybagLayout) -> Void) throws -> Made {
        let device = try SecretKey.random()
        let new = try Keybag.create(
            suite: .aes256GCM, passphrase: try secret("one"), deviceKey: device, cost: cheap, label: "made")
        var layout = new.bag.layout
        change(&layout)
        let bag = try Keybag(signing: layout, new.keys)
        return Made(device: device, bag: bag, keys: try new.keys.copy(), recovery: try new.recoveryCode.copy())
    }

    private func newer(_ bag: Keybag) -> [[UInt8]] {
        bag.layout.slots.compactMap { if case .newer(let slot) = $0 { slot.bytes } else { nil } }
    }

    @Test func newerSlotsSurviveEveryChange() throws {
        let made = try make { layout in
            layout.slots.insert(.newer(NewerSlot(bytes: Self.tpm)), at: 0)
            layout.slots.insert(.newer(NewerSlot(bytes: Self.shortest)), at: 2)
            // A passphrase slot that asks for more than this program accepts.
            if var slot = layout.slots[3].known {
                slot.slotID = 60
                slot.memory = 8 << 30
                layout.slots.append(.known(slot))
            }
        }
        let kept = newer(made.bag)
        #expect(kept.count == 3 && kept[0] == Self.tpm && kept[1] == Self.shortest)
        let slots = made.bag.slots
        #expect(slots.map(\.kindNumber) == [4, 1, 255, 2, 3, 2] && slots.map(\.kind).count { $0 == nil } == 3)
        #expect(slots[0].label == SlotLabel(name: "the TPM 💻", seconds: 9) && slots[0].isBound)
        #expect(slots[2].label == SlotLabel() && !slots[2].isBound)
        _ = try made.bag.unlock(try passphrase("one"), deviceKey: made.device)
        let changed = try made.bag.changingPassphrase(
            ofSlot: slots[3].id, to: try secret("two"), deviceKey: made.device, cost: cheap, keys: made.keys)
        #expect(newer(changed) == kept && changed.slots.map(\.id) == slots.map(\.id))
        let added = try changed.addingPortablePassphrase(try secret("three"), cost: cheap, keys: made.keys)
        #expect(newer(added) == kept)
        // Numbers of newer slots are not used again.
        #expect(added.slots.last.map { $0.id > 70 } == true)
        let removed = try added.removingPassphrase(ofSlot: slots[3].id, keys: made.keys)
        #expect(newer(removed) == kept)
        let renewed = try removed.renewingRecoveryCode(keys: made.keys)
        #expect(newer(renewed.bag) == kept)
        let other = try SecretKey.random()
        let recovered = try renewed.bag.recovering(
            passphrase: try secret("four"), newDeviceKey: other, cost: cheap, keys: made.keys)
        #expect(newer(recovered) == kept)
        _ = try recovered.unlock(try passphrase("four"), deviceKey: other)
    }

    @Test func newerSlotsAreRemovedOnlyByAWord() throws {
        let made = try make { $0.slots.append(.newer(NewerSlot(bytes: Self.tpm))) }
        let bag = made.bag
        let passphrase = bag.slots[1].id
        #expect(
            keybagError { () throws(KeybagError) in _ = try bag.removingPassphrase(ofSlot: 70, keys: made.keys) }
                == .newerSlot(70))
        let more = try secret("more")
        #expect(
            keybagError { () throws(KeybagError) in
                _ = try bag.changingPassphrase(ofSlot: 70, to: more, cost: cheap, keys: made.keys)
            } == .newerSlot(70))
        #expect(try bag.removingPassphrase(ofSlot: 70, newer: true, keys: made.keys).slots.count == 3)
        // A slot of unknown kind is not a passphrase.
        #expect(
            keybagError { () throws(KeybagError) in
                _ = try bag.removingPassphrase(ofSlot: passphrase, newer: true, keys: made.keys)
            } == .lastPassphrase)
    }

    @Test func aSlotThatMustBeUnderstood() throws {
        var bytes = Self.tpm
        bytes[3] |= SlotLayout.mustBeUnderstood
        let made = try make { _ in }
        var layout = made.bag.layout
        layout.extensions[KeybagLayout.writerType] = Array("protectfs 3.1".utf8)
        layout.slots.append(.newer(NewerSlot(bytes: bytes)))
        let refused = KeybagError.newer(.unsupported("slot kind"), writer: "protectfs 3.1")
        #expect(throws: refused) { _ = try Keybag(parsing: layout.serialized()) }
        // The flag in a slot that is understood stays.
        let understood = try make { $0.slots[1].known?.mustBeUnderstood = true }
        let changed = try understood.bag.changingPassphrase(
            ofSlot: understood.bag.slots[1].id, to: try secret("two"), deviceKey: understood.device, cost: cheap,
            keys: understood.keys)
        #expect(changed.layout.slots[1].known?.mustBeUnderstood == true)
    }

    @Test func aNewerKeybagNamesItsWriter() throws {
        let made = try make { _ in }
        func error(_ offset: Int, _ value: UInt8, writer: String = "protectfs 3.1") -> KeybagError? {
            var layout = made.bag.layout
            layout.extensions[KeybagLayout.writerType] = Array(writer.utf8)
            var bytes = layout.serialized()
            bytes[offset] = value
            let changed = bytes
            return keybagError { () throws(KeybagError) in _ = try Keybag(parsing: changed) }
        }
        let writer = "protectfs 3.1"
        #expect(error(8, 3) == .newer(.version(3), writer: writer))
        #expect(error(10, 0) == .newer(.unsupported("file-header length"), writer: writer))
        #expect(error(12, 3) == .newer(.suite, writer: writer))
        #expect(error(13, 13) == .newer(.unsupported("block_log2"), writer: writer))
        #expect(error(14, 2) == .newer(.unsupported("name scheme"), writer: writer))
        #expect(error(15, 2) == .newer(.unsupported("keybag flags"), writer: writer))
        #expect(error(43, 1) == .newer(.unsupported("incompatible features"), writer: writer))
        for offset in [102, 103, 112, 127] {
            #expect(error(offset, 1) == .newer(.unsupported("reserved bytes"), writer: writer))
        }
        // The text goes to a terminal.
        #expect(error(8, 3, writer: "a\u{1b}[31m") == .newer(.version(3), writer: nil))
        #expect(error(8, 1) == .format(.version(1)))
        #expect(error(8, 0) == .format(.version(0)))
        var layout = made.bag.layout
        layout.extensions[0x8001] = []
        #expect(throws: KeybagError.newer(.unsupported("TLV"), writer: ProgramVersion.writer)) {
            _ = try Keybag(parsing: layout.serialized())
        }
    }

    @Test func whatMayBeKeptIsKept() throws {
        let made = try make { layout in
            layout.compatibleFeatures = 0xf000_0001
            layout.generations[5] = 77
            layout.extensions[0x7001] = [1, 2, 3]
            layout.extensions[KeybagLayout.writerType] = Array("somebody else 9".utf8)
            layout.slots[1].known?.extensions[0x4000] = [4, 5]
        }
        let slot = made.bag.slots[1].id
        // The slot was changed behind its seal, so it is sealed first.
        let sealed = try made.bag.changingPassphrase(
            ofSlot: slot, to: try secret("two"), deviceKey: made.device, cost: cheap, keys: made.keys)
        let again = try sealed.changingPassphrase(
            ofSlot: slot, to: try secret("three"), deviceKey: made.device, cost: cheap, label: "other",
            keys: made.keys)
        _ = try again.unlock(try passphrase("three"), deviceKey: made.device)
        #expect(again.compatibleFeatures == 0xf000_0001 && again.generations[5] == 77)
        #expect(again.layout.extensions[0x7001] == [1, 2, 3] && again.writer == ProgramVersion.writer)
        #expect(again.layout.slots[1].known?.extensions[0x4000] == [4, 5])
        #expect(sealed.slots[1].label.name == "made" && again.slots[1].label.name == "other")
        #expect(again.slots[1].label.seconds.map { $0 > 1_700_000_000 } == true)
        let nameless = try again.changingPassphrase(
            ofSlot: slot, to: try secret("four"), deviceKey: made.device, cost: cheap, label: "", keys: made.keys)
        #expect(nameless.slots[1].label.name == nil)
    }

    @Test func labels() throws {
        let made = try make { _ in }
        #expect(made.bag.slots.map(\.label.name) == ["made", "made", "made"])
        let more = try secret("more")
        for label in ["a\n", String(repeating: "ü", count: 33), "a\u{202e}b", "\u{7f}", "\u{85}"] {
            #expect(SlotLabel.text(Array(label.utf8)) == nil)
            let error = keybagError { () throws(KeybagError) in
                _ = try made.bag.addingPortablePassphrase(more, cost: cheap, label: label, keys: made.keys)
            }
            #expect(error == .unusableLabel)
        }
        #expect(SlotLabel.text([]) == nil && SlotLabel.text([0xff]) == nil)
        let longest = String(repeating: "ü", count: 32)
        let bag = try made.bag.addingPortablePassphrase(more, cost: cheap, label: longest, keys: made.keys)
        #expect(bag.slots.last?.label.name == longest)
    }

    @Test func readOnlyFeatures() throws {
        let made = try make { $0.readOnlyFeatures = 4 }
        let (bag, slot) = (made.bag, made.bag.slots[1].id)
        #expect(bag.isReadOnly)
        _ = try bag.open(deviceKey: made.device)
        _ = try bag.unlock(try passphrase("one"), deviceKey: made.device)
        _ = try bag.unlock(.recoveryCode(try made.recovery.copy()))
        let refused = KeybagError.readOnly(features: 4, writer: ProgramVersion.writer)
        let more = try secret("more")
        let other = try SecretKey.random()
        #expect(
            keybagError { () throws(KeybagError) in
                _ = try bag.addingPortablePassphrase(more, cost: cheap, keys: made.keys)
            } == refused)
        #expect(
            keybagError { () throws(KeybagError) in
                _ = try bag.changingPassphrase(
                    ofSlot: slot, to: more, deviceKey: made.device, cost: cheap, keys: made.keys)
            } == refused)
        #expect(
            keybagError { () throws(KeybagError) in _ = try bag.renewingRecoveryCode(keys: made.keys) } == refused)
        #expect(
            keybagError { () throws(KeybagError) in
                _ = try bag.recovering(passphrase: more, newDeviceKey: other, cost: cheap, keys: made.keys)
            } == refused)
    }

    @Test func aKeybagOfOneMebibyte() throws {
        let made = try make { _ in }
        var layout = made.bag.layout
        let room = KeybagLayout.maximumLength - layout.length - TypeLengthValues.headerLength
        layout.extensions[0x7000] = [UInt8](repeating: 3, count: room)
        let longest = try Keybag(signing: layout, made.keys)
        #expect(longest.bytes.count == KeybagLayout.maximumLength)
        _ = try longest.unlock(try passphrase("one"), deviceKey: made.device)
        #expect(KeybagLayout.writer(of: longest.bytes.span) == ProgramVersion.writer)
        let more = try secret("more")
        #expect(
            keybagError { () throws(KeybagError) in
                _ = try longest.addingPortablePassphrase(more, cost: cheap, keys: made.keys)
            } == .full)
        layout.extensions[0x7000] = [UInt8](repeating: 3, count: room + 1)
        #expect(
            keybagError { () throws(KeybagError) in _ = try Keybag(signing: layout, made.keys) } == .full)
        #expect(throws: KeybagError.format(.length)) { _ = try Keybag(parsing: layout.serialized()) }
    }

    /// As many slots as fit, each of a newer version: reading them takes no time to speak of.
    @Test func manyNewerSlots() throws {
        let made = try make { layout in
            for number in UInt32(1000)..<66000 {
                var slot = Self.shortest
                var bytes = slot.mutableSpan
                bytes.storeLittleEndian(number, at: 4)
                layout.slots.append(.newer(NewerSlot(bytes: slot)))
            }
        }
        #expect(made.bag.slots.count == 65003)
        _ = try made.bag.unlock(try passphrase("one"), deviceKey: made.device)
    }
}
