// The lock state machine, alone and under threads, and wrapping in every class and state.

import Glibc
import HostSystem
import SodiumKit
import Synchronization
import TestSupport
import Testing
import VolumeFormat

@testable import Keybag

/// A mounted volume in memory.
private struct Mounted: ~Copyable {
    let ring: KeyRing
    let keys: VolumeKeys

    static func make() throws -> Mounted {
        let device = try SecretKey.random()
        let new = try Keybag.create(suite: .aes256GCM, passphrase: try secret("p"), deviceKey: device, cost: cheap)
        let ring = try KeyRing(
            new.bag, device: try new.bag.open(deviceKey: device), isPublicKeyProven: true)
        return Mounted(ring: ring, keys: try new.keys.copy())
    }

    func unlock() throws -> UnlockOutcome { try ring.unlock(with: try keys.copy()) }

    func lock() {
        _ = ring.beginLocking()
        _ = ring.finishLocking {}
    }

    /// Wraps and unwraps a file key of the class; the error, nil for none.
    func roundTrip(_ protectionClass: ProtectionClass) throws -> KeyError? {
        let fileKey = try SecretKey.random()
        do throws(KeyError) {
            let wrapped = try ring.wrap(fileKey, protectionClass)
            let opened = try ring.unwrap(wrapped, protectionClass)
            return opened.isEqual(to: fileKey) ? nil : .authenticationFailed
        } catch {
            return error
        }
    }
}

extension KeyRing {
    fileprivate func wrap(
        _ fileKey: borrowing SecretKey, _ protectionClass: ProtectionClass
    ) throws(KeyError) -> [UInt8] {
        let data = associatedData
        let wrapped = try wrap(fileKey, for: protectionClass, associatedData: data.span)
        return wrapped.span.copiedBytes()
    }

    fileprivate func unwrap(
        _ wrapped: [UInt8], _ protectionClass: ProtectionClass, generation: UInt16 = 0,
        data: [UInt8] = associatedData
    ) throws(KeyError) -> SecretKey {
        try withState { (keys: borrowing HeldKeys) throws(KeyError) in
            try keys.unwrap(wrapped, protectionClass, generation: generation, data: data)
        }
    }
}

extension HeldKeys {
    fileprivate func unwrap(
        _ wrapped: [UInt8], _ protectionClass: ProtectionClass, generation: UInt16 = 0,
        data: [UInt8] = associatedData
    ) throws(KeyError) -> SecretKey {
        try unwrap(
            wrapped.span, for: protectionClass, generation: generation,
            associatedData: data.span)
    }
}

@Suite struct KeyRingTests {
    @Test func statesAndKeys() throws {
        let volume = try Mounted.make()
        let classes = ProtectionClass.allCases
        func errors() throws -> [KeyError?] { try classes.map { try volume.roundTrip($0) } }
        #expect(volume.ring.state == .beforeFirstUnlock)
        #expect(
            try errors() == [
                .locked(.complete), .locked(.completeUnlessOpen), .locked(.completeWhenUserInactive),
                .locked(.completeUntilFirstUserAuthentication), nil,
            ])
        #expect(!volume.ring.beginLocking())
        #expect(try volume.unlock() == .first)
        #expect(try volume.unlock() == .alreadyUnlocked)
        #expect(try errors() == [nil, nil, nil, nil, nil])
        #expect(volume.ring.beginLocking())
        #expect(volume.ring.state == .locking)
        // Keys are live until the end: dirty pages are still taken.
        #expect(try errors() == [nil, nil, nil, nil, nil])
        #expect(throws: KeyError.lockInProgress) { _ = try volume.unlock() }
        #expect(throws: KeyError.locked(.complete)) { try volume.ring.beginRead() }
        var wiped = 0
        #expect(volume.ring.finishLocking { wiped += 1 })
        #expect(!volume.ring.finishLocking { wiped += 1 })
        #expect(wiped == 1)
        #expect(volume.ring.state == .locked)
        #expect(try errors() == [.locked(.complete), .locked(.completeUnlessOpen), nil, nil, nil])
        #expect(try volume.unlock() == .again)
        #expect(try errors() == [nil, nil, nil, nil, nil])
    }

    /// A lock leaves class 7 open. It closes on its own, only while the volume is locked, and an unlock opens it.
    @Test func classSevenClosesAfterALock() throws {
        let volume = try Mounted.make()
        let (ring, seven) = (volume.ring, ProtectionClass.completeWhenUserInactive)
        func isOpen() throws -> Bool { try volume.roundTrip(seven) == nil }
        #expect(ring.state(of: seven) == .beforeFirstUnlock && !ring.beginLocking(seven))
        _ = try volume.unlock()
        #expect(ring.state(of: seven) == .unlocked)
        // Only a locked volume closes it.
        #expect(!ring.beginLocking(seven))
        #expect(ring.beginLocking())
        #expect(!ring.beginLocking(seven))
        #expect(ring.finishLocking(sweeping: true) {})
        #expect(try isOpen() && ring.state(of: seven) == .unlocked && ring.state == .sweeping)
        try ring.beginRead(of: seven)
        #expect(ring.beginLocking(seven))
        // The key is there until the end, for pages that the kernel writes back.
        #expect(try isOpen() && ring.state(of: seven) == .locking)
        #expect(throws: KeyError.lockInProgress) { _ = try volume.unlock() }
        #expect(throws: KeyError.locked(seven)) { try ring.beginRead(of: seven) }
        // Reads of the two classes do not wait for each other.
        #expect(ring.waitForReads(until: monotonicNanoseconds()))
        #expect(!ring.waitForReads(of: seven, until: monotonicNanoseconds() + 20_000_000))
        ring.endRead(of: seven)
        #expect(ring.waitForReads(of: seven, until: monotonicNanoseconds() + 120_000_000_000))
        var wiped = 0
        ring.wipeIfLocked(seven) { wiped += 1 }
        #expect(wiped == 0)
        #expect(ring.finishLocking(seven, sweeping: true) { wiped += 1 })
        #expect(try !isOpen() && wiped == 1 && ring.state(of: seven) == .sweeping)
        ring.wipeIfLocked(seven) { wiped += 1 }
        #expect(wiped == 2)
        #expect(ring.finishSweeping(seven) && ring.state(of: seven) == .locked && ring.state == .sweeping)
        #expect(!ring.beginLocking(seven))
        #expect(ring.finishSweeping())
        #expect(try volume.unlock() == .again)
        #expect(try isOpen() && ring.state(of: seven) == .unlocked)
    }

    /// While an unlock has its keys in memory and its classes are not open yet, the end of the time does not take a key away.
    @Test func anUnlockUnderWayIsNotClosed() throws {
        let volume = try Mounted.make()
        let (ring, seven) = (volume.ring, ProtectionClass.completeWhenUserInactive)
        _ = try volume.unlock()
        #expect(ring.beginLocking() && ring.finishLocking {})
        _ = try ring.unlock(with: try volume.keys.copy()) { #expect(!ring.beginLocking(seven)) }
        #expect(try volume.roundTrip(seven) == nil)
    }

    @Test func wrapsAreBound() throws {
        let volume = try Mounted.make()
        _ = try volume.unlock()
        let fileKey = try SecretKey.random()
        for protectionClass in ProtectionClass.allCases {
            let wrapped = try volume.ring.wrap(fileKey, protectionClass)
            for offset in 0..<80 {
                #expect(throws: KeyError.authenticationFailed) {
                    let changed = flipped(wrapped, at: offset)
                    _ = try volume.ring.unwrap(changed, protectionClass)
                }
            }
            for other in ProtectionClass.allCases where other != protectionClass {
                #expect(throws: KeyError.authenticationFailed) {
                    _ = try volume.ring.unwrap(wrapped, other)
                }
            }
            #expect(throws: KeyError.unknownGeneration(1)) {
                _ = try volume.ring.unwrap(wrapped, protectionClass, generation: 1)
            }
            #expect(throws: KeyError.authenticationFailed) {
                let other = flipped(associatedData, at: 63)
                _ = try volume.ring.unwrap(wrapped, protectionClass, data: other)
            }
        }
    }

    /// Only a lock that is over wipes late: one under way does it at its end, and an unlocked volume needs its keys.
    @Test func lateWipes() throws {
        let volume = try Mounted.make()
        var wiped = 0
        volume.ring.wipeIfLocked { wiped += 1 }
        #expect(wiped == 1)
        _ = try volume.unlock()
        volume.ring.wipeIfLocked { wiped += 1 }
        #expect(volume.ring.beginLocking())
        volume.ring.wipeIfLocked { wiped += 1 }
        #expect(wiped == 1)
        #expect(volume.ring.finishLocking {})
        volume.ring.wipeIfLocked { wiped += 1 }
        #expect(wiped == 2)
    }

    @Test func otherVolumesKeysAreRefused() throws {
        let one = try Mounted.make()
        let other = try Mounted.make()
        #expect(throws: KeyError.otherVolume) { _ = try one.ring.unlock(with: try other.keys.copy()) }
        #expect(throws: KeyError.otherVolume) {
            let mixed = try one.keys.replacing(.classKey(.none), from: other.keys)
            _ = try one.ring.unlock(with: mixed)
        }
        #expect(one.ring.state == .beforeFirstUnlock)
    }

    @Test func locksWaitForReads() throws {
        let volume = try Mounted.make()
        _ = try volume.unlock()
        try volume.ring.beginRead()
        try volume.ring.withState { (keys: borrowing HeldKeys) throws(KeyError) in try keys.beginRead() }
        #expect(volume.ring.readsInFlight == 2)
        #expect(volume.ring.beginLocking())
        #expect(!volume.ring.waitForReads(until: monotonicNanoseconds() + 20_000_000))
        volume.ring.endRead()
        let ring = volume.ring
        inThreads(2) { index in
            if index == 0 {
                #expect(ring.waitForReads(until: monotonicNanoseconds() + 120_000_000_000))
            } else {
                usleep(20_000)
                ring.endRead()
            }
        }
        #expect(volume.ring.finishLocking {})
    }

    /// Readers use class A while another thread locks and unlocks: no reader ever sees the state change under it.
    @Test func noLockSlipsBetweenTestAndUse() throws {
        let volume = try Mounted.make()
        _ = try volume.unlock()
        let ring = volume.ring
        let fileKey = try SecretKey.random()
        let wrapped = try ring.wrap(fileKey, .complete)
        let done = Atomic(false)
        let served = Atomic(0)
        let refused = Atomic(0)
        inThreads(5) { index in
            if index == 0 {
                for _ in 0..<200 {
                    _ = ring.beginLocking()
                    #expect(ring.waitForReads(until: monotonicNanoseconds() + 120_000_000_000))
                    _ = ring.finishLocking { #expect(ring.readsInFlight == 0) }
                    let before = served.load(ordering: .relaxed)
                    _ = try? volume.unlock()
                    // However slow the machine is, every lock meets readers.
                    let end = monotonicNanoseconds() + 300_000_000_000
                    while served.load(ordering: .relaxed) == before, monotonicNanoseconds() < end { usleep(50) }
                }
                done.store(true, ordering: .releasing)
                return
            }
            while !done.load(ordering: .acquiring) {
                do throws(KeyError) {
                    try ring.beginRead()
                } catch {
                    refused.add(1, ordering: .relaxed)
                    continue
                }
                // Counted: the lock waits, so that the key must still be there.
                let opened = ring.withState { (keys: borrowing HeldKeys) in
                    let before = keys.state
                    let works =
                        (try? keys.unwrap(wrapped, .complete)) != nil
                    return works && keys.state == before && before != .locked
                }
                #expect(opened)
                served.add(1, ordering: .relaxed)
                ring.endRead()
            }
        }
        #expect(served.load(ordering: .relaxed) > 0)
    }

    @Test func delaysGrow() throws {
        let throttle = UnlockThrottle(unit: 10_000_000)
        #expect((0...8).map { throttle.delay(afterFailures: $0) / 10_000_000 } == [0, 1, 2, 4, 8, 16, 30, 30, 30])
        func fail() {
            _ = try? throttle.attempt(countsAsFailure: { (_: KeybagError) in true }) { () throws(KeybagError) -> Int in
                throw .wrongPassphrase
            }
        }
        let start = monotonicNanoseconds()
        fail()
        #expect(throttle.status.failures == 1)
        fail()
        fail()
        // 10 and 20 ms passed before the second and third attempts.
        #expect(monotonicNanoseconds() - start >= 30_000_000)
        let result = try throttle.attempt(countsAsFailure: { (_: KeybagError) in true }) { () throws(KeybagError) in 5 }
        #expect(result == 5)
        #expect(monotonicNanoseconds() - start >= 70_000_000)
        #expect(throttle.status.failures == 0)
    }

    @Test func oneAttemptAtATime() throws {
        let throttle = UnlockThrottle(unit: 1_000_000)
        let running = Atomic(0)
        let refused = Atomic(0)
        inThreads(20) { index in
            let result = try? throttle.attempt(countsAsFailure: { (_: KeybagError) in true }) {
                () throws(KeybagError) -> Int in
                #expect(running.add(1, ordering: .relaxed).newValue == 1)
                usleep(2_000)
                running.subtract(1, ordering: .relaxed)
                if index % 2 == 0 { throw .wrongPassphrase }
                return 1
            }
            if case .some(.none) = result.map({ Optional.some($0) }) { refused.add(1, ordering: .relaxed) }
        }
        #expect(running.load(ordering: .relaxed) == 0)
    }

    /// Waiting unlock attempts must not delay the end of a mount.
    @Test func closingRefusesThoseThatWait() throws {
        let throttle = UnlockThrottle(unit: 1_000_000_000_000)
        @Sendable func attempt() throws(KeybagError) -> Int? {
            try throttle.attempt(countsAsFailure: { (_: KeybagError) in true }) { () throws(KeybagError) -> Int in
                throw .wrongPassphrase
            }
        }
        #expect(throws: KeybagError.wrongPassphrase) { _ = try attempt() }
        let refused = Atomic(0)
        inThreads(4) { index in
            guard index > 0 else {
                usleep(100_000)
                throttle.close()
                return
            }
            if (try? attempt()) == .some(.none) { refused.add(1, ordering: .relaxed) }
        }
        #expect(refused.load(ordering: .relaxed) == 3)
        #expect(try attempt() == nil)
    }
}
