// Passphrases added, changed and removed, the recovery code renewed and used; the state file's pins.

import SodiumKit
import Testing
import VolumeFormat

@testable import Keybag

@Suite struct KeybagChangeTests {
    @Test func addChangeRemove() throws {
        let device = try SecretKey.random()
        let new = try Keybag.create(suite: .aes256GCM, passphrase: try secret("one"), deviceKey: device, cost: cheap)
        let two = try new.bag.addingPortablePassphrase(try secret("two"), cost: cheap, keys: new.keys)
        #expect(two.serial == new.bag.serial + 1)
        _ = try two.unlock(try passphrase("two"))
        _ = try two.unlock(try passphrase("two"), deviceKey: device)
        _ = try two.unlock(try passphrase("one"), deviceKey: device)
        let id = try two.slot(openedBy: try secret("two"))
        #expect(id == two.slots.last?.id)
        let three = try two.changingPassphrase(ofSlot: id, to: try secret("three"), cost: cheap, keys: new.keys)
        #expect(three.serial == two.serial + 1)
        #expect(three.slots.map(\.id) == two.slots.map(\.id))
        let old = try passphrase("two")
        #expect(keybagError { () throws(KeybagError) in _ = try three.unlock(old) } == .deviceKeyNeeded)
        _ = try three.unlock(try passphrase("three"))
        let removed = try three.removingSlot(id, keys: new.keys)
        #expect(removed.slots.count == 3)
        let gone = try passphrase("three")
        #expect(
            keybagError { () throws(KeybagError) in _ = try removed.unlock(gone, deviceKey: device) }
                == .wrongPassphrase)
        // The ID of a removed slot is not used again.
        let again = try removed.addingPassphrase(try secret("four"), boundTo: device, cost: cheap, keys: new.keys)
        #expect(again.slots.last.map { $0.id > id } == true)
        #expect(again.slots.last?.isBound == true)
    }

    private func sealed(pcrs: UInt32 = 1 << 7) throws -> SlotTPM2 {
        try #require(
            SlotTPM2(
                hasPIN: false, pcrs: pcrs, pinSalt: InlineArray(repeating: 1),
                parentName: [UInt8](repeating: 2, count: SlotTPM2.nameLength), publicPart: [3], privatePart: [4]))
    }

    @Test func tpms() throws {
        let device = try SecretKey.random()
        let new = try Keybag.create(suite: .aes256GCM, passphrase: try secret("one"), deviceKey: device, cost: cheap)
        let (material, tpm) = ("thirty-two bytes that a TPM gave", try sealed())
        let right = try secret(material)
        let short = try secret("short")
        let held: SecretKey? = try device.copy()
        #expect(
            keybagError { () throws(KeybagError) in
                _ = try new.bag.addingTPM2(tpm, material: right, deviceKey: nil, keys: new.keys)
            } == .deviceKeyNeeded)
        #expect(
            keybagError { () throws(KeybagError) in
                _ = try new.bag.addingTPM2(tpm, material: short, deviceKey: held, keys: new.keys)
            } == .wrongTPM2)
        let two = try new.bag.addingTPM2(
            tpm, material: right, deviceKey: held, label: "laptop", keys: new.keys)
        let slot = try #require(two.slots.last)
        #expect(try slot.kind == .tpm2 && slot.isBound && slot.tpm2 == tpm && slot.tpm2 != sealed(pcrs: 0))
        let credential = Credential.tpm2(try secret(material))
        #expect(try two.unlock(credential, deviceKey: device).slot == slot.id)
        #expect(keybagError { () throws(KeybagError) in _ = try two.unlock(credential) } == .tpm2NeedsDeviceKey)
        for wrong in ["what another TPM gave, 32 bytes.", "short"] {
            let credential = Credential.tpm2(try secret(wrong))
            #expect(
                keybagError { () throws(KeybagError) in _ = try two.unlock(credential, deviceKey: device) }
                    == .wrongTPM2)
        }
        // It is no way in on other machines, so the recovery code stays; and a rotation drops it.
        let recovery = try #require(two.slots.first { $0.kind == .recovery })
        #expect(
            keybagError { () throws(KeybagError) in _ = try two.removingSlot(recovery.id, keys: new.keys) }
                == .lastPortableSlot)
        #expect(two.slotsWithoutSecret(new.keys).map(\.id).contains(slot.id))
        let three = try two.removingSlot(slot.id, keys: two.unlock(credential, deviceKey: device))
        #expect(
            keybagError { () throws(KeybagError) in _ = try three.unlock(credential, deviceKey: device) }
                == .wrongTPM2)
        // Without a device key the slot needs none.
        let free = try Keybag.create(suite: .aes256GCM, passphrase: try secret("one"), cost: cheap)
        let bag = try free.bag.addingTPM2(tpm, material: right, deviceKey: nil, keys: free.keys)
        #expect(try bag.unlock(credential).slot == bag.slots.last?.id)
    }

    @Test func recipients() throws {
        let device = try SecretKey.random()
        let new = try Keybag.create(suite: .aes256GCM, passphrase: try secret("one"), deviceKey: device, cost: cheap)
        let pair = try RecipientKey.Pair()
        let other = try RecipientKey.Pair()
        let publicKey = try RecipientKey.publicKey(from: Array(pair.publicText.utf8).span)
        let two = try new.bag.addingRecipient(publicKey, label: "escrow", keys: new.keys)
        let slot = try #require(two.slots.last)
        #expect(slot.kind == .recipient && slot.recipient == pair.publicText && !slot.isBound)
        let credential = Credential.recipientKey(try pair.privateText.copy())
        #expect(try two.unlock(credential).slot == slot.id)
        #expect(try two.unlock(credential, deviceKey: device).slot == slot.id)
        let stranger = Credential.recipientKey(try other.privateText.copy())
        #expect(keybagError { () throws(KeybagError) in _ = try two.unlock(stranger) } == .wrongRecipientKey)
        let code = Credential.recipientKey(try secret("not a key"))
        #expect(keybagError { () throws(KeybagError) in _ = try two.unlock(code) } == .recipientKeyTypo)
        let low = InlineArray<32, UInt8>(repeating: 0)
        #expect(
            keybagError { () throws(KeybagError) in _ = try two.addingRecipient(low, keys: new.keys) }
                == .unusableRecipient)
        // It survives other changes, and what it opens can make them.
        let three = try two.addingPortablePassphrase(try secret("two"), cost: cheap, keys: two.unlock(credential))
        #expect(try three.unlock(credential).slot == slot.id)
        let removed = try three.removingSlot(slot.id, keys: new.keys)
        #expect(keybagError { () throws(KeybagError) in _ = try removed.unlock(credential) } == .wrongRecipientKey)
    }

    @Test func lastSlotsStay() throws {
        let device = try SecretKey.random()
        let new = try Keybag.create(suite: .aes256GCM, passphrase: try secret("one"), deviceKey: device, cost: cheap)
        func error(_ bag: Keybag, _ index: Int) -> KeybagError? {
            let id = bag.slots[index].id
            return keybagError { () throws(KeybagError) in _ = try bag.removingSlot(id, keys: new.keys) }
        }
        #expect(error(new.bag, 0) == .deviceSlot(new.bag.slots[0].id))
        #expect(error(new.bag, 1) == .lastPassphrase)
        #expect(error(new.bag, 2) == .lastPortableSlot)
        let two = try new.bag.addingPortablePassphrase(try secret("two"), cost: cheap, keys: new.keys)
        let three = try two.removingSlot(two.slots[2].id, keys: new.keys)
        #expect(three.slots.map(\.kind) == [.device, .passphrase, .passphrase])
        #expect(error(three, 2) == .lastPortableSlot)
        let portable = three.slots[2].id
        #expect(
            keybagError { () throws(KeybagError) in _ = try three.removingSlot(portable, keys: new.keys) }
                == .lastPortableSlot)
    }

    @Test func refusals() throws {
        let device = try SecretKey.random()
        let new = try Keybag.create(suite: .aes256GCM, passphrase: try secret("one"), deviceKey: device, cost: cheap)
        let bag = new.bag
        let slot = bag.slots[1].id
        let more = try secret("more")
        #expect(
            keybagError { () throws(KeybagError) in _ = try bag.removingSlot(slot, keys: new.keys) }
                == .lastPassphrase)
        #expect(
            keybagError { () throws(KeybagError) in _ = try bag.removingSlot(99, keys: new.keys) }
                == .noSuchSlot(99))
        #expect(
            keybagError { () throws(KeybagError) in
                _ = try bag.removingSlot(bag.slots[0].id, keys: new.keys)
            }
                == .deviceSlot(bag.slots[0].id))
        #expect(
            keybagError { () throws(KeybagError) in
                _ = try bag.changingPassphrase(ofSlot: slot, to: more, cost: cheap, keys: new.keys)
            } == .deviceKeyNeeded)
        let foreign = try VolumeKeys.random(volumeID: bag.volumeID)
        #expect(throws: KeybagError.self) {
            _ = try bag.addingPortablePassphrase(try secret("x"), cost: cheap, keys: foreign)
        }
    }

    @Test func fills() throws {
        let new = try Keybag.create(suite: .aes256GCM, passphrase: try secret("one"), cost: cheap)
        var editor = KeybagEditor(new.bag.layout)
        let error = keybagError { () throws(KeybagError) in
            for _ in 0..<3000 { _ = try editor.addRecovery(label: nil, keys: new.keys) }
        }
        #expect(error == .full)
        // The writer needs room too: the keybag that was parsed has it already.
        let bag = try Keybag(signing: editor.layout, new.keys)
        #expect(bag.bytes.count > KeybagLayout.maximumLength - 1000)
        _ = try Keybag(parsing: bag.bytes).unlock(try passphrase("one"))
    }

    @Test func recoveryOnANewMachine() throws {
        let device = try SecretKey.random()
        let other = try SecretKey.random()
        let new = try Keybag.create(suite: .aes256GCM, passphrase: try secret("one"), deviceKey: device, cost: cheap)
        let keys = try new.bag.unlock(.recoveryCode(try new.recoveryCode.copy()))
        let moved = try new.bag.recovering(passphrase: try secret("new"), newDeviceKey: other, cost: cheap, keys: keys)
        #expect(Set(moved.slots.map(\.kind)) == [.device, .passphrase, .recovery])
        _ = try moved.unlock(try passphrase("new"), deviceKey: other)
        #expect(keybagError { () throws(KeybagError) in _ = try moved.open(deviceKey: device) } == .wrongDeviceKey)
        let renewed = try moved.renewingRecoveryCode(keys: keys)
        let old = Credential.recoveryCode(try new.recoveryCode.copy())
        #expect(keybagError { () throws(KeybagError) in _ = try renewed.bag.unlock(old) } == .wrongRecoveryCode)
        _ = try renewed.bag.unlock(.recoveryCode(try renewed.recoveryCode.copy()))
    }

    @Test func pins() throws {
        let device = try SecretKey.random()
        let new = try Keybag.create(suite: .aes256GCM, passphrase: try secret("one"), deviceKey: device, cost: cheap)
        let next = try new.bag.addingPortablePassphrase(try secret("two"), cost: cheap, keys: new.keys)
        let fork = try new.bag.addingPortablePassphrase(try secret("two"), cost: cheap, keys: new.keys)
        let foreign = try Keybag.create(
            suite: .aes256GCM, passphrase: try secret("one"), deviceKey: device, cost: cheap)
        var state = StateFile(pinning: new.bag, toleratesEverything: false)
        state.layout.openEpochs = [3, 4]
        state = try StateFile(parsing: state.serialized())
        #expect(try StateFile.check(new.bag, against: nil) == .unpinned)
        #expect(try StateFile.check(new.bag, against: state) == .current)
        #expect(try StateFile.check(next, against: state) == .newer)
        try state.pin(next)
        #expect(state.layout.openEpochs == [3, 4])
        #expect(throws: StateFileError.rolledBack(serial: new.bag.serial, pinned: next.serial)) {
            _ = try StateFile.check(new.bag, against: state)
        }
        #expect(try StateFile.check(new.bag, against: state, acceptingKeybag: true) == .accepted)
        #expect(throws: StateFileError.otherContents(serial: fork.serial)) {
            _ = try StateFile.check(fork, against: state)
        }
        #expect(throws: StateFileError.otherVolume) { _ = try StateFile.check(foreign.bag, against: state) }
        var layout = next.layout
        layout.publicKey = InlineArray(repeating: 9)
        let other = try Keybag(signing: layout, new.keys)
        #expect(throws: StateFileError.otherPublicKey) { _ = try StateFile.check(other, against: state) }
    }
}
