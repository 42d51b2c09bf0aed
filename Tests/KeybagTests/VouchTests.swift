// What vouches for new keys: a rotation is taken over by machines that know the voucher, and a keybag that somebody made of an
// old one is refused.

import SodiumKit
import Testing
import VolumeFormat

@testable import Keybag

/// A volume whose passphrase works with and without the device key.
private struct Volume: ~Copyable {
    let device: SecretKey
    let given: SecretKey?
    let bag: Keybag

    static func make() throws -> Volume {
        let device = try SecretKey.random()
        let given: SecretKey? = try device.copy()
        let made = try Keybag.create(
            suite: .aes256GCM, passphrase: try secret("p"), portable: true, deviceKey: device, cost: cheap)
        return Volume(device: device, given: given, bag: made.bag)
    }

    func rotated(_ bag: Keybag, _ classes: [ProtectionClass] = ProtectionClass.allCases) throws -> Keybag {
        let keys = try bag.unlock(try passphrase("p"), deviceKey: device)
        return try bag.rotating(classes, passphrase: try secret("p"), deviceKey: given, keys: keys).bag
    }
}

@Suite struct VouchTests {

    /// What someone makes who has `old` and its passphrase, and not the device key: a keybag with their own key of class A, for a
    /// recipient, that looks newer.
    private func forged(_ old: Keybag, for recipient: InlineArray<32, UInt8>, serial: UInt64) throws -> Keybag {
        let keys = try old.unlock(try passphrase("p"))
        let own = VolumeKeys(
            volumeID: keys.volumeID, slot: nil,
            bundle: try keys.bundle.renewed(.classKey(.complete), adding: []), generations: keys.generations)
        var editor = KeybagEditor(old.layout)
        editor.layout.serial = serial
        editor.layout.slots.removeAll { $0.known?.kind != .device }
        try editor.addRecipient(recipient, label: nil, keys: own)
        return try Keybag(signing: editor.layout, own)
    }

    @Test func aRotationIsTakenOverAndNotUndone() throws {
        let volume = try Volume.make()
        var state = StateFile(pinning: volume.bag, toleratesEverything: false)
        let one = try volume.rotated(volume.bag)
        let two = try volume.rotated(one, [.complete])
        #expect(!haveSameBytes(one.publicKey, two.publicKey))
        // Also past a rotation that the machine has not seen.
        #expect(try StateFile.check(two, against: state) == .newer)
        #expect(try StateFile.check(one, against: state) == .newer)
        try state.pin(one)
        state = try StateFile(parsing: state.serialized())
        try state.pin(two)
        #expect(throws: StateFileError.rolledBack(serial: one.serial, pinned: two.serial)) {
            _ = try StateFile.check(one, against: state)
        }
    }

    @Test func aKeybagMadeOfAnOldOneIsRefused() throws {
        let recipient = try SecretKey.random()
        let volume = try Volume.make()
        // One class only: the public key was once the same before and after.
        let new = try volume.rotated(volume.bag, [.complete])
        let state = StateFile(pinning: new, toleratesEverything: false)
        let public32 = X25519.publicKey(of: recipient)
        let attack = try forged(volume.bag, for: public32, serial: new.serial + 10)
        #expect(throws: StateFileError.otherPublicKey) { _ = try StateFile.check(attack, against: state) }
        // Statements of the old keys, also under the new numbers, vouch for nothing.
        var layout = attack.layout
        layout.generations = new.layout.generations
        let keys = try volume.bag.unlock(try passphrase("p"))
        let raised = try Keybag(
            signing: layout, metadata: keys.key(.metadata), unlock: keys.key(.unlockAuthentication))
        #expect(raised.voucher == nil || !raised.isVouched(by: state.layout.keys!.voucher))
        #expect(throws: StateFileError.otherPublicKey) { _ = try StateFile.check(raised, against: state) }
        layout.vouch = new.layout.vouch
        let borrowed = try Keybag(
            signing: layout, metadata: keys.key(.metadata), unlock: keys.key(.unlockAuthentication))
        #expect(throws: StateFileError.otherPublicKey) { _ = try StateFile.check(borrowed, against: state) }
    }

    @Test func anOldSlotOfTheDeviceIsRefusedBeforeItIsUsed() throws {
        let volume = try Volume.make()
        let new = try volume.rotated(volume.bag)
        let state = StateFile(pinning: new, toleratesEverything: false)
        let keys = try volume.bag.unlock(try passphrase("p"))
        var layout = new.layout
        layout.slots = volume.bag.layout.slots
        layout.serial += 1
        func signed() throws -> Keybag {
            try Keybag(signing: layout, metadata: keys.key(.metadata), unlock: keys.key(.unlockAuthentication))
        }
        // With the numbers of today the old slot does not have the keys.
        let today = try signed()
        let slot = today.slots[0].id
        #expect(throws: KeybagError.malformedBundle(slot: slot)) { _ = try today.open(deviceKey: volume.device) }
        // With those of then it opens, and the state file refuses it.
        layout.generations = volume.bag.layout.generations
        let then = try signed()
        _ = try then.open(deviceKey: volume.device)
        #expect(throws: StateFileError.otherKeys) { _ = try StateFile.check(then, against: state) }
        #expect(try StateFile.check(then, against: state, acceptingKeybag: true) == .accepted)
    }

    @Test func aNewDeviceKeyIsKnownIfTheOldOneWasThere() throws {
        let other = try SecretKey.random()
        let given: SecretKey? = try other.copy()
        for isThere in [true, false] {
            let volume = try Volume.make()
            let keys = try volume.bag.unlock(try passphrase("p"))
            let old: SecretKey? = isThere ? try volume.device.copy() : nil
            let moved = try volume.bag.recovering(
                passphrase: try secret("q"), newDeviceKey: other, oldDeviceKey: old, cost: cheap, keys: keys)
            var state = StateFile(pinning: volume.bag, toleratesEverything: false)
            #expect(try StateFile.check(moved, against: state) == .newer)
            try state.pin(moved)
            #expect(haveSameBytes(state.layout.keys!.voucher, (isThere ? moved : volume.bag).voucher!))
            let again = try moved.unlock(try passphrase("q"), deviceKey: other)
            let after = try moved.rotating(
                [.none], passphrase: try secret("q"), deviceKey: given, keys: again
            ).bag
            let first = StateFile(pinning: volume.bag, toleratesEverything: false)
            for known in [state, first] {
                if isThere {
                    #expect(try StateFile.check(after, against: known) == .newer)
                } else {
                    #expect(throws: StateFileError.otherPublicKey) { _ = try StateFile.check(after, against: known) }
                }
            }
            #expect(after.fingerprint != moved.fingerprint && after.fingerprint.count == 39)
        }
    }

    @Test func nothingElseIsASignature() throws {
        let volume = try Volume.make()
        let known = volume.bag.voucher!
        #expect(volume.bag.isVouched(by: known) && !volume.bag.isVouched(by: InlineArray(repeating: 0)))
        let keys = try volume.bag.unlock(try passphrase("p"))
        let value = volume.bag.layout.extensions[KeybagLayout.vouchType]!
        var layout = volume.bag.layout
        for changed in [[], Array(value.dropLast()), value + value, value + [UInt8](repeating: 0, count: 96 * 9)] {
            layout.extensions[KeybagLayout.vouchType] = changed
            let bag = try Keybag(signing: layout, keys)
            // A vouch of another form is none. A second entry says nothing of the first.
            #expect((bag.voucher != nil) == (changed.count == 2 * 96))
        }
        for place in stride(from: 0, to: value.count, by: 7) {
            var changed = value
            changed[place] ^= 1
            layout.extensions[KeybagLayout.vouchType] = changed
            let bag = try Keybag(signing: layout, keys)
            #expect(bag.voucher == nil && !bag.isVouched(by: known))
        }
    }
}
