// Tests making, opening and changing keybags, and every reason to refuse one.

import SodiumKit
import Testing
import VolumeFormat

@testable import Keybag

@Suite struct KeybagTests {
    @Test func opensAsItWasMade() throws {
        let device = try SecretKey.random()
        let new = try Keybag.create(
            suite: .aes256GCM, passphrase: try secret("correct horse"), deviceKey: device, cost: cheap)
        let bag = try Keybag(parsing: new.bag.bytes)
        #expect(bag.slots.map(\.kind) == [.device, .passphrase, .recovery])
        #expect(bag.slots.map(\.isBound) == [false, true, false])
        #expect(bag.hasDeviceKey)
        let opened = try bag.open(deviceKey: device)
        let same = opened.bundle.agrees(with: new.keys.bundle)
        #expect(same && opened.bundle.entries.map(\.type) == BundleEntry.KeyType.device)
        let keys = try bag.unlock(try passphrase("correct horse"), deviceKey: device)
        let all = keys.isSame(as: new.keys)
        #expect(all && keys.bundle.entries.map(\.type) == BundleEntry.KeyType.all)
    }

    @Test func wrongCredentials() throws {
        let device = try SecretKey.random()
        let other = try SecretKey.random()
        let new = try Keybag.create(suite: .aes256GCM, passphrase: try secret("right"), deviceKey: device, cost: cheap)
        let bag = new.bag
        let wrong = try passphrase("wrong")
        let right = try passphrase("right")
        let empty = try passphrase("")
        let long = try passphrase(String(repeating: "x", count: 4097))
        #expect(
            keybagError { () throws(KeybagError) in _ = try bag.unlock(wrong, deviceKey: device) } == .wrongPassphrase)
        #expect(
            keybagError { () throws(KeybagError) in _ = try bag.unlock(right, deviceKey: other) } == .wrongDeviceKey)
        #expect(keybagError { () throws(KeybagError) in _ = try bag.unlock(right) } == .deviceKeyNeeded)
        #expect(
            keybagError { () throws(KeybagError) in _ = try bag.unlock(empty, deviceKey: device) }
                == .unusablePassphrase)
        #expect(
            keybagError { () throws(KeybagError) in _ = try bag.unlock(long, deviceKey: device) } == .unusablePassphrase
        )
        #expect(keybagError { () throws(KeybagError) in _ = try bag.open(deviceKey: other) } == .wrongDeviceKey)
    }

    @Test func recoveryCodeOpensWithoutDeviceKeyAndFindsTypos() throws {
        let device = try SecretKey.random()
        let new = try Keybag.create(
            suite: .xChaCha20Poly1305, passphrase: try secret("p"), deviceKey: device, cost: cheap)
        #expect(new.recoveryCode.byteCount == 35)
        let code = try new.recoveryCode.copy()
        let keys = try new.bag.unlock(.recoveryCode(code))
        let same = keys.isSame(as: new.keys)
        #expect(same)
        var typo = try new.recoveryCode.copy()
        typo.withMutableBytes { bytes in
            let old: UInt8 = bytes[3]
            bytes.storeLittleEndian((old == 0x37 ? 0x38 : 0x37) as UInt8, at: 3)
        }
        let wrong = Credential.recoveryCode(typo)
        #expect(keybagError { () throws(KeybagError) in _ = try new.bag.unlock(wrong) } == .recoveryCodeTypo)
        let foreign = try Keybag.create(suite: .aes256GCM, passphrase: try secret("p"), deviceKey: device, cost: cheap)
        let other = Credential.recoveryCode(try foreign.recoveryCode.copy())
        #expect(keybagError { () throws(KeybagError) in _ = try new.bag.unlock(other) } == .wrongRecoveryCode)
    }

    @Test func volumeWithoutDeviceKey() throws {
        let new = try Keybag.create(suite: .aes256GCM, passphrase: try secret("p"), cost: cheap)
        #expect(!new.bag.hasDeviceKey)
        #expect(new.bag.slots.map(\.kind) == [.passphrase, .recovery])
        let keys = try new.bag.unlock(try passphrase("p"))
        let same = keys.isSame(as: new.keys)
        #expect(same)
        let device = try SecretKey.random()
        #expect(keybagError { () throws(KeybagError) in _ = try new.bag.open(deviceKey: device) } == .noDeviceSlot)
        let ring = try KeyRing(new.bag, keys: keys)
        #expect(ring.state == .unlocked)
    }

    /// After a change of any byte, nothing opens.
    @Test func everyByteIsAuthenticated() throws {
        let device = try SecretKey.random()
        let new = try Keybag.create(suite: .aes256GCM, passphrase: try secret("p"), deviceKey: device, cost: cheap)
        let recovery = Credential.recoveryCode(try new.recoveryCode.copy())
        var seen = Set<String>()
        for offset in new.bag.bytes.indices {
            let error = keybagError { () throws(KeybagError) in
                let bag = try Keybag(parsing: flipped(new.bag.bytes, at: offset))
                _ = try bag.unlock(recovery, deviceKey: device)
            }
            #expect(error != nil, "byte \(offset)")
            if let error { seen.insert(String("\(error)".prefix(8))) }
        }
        let last = new.bag.bytes.count
        let unlockMAC = keybagError { () throws(KeybagError) in
            let bag = try Keybag(parsing: flipped(new.bag.bytes, at: last - 1))
            _ = try bag.unlock(recovery, deviceKey: device)
        }
        #expect(unlockMAC == .unlockMACMismatch)
        let deviceMAC = keybagError { () throws(KeybagError) in
            let bag = try Keybag(parsing: flipped(new.bag.bytes, at: last - 33))
            _ = try bag.open(deviceKey: device)
        }
        #expect(deviceMAC == .deviceMACMismatch)
        let publicKey = keybagError { () throws(KeybagError) in
            let bag = try Keybag(parsing: flipped(new.bag.bytes, at: 64))
            _ = try bag.open(deviceKey: device)
        }
        #expect(publicKey == .deviceMACMismatch)
        #expect(seen.count >= 4)
    }

    @Test func cutShortOrTooLong() throws {
        let new = try Keybag.create(suite: .aes256GCM, passphrase: try secret("p"), cost: cheap)
        let bytes = new.bag.bytes
        for count in [0, 1, 8, 100, 127, 128, 191, 192, bytes.count / 2, bytes.count - 1] {
            #expect(throws: KeybagError.self) { _ = try Keybag(parsing: Array(bytes.prefix(count))) }
        }
        #expect(throws: KeybagError.self) { _ = try Keybag(parsing: bytes + [0]) }
        #expect(throws: KeybagError.self) {
            _ = try Keybag(parsing: [UInt8](repeating: 0, count: KeybagLayout.maximumLength + 1))
        }
    }

    /// An attacker with the device key can renew the first MAC. The MAC that unlock checks still fails.
    @Test func forgeriesOfSomeoneWithTheDeviceKey() throws {
        let device = try SecretKey.random()
        let new = try Keybag.create(suite: .aes256GCM, passphrase: try secret("p"), deviceKey: device, cost: cheap)
        let recovery = Credential.recoveryCode(try new.recoveryCode.copy())
        let foreign = try SecretKey.random()
        var layout = new.bag.layout
        layout.publicKey = X25519.publicKey(of: foreign)
        let forged = try Keybag(signing: layout, metadata: new.keys.key(.metadata), unlock: foreign)
        _ = try forged.open(deviceKey: device)
        #expect(
            keybagError { () throws(KeybagError) in _ = try forged.unlock(recovery, deviceKey: device) }
                == .unlockMACMismatch)
        let signed = try Keybag(signing: layout, new.keys)
        #expect(
            keybagError { () throws(KeybagError) in _ = try signed.unlock(recovery, deviceKey: device) }
                == .publicKeyMismatch)
        // A device slot with another D and M.
        let others = try VolumeKeys.random(volumeID: new.bag.volumeID)
        var editor = KeybagEditor(new.bag.layout)
        editor.layout.slots.removeAll { $0.known?.kind == .device }
        try device.withBytes { try editor.addDevice($0, label: nil, keys: others) }
        let swapped = try Keybag(signing: editor.layout, metadata: others.key(.metadata), unlock: foreign)
        _ = try swapped.open(deviceKey: device)
        #expect(
            keybagError { () throws(KeybagError) in _ = try swapped.unlock(recovery, deviceKey: device) }
                == .bundleMismatch)
    }

    @Test func hashParametersOutOfRange() throws {
        let new = try Keybag.create(suite: .aes256GCM, passphrase: try secret("p"), cost: cheap)
        for (passes, memory) in [(0, 8 << 20), (17, 8 << 20), (1, 1 << 20), (1, 8 << 30)] as [(UInt32, UInt64)] {
            var layout = new.bag.layout
            layout.slots[0].known?.passes = passes
            layout.slots[0].known?.memory = memory
            let bag = try Keybag(parsing: layout.serialized())
            #expect(bag.slots[0].kind == nil)
            let cost = Argon2Parameters(passes: passes, memory: memory)
            #expect(throws: KeybagError.self) {
                _ = try Keybag.create(suite: .aes256GCM, passphrase: try secret("p"), cost: cost)
            }
        }
    }

    @Test func workIsBoundedWhereNothingIsAuthenticated() throws {
        let made = try Keybag.create(suite: .xChaCha20Poly1305, passphrase: secret("the passphrase"), cost: cheap)
        var layout = made.bag.layout
        let index = try #require(layout.slots.firstIndex { $0.known?.kind == .passphrase })
        // As somebody adds them who has the store: in front of the owner's, and as costly as a slot may be.
        var costly = try #require(layout.slots[index].known)
        costly.passes = SlotLayout.acceptedPasses.upperBound
        costly.memory = SlotLayout.acceptedMemory.upperBound
        costly.bundle = [UInt8](repeating: 0, count: BundleEntry.length + SlotLayout.tagLength)
        for number in 0..<300 {
            costly.slotID = 1000 + UInt32(number)
            layout.slots.insert(.known(costly), at: 0)
        }
        let swollen = try Keybag(parsing: layout.serialized())
        let clock = ContinuousClock()
        let start = clock.now
        let error = keybagError { () throws(KeybagError) in
            do { _ = try swollen.unlock(passphrase("the passphrase")) } catch let error as KeybagError {
                throw error
            } catch { Issue.record("\(error)") }
        }
        #expect(error == .passwordHashesRefused(slots: 301))
        // One slot alone would take longer.
        #expect(clock.now - start < .seconds(5))
    }

    @Test func aSlotIsNotLookedForBeforeTheKeybagIsAuthentic() throws {
        let device = try SecretKey.random()
        let made = try Keybag.create(
            suite: .xChaCha20Poly1305, passphrase: secret("the passphrase"), deviceKey: device, cost: cheap)
        #expect(try made.bag.slot(openedBy: secret("the passphrase"), deviceKey: device) != 0)
        var layout = made.bag.layout
        let index = try #require(layout.slots.firstIndex { $0.known?.kind == .passphrase })
        layout.slots[index].known?.passes = SlotLayout.acceptedPasses.upperBound
        let changed = try Keybag(parsing: layout.serialized())
        let error = keybagError { () throws(KeybagError) in
            do { _ = try changed.slot(openedBy: secret("the passphrase"), deviceKey: device) } catch let error
                as KeybagError
            { throw error } catch { Issue.record("\(error)") }
        }
        #expect(error == .deviceMACMismatch)
    }

    @Test func sixteenHonestSlotsAndTheCostliestOneAreAccepted() {
        // What init takes at most, sixteen times.
        #expect(16 * 3 * (1 << 30) < SlotLayout.acceptedWork)
        let costliest = UInt64(SlotLayout.acceptedPasses.upperBound) * SlotLayout.acceptedMemory.upperBound
        #expect(costliest < SlotLayout.acceptedWork)
    }
}
