// Tests the pins of a keybag on this machine: they hold only values that an unlock has verified, and never become
// older.

import SodiumKit
import Testing
import VolumeFormat

@testable import Keybag

@Suite struct PinTests {
    /// Keybags of one volume: two lines of changes, and one with another public key.
    private func bags() throws -> [Keybag] {
        let device = try SecretKey.random()
        let new = try Keybag.create(suite: .aes256GCM, passphrase: try secret("one"), deviceKey: device, cost: cheap)
        var bags = [new.bag]
        for _ in 0..<4 { bags.append(try bags[bags.count - 1].renewingRecoveryCode(keys: new.keys).bag) }
        bags.append(try bags[1].renewingRecoveryCode(keys: new.keys).bag)
        bags.append(try bags[5].renewingRecoveryCode(keys: new.keys).bag)
        var layout = bags[4].layout
        layout.publicKey = InlineArray(repeating: 9)
        layout.serial += 1
        bags.append(try Keybag(signing: layout, new.keys))
        return bags
    }

    @Test func aPinGoesDownOnlyByThePersonsWord() throws {
        let bags = try bags()
        var random = SystemRandomNumberGenerator()
        var raised = 0
        var lowered = 0
        for _ in 0..<50 {
            var state = StateFile(unpinned: bags[0].volumeID)
            for _ in 0..<40 {
                let bag = bags[Int.random(in: 0..<bags.count, using: &random)]
                let accepts = Int.random(in: 0..<8, using: &random) == 0
                let before = state.layout
                do throws(StateFileError) {
                    let outcome = try StateFile.check(bag, against: state, acceptingKeybag: accepts)
                    try state.pin(bag, acceptingKeybag: accepts)
                    #expect(state.layout.serial == bag.serial && state.pins(publicKeyOf: bag))
                    #expect(outcome == .unpinned || before.isPinned)
                    if before.isPinned, !accepts {
                        #expect(state.layout.serial >= before.serial)
                        #expect(haveSameBytes(state.layout.publicKey, before.publicKey))
                        if state.layout.serial == before.serial {
                            #expect(haveSameBytes(state.layout.unlockMAC, before.unlockMAC))
                        }
                        raised += 1
                    } else if state.layout.serial < before.serial {
                        lowered += 1
                    }
                } catch {
                    #expect(!accepts && before.isPinned)
                    // What is refused is not pinned either, whoever asks.
                    #expect(throws: error) { try state.pin(bag) }
                    #expect(state.layout.serial == before.serial)
                }
                state = try StateFile(parsing: state.serialized())
            }
        }
        #expect(raised > 0 && lowered > 0)
    }

    @Test func nothingPinnedIsNothingBelieved() throws {
        let bag = try bags()[0]
        let state = StateFile(unpinned: bag.volumeID)
        let bytes = state.serialized()
        let parsed = try StateFile(parsing: bytes)
        #expect(!parsed.layout.isPinned && parsed.layout.toleratesEverything && parsed.serialized() == bytes)
        #expect(try StateFile.check(bag, against: parsed) == .unpinned)
        #expect(!parsed.pins(publicKeyOf: bag))
        // Also where the pins would be those of a keybag without any.
        var layout = bag.layout
        layout.publicKey = InlineArray(repeating: 0)
        layout.unlockMAC = InlineArray(repeating: 0)
        #expect(!parsed.pins(publicKeyOf: try Keybag(parsing: layout.serialized())))
        for place in 32..<104 {
            var changed = bytes
            changed[place] = 1
            #expect(throws: FormatError.inconsistent("pins")) { _ = try StateFileLayout(parsing: changed.span) }
            changed = StateFile.withHash(changed)
            #expect(throws: StateFileDefect.damaged) { _ = try StateFile(parsing: changed) }
        }
    }

    /// The device key proves nothing of the public key: class B takes no file until an unlock has.
    @Test func aPublicKeyIsProvenByAPinOrAnUnlock() throws {
        let device = try SecretKey.random()
        let new = try Keybag.create(suite: .aes256GCM, passphrase: try secret("one"), deviceKey: device, cost: cheap)
        func wraps(_ ring: KeyRing) throws -> Bool {
            let key = try SecretKey.random()
            let data = [UInt8](repeating: 1, count: 64)
            let canWrap = ring.withState { $0.canWrap(.completeUnlessOpen) }
            do throws(KeyError) {
                _ = try ring.wrap(key, for: .completeUnlessOpen, associatedData: data.span)
                #expect(canWrap)
                return true
            } catch {
                #expect(error == .locked(.completeUnlessOpen) && !canWrap)
                return false
            }
        }
        let known = try KeyRing(new.bag, device: try new.bag.open(deviceKey: device), isPublicKeyProven: true)
        #expect(try wraps(known))
        let ring = try KeyRing(new.bag, device: try new.bag.open(deviceKey: device), isPublicKeyProven: false)
        #expect(try !wraps(ring))
        _ = try ring.unlock(with: try new.keys.copy())
        #expect(try wraps(ring))
        #expect(ring.beginLocking() && ring.finishLocking {})
        #expect(try wraps(ring))
        // Another one's key: it stays closed.
        var layout = new.bag.layout
        layout.publicKey = InlineArray(repeating: 9)
        layout.unlockMAC = InlineArray(repeating: 0)
        let forged = try Keybag(signing: layout, metadata: new.keys.key(.metadata), unlock: new.keys.key(.metadata))
        let other = try KeyRing(forged, device: try forged.open(deviceKey: device), isPublicKeyProven: false)
        #expect(throws: KeyError.otherVolume) { _ = try other.unlock(with: try new.keys.copy()) }
        #expect(try !wraps(other))
    }
}
