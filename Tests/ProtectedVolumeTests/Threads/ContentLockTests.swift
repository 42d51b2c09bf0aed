// Contents through locks of the volume, and under threads.

import BackingStore
@testable import MemoryStore
import Glibc
import HostSystem
import KeyFiles
import Synchronization
import TestSupport
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume

@Suite struct ContentLockTests {
    @Test func classesThroughALock() throws {
        let keys = try ContentKeys(.aes256GCM)
        let context = keys.mount()
        let store = MemoryStore()
        let a = try store.create("a", in: context, class: .complete)
        let b = try store.create("b", in: context, class: .completeUnlessOpen)
        let c = try store.create("c", in: context)
        for content in [a, b, c] { try content.put([1, 2, 3], at: 0) }
        keys.lock([a])
        #expect(!a.hasKey)
        #expect(throws: VolumeError.locked(.complete)) { try a.getAll() }
        #expect(throws: VolumeError.locked(.complete)) { try a.put([1], at: 0) }
        #expect(throws: VolumeError.locked(.complete)) { try a.put([1], at: 0, .writeBack) }
        #expect(throws: VolumeError.locked(.complete)) { try a.truncate(to: 1) }
        #expect(throws: VolumeError.locked(.complete)) { try a.seek(.data, from: 0) }
        #expect(throws: VolumeError.locked(.complete)) { try a.get(100..<101) }
        try a.synchronize(dataOnly: false)
        #expect(try b.getAll() == [1, 2, 3])
        try b.put([4], at: 3)
        #expect(try c.getAll() == [1, 2, 3])
        #expect(throws: VolumeError.locked(.completeUnlessOpen)) { try store.open("b", in: context) }
        #expect(throws: VolumeError.locked(.complete)) { try store.create("x", in: context, class: .complete) }
        #expect(throws: Errno.ENOENT) { try store.backing("x") }
        let made = try store.create("n", in: context, class: .completeUnlessOpen)
        try made.put([7], at: 0)
        #expect(try made.getAll() == [7])
        #expect(throws: VolumeError.locked(.complete)) { try c.changeClass(to: .complete, explicit: true) }
        #expect(throws: VolumeError.locked(.none)) { try b.changeClass(to: .none, explicit: true) }
        try c.changeClass(to: .completeUnlessOpen, explicit: true)
        try a.changeClass(to: .complete, explicit: true)
        #expect(!a.header.flags.contains(.explicit))
        try keys.unlock()
        #expect(try a.getAll() == [1, 2, 3])
        try a.put([9], at: 1)
        #expect(try a.getAll() == [1, 9, 3])
        #expect(c.header.flags.contains([.explicit, .keyExposed]))
    }

    /// Class 7 is read and written through a lock until it is closed, then refused like class A, and the same content opens again.
    @Test func classSevenAfterALock() throws {
        let seven = ProtectionClass.completeWhenUserInactive
        let keys = try ContentKeys(.aes256GCM)
        let context = keys.mount()
        let store = MemoryStore()
        let content = try store.create("7", in: context, class: seven)
        let c = try store.create("c", in: context)
        for content in [content, c] { try content.put([1, 2, 3], at: 0) }
        keys.lock([content, c])
        #expect(content.hasKey)
        try content.put([4], at: 3)
        #expect(try content.getAll() == [1, 2, 3, 4])
        #expect(try store.open("7", in: context).getAll() == [1, 2, 3, 4])
        #expect(try store.create("new", in: context, class: seven).getAll() == [])
        try c.changeClass(to: seven, explicit: true)
        #expect(throws: VolumeError.locked(.complete)) { try content.changeClass(to: .complete, explicit: true) }
        keys.closeInactive([content, c])
        #expect(!content.hasKey && !c.hasKey)
        for one in [content, c] {
            #expect(throws: VolumeError.locked(seven)) { try one.getAll() }
            #expect(throws: VolumeError.locked(seven)) { try one.put([1], at: 0) }
            #expect(throws: VolumeError.locked(seven)) { try one.put([1], at: 0, .writeBack) }
            #expect(throws: VolumeError.locked(seven)) { try one.truncate(to: 1) }
            #expect(throws: VolumeError.locked(seven)) { try one.changeClass(to: .none, explicit: true) }
        }
        #expect(throws: VolumeError.locked(seven)) { try store.open("7", in: context) }
        #expect(throws: VolumeError.locked(seven)) { try store.create("x", in: context, class: seven) }
        #expect(throws: Errno.ENOENT) { try store.backing("x") }
        let d = try store.create("d", in: context, class: .none)
        #expect(throws: VolumeError.locked(seven)) { try d.changeClass(to: seven, explicit: true) }
        try keys.unlock()
        #expect(try content.getAll() == [1, 2, 3, 4])
        #expect(try c.getAll() == [1, 2, 3])
        try content.put([9], at: 1)
        #expect(try content.getAll() == [1, 9, 3, 4])
    }

    @Test func anotherFileUnderTheSameHandle() throws {
        let keys = try ContentKeys(.aes256GCM)
        let context = keys.mount()
        let store = MemoryStore()
        let a = try store.create("a", in: context, class: .complete)
        try a.put([1, 2, 3], at: 0)
        keys.lock([a])
        try a.backing.write([UInt8](repeating: 5, count: 4096).span, at: 0)
        try keys.unlock()
        #expect(throws: VolumeError.stale) { try a.getAll() }
    }

    @Test func tighteningAndReencryption() throws {
        let keys = try ContentKeys(.xChaCha20Poly1305)
        let context = keys.mount()
        let store = MemoryStore()
        var random = SeededGenerator(8)
        let bytes = random.bytes(700_000)
        let content = try store.create("f", in: context, class: .none)
        #expect(content.size == 0)
        try content.changeClass(to: .completeUntilFirstUserAuthentication, explicit: false)
        #expect(!content.header.flags.contains(.keyExposed))
        try content.put(bytes, at: 0)
        try content.allocate(.punch, at: 100_000, length: 200_000)
        try content.changeClass(to: .complete, explicit: true)
        #expect(content.header.flags.contains([.keyExposed, .explicit, .holes]))
        let expected = try content.getAll()
        let target = try store.root.createFile(try #require(EntryName("new")), mode: 0o600)
        try content.reencrypt(into: target, class: .complete, explicit: true)
        let again = try store.open("new", in: context)
        #expect(again.fileID == content.fileID)
        #expect(!again.header.flags.contains(.keyExposed))
        #expect(try again.getAll() == expected)
        #expect(try again.seek(.hole, from: 0) < 120_000)
        try content.changeClass(to: .none, explicit: true, clearingExposure: true)
        #expect(!content.header.flags.contains(.keyExposed))
    }

    /// Writers on disjoint ranges, readers, and a thread that extends and cuts the end.
    @Test func parallelWriters() throws {
        let keys = try ContentKeys(.aes256GCM)
        let context = keys.mount()
        let store = MemoryStore()
        store.clearRecords(recording: false)
        let content = try store.create(in: context)
        let stretch = 9001
        try content.put([UInt8](repeating: 0, count: stretch * 4), at: 0)
        let isWrong = Atomic(false)
        inThreads(6) { thread in
            var random = SeededGenerator(UInt64(thread))
            for round in 0..<60 {
                do {
                    if thread < 4 {
                        let value = UInt8(thread * 60 + round + 1)
                        try content.put([UInt8](repeating: value, count: stretch), at: thread * stretch)
                        let found = try content.get(thread * stretch..<(thread + 1) * stretch)
                        if found != [UInt8](repeating: value, count: stretch) {
                            isWrong.store(true, ordering: .relaxed)
                        }
                    } else if thread == 4 {
                        _ = try content.get(0..<stretch * 4)
                    } else {
                        try content.put(random.bytes(5000), at: stretch * 4 + 100)
                        try content.truncate(to: UInt64(stretch * 4))
                    }
                } catch {
                    isWrong.store(true, ordering: .relaxed)
                }
            }
        }
        let wrong = isWrong.load(ordering: .relaxed)
        #expect(!wrong)
    }

    /// Locks and unlocks under load: every operation works or is refused as locked, and nothing is wrong afterwards.
    @Test func locksUnderLoad() throws {
        let keys = try ContentKeys(.aes256GCM)
        let context = keys.mount()
        let store = MemoryStore()
        store.clearRecords(recording: false)
        let content = try store.create("a", in: context, class: .complete)
        try content.put([UInt8](repeating: 1, count: 40_000), at: 0)
        let isWrong = Atomic(false)
        let isDone = Atomic(false)
        inThreads(4) { thread in
            if thread == 3 {
                for _ in 0..<30 {
                    keys.lock([content])
                    usleep(300)
                    do { try keys.unlock() } catch { isWrong.store(true, ordering: .relaxed) }
                    usleep(300)
                }
                isDone.store(true, ordering: .relaxed)
                return
            }
            while !isDone.load(ordering: .relaxed) {
                do throws(VolumeError) {
                    try content.put([UInt8](repeating: 2, count: 5000), at: thread * 11_000)
                    let found = try content.get(thread * 11_000..<thread * 11_000 + 5000)
                    if found.count != 5000 || found.contains(where: { $0 != 2 }) {
                        isWrong.store(true, ordering: .relaxed)
                    }
                } catch {
                    if error != .locked(.complete) { isWrong.store(true, ordering: .relaxed) }
                }
            }
        }
        let wrong = isWrong.load(ordering: .relaxed)
        #expect(!wrong)
        #expect(content.size == 40_000)
    }

    /// The kernel's write-back sends requests in parallel. In any order of the threads, no hole is left.
    @Test func writeBackOutOfOrderMakesNoHoles() throws {
        let keys = try ContentKeys(.aes256GCM)
        let store = MemoryStore()
        let content = try store.create(in: keys.mount())
        inThreads(6) { thread in
            usleep(UInt32(6 - thread) * 2000)
            try? content.put([UInt8](repeating: UInt8(thread + 1), count: 9000), at: thread * 9000, .writeBack)
        }
        #expect(!content.header.flags.contains(.holes))
        #expect(try content.getAll() == (0..<6).flatMap { [UInt8](repeating: UInt8($0 + 1), count: 9000) })
        // What is a hole becomes one all the same.
        try content.put([1], at: 90_000, .writeBack)
        #expect(content.header.flags.contains(.holes))
    }

    /// Two machines on one store: each sees what the other has done to the length.
    @Test func sharedMountsSeeEachOther() throws {
        let keys = try ContentKeys(.aes256GCM)
        let store = MemoryStore()
        let one = keys.mount(.everything, isShared: true)
        let two = keys.mount(.everything, isShared: true)
        let content = try store.create(in: one)
        try content.put([1, 2, 3], at: 0)
        let other = try store.open(in: two)
        try content.put([UInt8](repeating: 4, count: 10_000), at: 3)
        #expect(try other.get(0..<5) == [1, 2, 3, 4, 4])
        #expect(other.size == 10_003)
        try other.truncate(to: 2)
        #expect(try content.get(0..<9) == [1, 2])
    }

    @Test func rangeLocksAreFairAndExclude() {
        let lock = RangeLock()
        let inside = Atomic(0)
        let most = Atomic(0)
        inThreads(4) { thread in
            for round in 0..<300 {
                let start = UInt64((thread * 7 + round) % 5)
                let hold = lock.acquire(start..<start + 3, exclusive: true)
                // Any two of these ranges overlap in page 4 or lie within 0..<8: at most two at a time are disjoint.
                let now = inside.add(1, ordering: .relaxed).newValue
                most.max(now, ordering: .relaxed)
                inside.subtract(1, ordering: .relaxed)
                lock.release(hold)
            }
        }
        let together = most.load(ordering: .relaxed)
        #expect(together <= 2)
        let everything = lock.acquire(RangeLock.everything, exclusive: true)
        lock.release(everything)
    }
}
