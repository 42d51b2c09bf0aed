// New class keys: taken in while a volume is unlocked, their generations, and what may store a wrap by a former one.

import SodiumKit
import Testing
import VolumeFormat

@testable import Keybag

/// A volume before its keys change, with them changed, and with the former ones taken away.
private struct Rotated: ~Copyable {
    let device: SecretKey
    let old: Keybag
    let new: Keybag
    let end: Keybag

    static func make() throws -> Rotated {
        let device = try SecretKey.random()
        let deviceKey: SecretKey? = try device.copy()
        let made = try Keybag.create(suite: .aes256GCM, passphrase: try secret("p"), deviceKey: device, cost: cheap)
        let keys = try made.bag.unlock(try passphrase("p"), deviceKey: device)
        let rotated = try made.bag.rotating(
            ProtectionClass.allCases, passphrase: try secret("p"), deviceKey: deviceKey, keys: keys)
        let next = try rotated.bag.unlock(try passphrase("p"), deviceKey: device)
        let dropped = try rotated.bag.dropping(
            next.formerKeys, passphrase: try secret("p"), deviceKey: deviceKey, code: rotated.recoveryCode, keys: next)
        return Rotated(device: device, old: made.bag, new: rotated.bag, end: dropped.bag)
    }

    func keys(_ bag: Keybag) throws -> VolumeKeys { try bag.unlock(try passphrase("p"), deviceKey: device) }

    func ring() throws -> KeyRing {
        try KeyRing(old, device: try old.open(deviceKey: device), isPublicKeyProven: true)
    }
}

@Suite struct RotationTests {
    private func wrap(_ ring: KeyRing, _ key: borrowing SecretKey, _ one: ProtectionClass) throws -> [UInt8] {
        let data = associatedData
        let wrapped = try ring.wrap(key, for: one, associatedData: data.span)
        return wrapped.span.copiedBytes()
    }

    private func opens(
        _ ring: KeyRing, _ wrapped: [UInt8], _ key: borrowing SecretKey, _ one: ProtectionClass, _ generation: UInt16
    ) throws -> Bool {
        let data = associatedData
        do throws(KeyError) {
            let opened = try ring.unwrap(
                wrapped.span, for: one, generation: generation, associatedData: data.span)
            return opened.isEqual(to: key)
        } catch .unknownGeneration { return false }
    }

    /// In each step new wraps use the keys in use, old wraps open as long as their keys are there, and keys of an older keybag
    /// are refused.
    @Test func newKeysAreTakenInWhileUnlocked() throws {
        let volume = try Rotated.make()
        let ring = try volume.ring()
        let fileKey = try SecretKey.random()
        #expect(throws: KeyError.locked(.complete)) {
            _ = try ring.unlock(with: try volume.keys(volume.new), onlyIfUnlocked: true)
        }
        #expect(ring.state == .beforeFirstUnlock)
        _ = try ring.unlock(with: try volume.keys(volume.old))
        let before = try ProtectionClass.allCases.map { try wrap(ring, fileKey, $0) }
        #expect(ring.formerKeys.isEmpty)
        #expect(try ring.unlock(with: try volume.keys(volume.new), onlyIfUnlocked: true) == .alreadyUnlocked)
        let former = Set(ProtectionClass.allCases.map { FormerKey(number: $0.rawValue, generation: 0) })
        #expect(ring.formerKeys == former)
        #expect(try volume.keys(volume.new).everyClassKey.isSuperset(of: former))
        #expect(try volume.keys(volume.end).everyClassKey.isDisjoint(with: former))
        let after = try ProtectionClass.allCases.map { try wrap(ring, fileKey, $0) }
        for (place, one) in ProtectionClass.allCases.enumerated() {
            #expect(ring.withState { $0.generation(of: one) } == 1)
            #expect(try opens(ring, before[place], fileKey, one, 0) && opens(ring, after[place], fileKey, one, 1))
        }
        #expect(throws: KeyError.otherVolume) { _ = try ring.unlock(with: try volume.keys(volume.old)) }
        _ = try ring.unlock(with: try volume.keys(volume.end), onlyIfUnlocked: true)
        #expect(ring.formerKeys.isEmpty)
        for (place, one) in ProtectionClass.allCases.enumerated() {
            #expect(try !opens(ring, before[place], fileKey, one, 0) && opens(ring, after[place], fileKey, one, 1))
        }
    }

    /// The command may be killed before the daemon has the new keys. The next unlock brings them.
    @Test func anUnlockBringsNewKeys() throws {
        let volume = try Rotated.make()
        let ring = try volume.ring()
        _ = try ring.unlock(with: try volume.keys(volume.old))
        _ = ring.beginLocking()
        let late = try ring.withState { (held: borrowing HeldKeys) throws(KeyError) in try held.makeLateKey(number: 9) }
        _ = ring.finishLocking {}
        var text = Array("late".utf8)
        let record = LateRecordHeader(
            dataLength: text.count, index: 0, fileID: ObjectID(InlineArray(repeating: 1)), offset: 0, seconds: 0,
            nanoseconds: 0)
        var sealed = [UInt8](repeating: 0, count: text.count + LateRecordHeader.sealOverhead)
        // A write that comes while the unlock has the new keys in memory belongs to the log of the former ones.
        let outcome = try ring.unlock(with: try volume.keys(volume.new)) {
            var output = sealed.mutableSpan
            do throws(KeyError) { try late.seal(text.span, record, into: &output) } catch { Issue.record(error) }
        }
        #expect(outcome == .again && ring.withState { $0.generation(of: .completeUnlessOpen) } == 1)
        text = [UInt8](repeating: 0, count: text.count)
        let isOpen = try ring.withState { (held: borrowing HeldKeys) throws(KeyError) -> Bool in
            var output = text.mutableSpan
            let key = try held.openLateKey(late.header)
            return try held.openLate(sealed.span, record, of: key.header, into: &output)
        }
        #expect(isOpen && text == Array("late".utf8))
    }

    /// Another volume's keys are refused, also those of this volume with another key of the same generation.
    @Test func foreignKeysAreRefused() throws {
        let volume = try Rotated.make()
        let other = try Rotated.make()
        let ring = try volume.ring()
        _ = try ring.unlock(with: try volume.keys(volume.new))
        #expect(throws: KeyError.otherVolume) { _ = try ring.unlock(with: try other.keys(other.new)) }
        for one in ProtectionClass.allCases {
            let mixed = try volume.keys(volume.new).replacing(.classKey(one), from: try other.keys(other.new))
            #expect(throws: KeyError.otherVolume) { _ = try ring.unlock(with: mixed.copy()) }
        }
    }

    /// An operation that began with former keys, and moves, spoil a look through the store. Before the first unlock nobody knows.
    @Test func looksAreQuiet() throws {
        let volume = try Rotated.make()
        let ring = try volume.ring()
        #expect(ring.quietMoves == nil)
        _ = try ring.unlock(with: try volume.keys(volume.old))
        let first = try #require(ring.quietMoves)
        ring.storing { #expect(ring.quietMoves == first) }
        #expect(ring.quietMoves == first)
        try ring.storing {
            _ = try ring.unlock(with: try volume.keys(volume.new))
            #expect(ring.quietMoves == nil)
        }
        #expect(ring.quietMoves == first + 1)
        ring.storing { #expect(ring.quietMoves == first + 1) }
        ring.movingHeaders { #expect(ring.quietMoves == nil) }
        #expect(ring.quietMoves == first + 2)
        // The mount that comes next has another number, and a look that began in this one does not end quietly in it.
        let next = try volume.ring()
        _ = try next.unlock(with: try volume.keys(volume.old))
        #expect(next.quietMoves != first)
    }
}
