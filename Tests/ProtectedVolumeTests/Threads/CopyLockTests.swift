// What a lock does to the copy of a file that is being made under a new key, and to class B files that no program has open.

import BackingStore
import HostSystem
import KeyFiles
import Keybag
import MemoryStore
import Synchronization
import TestSupport
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume
@testable import VolumeCheck

@Suite struct CopyLockTests {
    /// A copy of a file of several steps. The lock comes after the first one.
    struct Case: CustomTestStringConvertible, Sendable {
        var old: ProtectionClass
        /// Nil for a new key without another class.
        var new: ProtectionClass?
        /// The class that refuses the copy; nil if it goes on.
        var refusing: ProtectionClass?
        /// The class whose closing is looked at.
        var closing = ProtectionClass.complete

        var testDescription: String { "\(old) to \(new ?? old), \(closing) closes" }
    }

    private static let text = String(repeating: "a copy of several steps ", count: 30_000)
    /// What `TestVolume` reads of it.
    private static let start = String(text.prefix(4096))
    private static let (seven, middle) = (
        ProtectionClass.completeWhenUserInactive, ProtectionClass.completeUntilFirstUserAuthentication
    )

    private static let cases: [Case] = [
        Case(old: .complete, refusing: .complete),
        Case(old: .complete, new: ProtectionClass.none, refusing: .complete),
        Case(old: .none, new: .complete, refusing: .complete),
        Case(old: .completeUnlessOpen, refusing: .completeUnlessOpen),
        Case(old: .completeUnlessOpen, new: ProtectionClass.none, refusing: .completeUnlessOpen),
        Case(old: middle, new: .completeUnlessOpen),
        Case(old: middle),
        Case(old: seven),
        Case(old: seven, refusing: seven, closing: seven),
        Case(old: .none, new: seven, refusing: seven, closing: seven),
        Case(old: seven, new: ProtectionClass.none, refusing: seven, closing: seven),
        Case(old: middle, closing: seven),
    ]

    private static func volume(_ protectionClass: ProtectionClass) throws -> TestVolume {
        let it = try TestVolume()
        try it.write("f", text)
        try it.setClass("f", "\(protectionClass.canonical)")
        return it
    }

    private static func copy(
        _ node: Node, _ new: ProtectionClass?, in it: TestVolume, _ progress: (CopyProgress) -> Bool = { _ in true }
    ) throws(VolumeError) {
        if let new {
            try it.volume.reencrypt(node, to: new, progress: progress)
        } else {
            try it.volume.renewKey(of: node, progress: progress)
        }
    }

    private static func close(_ protectionClass: ProtectionClass, _ it: TestVolume) {
        it.lock()
        guard protectionClass == seven else { return }
        #expect(it.volume.lockUnmounted(seven))
    }

    /// A lock wipes the key of a copy that could not begin after it, while the copy waits, and the copy then ends.
    @Test(arguments: cases) func aLockWipesTheKeyOfACopy(_ wanted: Case) throws {
        let it = try Self.volume(wanted.old)
        let node = try it.node("f")
        var steps = 0
        var failure: VolumeError?
        do throws(VolumeError) {
            try Self.copy(node, wanted.new, in: it) { now in
                steps += 1
                guard steps == 1 else { return true }
                let keys = it.volume.content.looseKeys.ofCopies
                #expect(keys.count == 1 && keys.allSatisfy(\.isPresent) && now.hasKey)
                Self.close(wanted.closing, it)
                let goesOn = wanted.refusing == nil
                #expect(keys.allSatisfy { $0.isPresent == goesOn } && now.hasKey == goesOn)
                let isClosed = !Access.isAllowed(.open, class: wanted.old, state: it.volume.keys.state(of: wanted.old))
                #expect(it.volume.content(of: node)?.hasKey == !isClosed)
                return true
            }
        } catch { failure = error }
        #expect(failure == wanted.refusing.map { .locked($0) })
        #expect(it.volume.content.looseKeys.ofCopies.isEmpty)
        if wanted.refusing != nil { #expect(steps == 1) }
        try it.unlock()
        let now = wanted.refusing == nil ? wanted.new ?? wanted.old : wanted.old
        #expect(try it.getClass("f") == "\(now.canonical)")
        #expect(try it.read("f") == Self.start)
        #expect(try it.list("") == ["f"])
        // The copy has left nothing in the store, and it can be made again.
        let names = try it.directory.entries().map { String(decoding: $0.name.bytes, as: UTF8.self) }
        #expect(names.filter { $0.hasPrefix(".protectfs.tmp") } == [])
        try Self.copy(it.node("f"), wanted.new, in: it)
        try it.volume.close()
        #expect(try CheckOutcome.of(it, it.directory).kinds == [])
    }

    /// The key of a copy does not come back with an unlock, so a copy that has slept through both ends as well.
    @Test(arguments: [ProtectionClass.complete, .completeUnlessOpen])
    func aCopyEndsAlsoAfterAnUnlock(_ protectionClass: ProtectionClass) throws {
        let it = try Self.volume(protectionClass)
        #expect(throws: VolumeError.locked(protectionClass)) {
            try Self.copy(it.node("f"), nil, in: it) { now in
                guard now.hasKey else { return true }
                it.lock()
                return (try? it.unlock()) != nil
            }
        }
        #expect(try it.read("f") == Self.start)
        try Self.copy(it.node("f"), nil, in: it)
        #expect(try it.read("f") == Self.start)
    }

    /// While a store takes its time with the last sync of a copy, a lock finds every key.
    @Test(arguments: [ProtectionClass.complete, .completeUnlessOpen])
    func aLockDoesNotWaitForTheSyncOfACopy(_ protectionClass: ProtectionClass) throws {
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        try it.write("f", Self.text)
        try it.setClass("f", "\(protectionClass.canonical)")
        let node = try it.node("f")
        let wasLocked = Atomic(false)
        store.beforeSync.withLock {
            $0 = {
                it.lock()
                #expect(it.volume.content.looseKeys.ofCopies.allSatisfy { !$0.isPresent })
                #expect(it.volume.content(of: node)?.hasKey == false)
                wasLocked.store(true, ordering: .relaxed)
            }
        }
        // It is complete by then.
        try Self.copy(node, nil, in: it)
        let isLocked = wasLocked.load(ordering: .relaxed)
        #expect(isLocked)
        try it.unlock()
        #expect(try it.read("f") == Self.start)
    }

    /// A program that has a class B file open keeps its key through a lock, and not that of the copy. When the program closes the
    /// file, the copy that still waits does not keep the key either.
    @Test func aProgramKeepsAFileOfClassBOpen() throws {
        let it = try Self.volume(.completeUnlessOpen)
        let node = try it.node("f")
        let content = try it.volume.open(node, writable: false)
        #expect(throws: VolumeError.locked(.completeUnlessOpen)) {
            try Self.copy(node, nil, in: it) { now in
                it.lock()
                #expect(!now.hasKey && content.hasKey && node.openHandles == 1)
                #expect((try? TestVolume.bytes(of: content)) == Self.start)
                it.volume.release(node, writable: false)
                #expect(!content.hasKey && node.openHandles == 0 && it.volume.content(of: node) === content)
                return true
            }
        }
        try it.unlock()
        #expect(try it.read("f") == Self.start)
    }

    /// A program that is about to open a class B file when a lock wipes its key, because only a copy has it open, gets no handle.
    @Test func aLockOvertakesAnOpenBesideACopy() throws {
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        try it.write("f", Self.text)
        try it.setClass("f", "B")
        let node = try it.node("f")
        var failure: VolumeError?
        try? Self.copy(node, nil, in: it) { _ in
            store.beforeFlags.withLock { $0 = { it.lock() } }
            do throws(VolumeError) { _ = try it.volume.open(node, writable: true) } catch { failure = error }
            #expect(node.openHandles == 0 && node.writableHandles == 0)
            return false
        }
        #expect(failure == .locked(.completeUnlessOpen))
        try it.unlock()
        #expect(try it.read("f") == Self.start)
    }

    /// A file that is just being opened, while the store takes its time, does not keep its key through a lock.
    @Test(arguments: ["A", "B"]) func aLockWipesTheKeyOfAFileThatIsBeingOpened(_ letter: String) throws {
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        try it.write("f", Self.text)
        try it.setClass("f", letter)
        let node = try it.node("f")
        let loose = it.volume.content.looseKeys
        store.beforeFlags.withLock {
            $0 = {
                #expect(loose.opening.map(\.hasKey) == [true])
                it.lock()
                #expect(loose.opening.map(\.hasKey) == [false])
            }
        }
        let locked = VolumeError.locked(letter == "A" ? .complete : .completeUnlessOpen)
        #expect(throws: locked) { try it.volume.open(node, writable: true) }
        #expect(loose.opening.isEmpty && node.openHandles == 0)
        try it.unlock()
        #expect(try it.read("f") == Self.start)
        #expect(loose.opening.isEmpty)
    }

    /// A class B file that a program has opened is read through locks, whatever copies are made and given up meanwhile. Otherwise
    /// no key is left after a lock.
    @Test func handlesOfClassBStayGoodBesideCopies() throws {
        let it = try Self.volume(.completeUnlessOpen)
        let isDone = Atomic(false)
        inThreads(3) { thread in
            if thread == 0 {
                for _ in 0..<100 {
                    it.lock()
                    #expect(it.volume.content.looseKeys.ofCopies.allSatisfy { !$0.isPresent })
                    try? it.unlock()
                }
                return isDone.store(true, ordering: .relaxed)
            }
            while !isDone.load(ordering: .relaxed) {
                guard let node = try? it.node("f") else { continue }
                if thread == 1 {
                    try? Self.copy(node, nil, in: it)
                } else if let content = try? it.volume.open(node, writable: false) {
                    #expect((try? TestVolume.bytes(of: content)) == Self.start)
                    it.volume.release(node, writable: false)
                }
            }
        }
        #expect(try it.read("f") == Self.start)
    }

    /// A lock wipes the key of a class B file that only a copy has open. A program that opens it after the unlock has the key at the
    /// next lock.
    @Test func aHandleOfClassBGetsTheKeyBack() throws {
        let it = try Self.volume(.completeUnlessOpen)
        let node = try it.node("f")
        var text: String?
        #expect(throws: VolumeError.locked(.completeUnlessOpen)) {
            try Self.copy(node, nil, in: it) { _ in
                it.lock()
                #expect(it.volume.content(of: node)?.hasKey == false)
                try? it.unlock()
                guard let content = try? it.volume.open(node, writable: false) else { return true }
                it.lock()
                text = try? TestVolume.bytes(of: content)
                it.volume.release(node, writable: false)
                return true
            }
        }
        #expect(text == Self.start)
    }

    /// Holes are not written, so they do not count where the rate is bounded.
    @Test func holesAreNotWritten() throws {
        let it = try TestVolume()
        try it.write("f", "start")
        var change = AttributeChange()
        change.size = 1 << 34
        _ = try it.volume.setAttributes(of: it.node("f"), change)
        var last: (done: UInt64, written: UInt64) = (0, 0)
        try it.volume.renewKey(of: it.node("f")) { now in
            last = (now.done, now.written)
            return true
        }
        #expect(last.done == 1 << 34)
        #expect((1...128 << 12).contains(last.written))
    }
}
