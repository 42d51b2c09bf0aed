// Several mounts of one store (`-o shared`).

import BackingStore
import Dispatch
import Dispatch
import HostSystem
import KeyFiles
import Keybag
@testable import MemoryStore
import TestSupport
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume

struct SharedTests {
    /// A volume, and two mounts of it.
    private static func mounts(_ store: MemoryStore) throws -> (one: TestVolume, other: TestVolume) {
        try mounts(TestVolume(store.root), store.root)
    }

    private static func mounts(
        _ made: TestVolume, _ root: BackingDirectory
    ) throws -> (one: TestVolume, other: TestVolume) {
        var options = VolumeOptions()
        options.isShared = true
        return (try made.mountAgain(root, options: options), try made.mountAgain(root, options: options))
    }

    /// What another machine writes while a file is encrypted anew is not lost: the change of class is given up.
    @Test(arguments: ["none", "complete"], ["overwrite", "append", "class"])
    func aCopyLosesNoWriteOfAnotherMachine(_ name: String, _ change: String) throws {
        let store = MemoryStore()
        let (one, other) = try Self.mounts(store)
        let text = String(repeating: "before", count: 500)
        try one.write("f", text)
        let node = try one.node("f")
        let theirs = try other.volume.open(other.node("f"), writable: true)
        let wanted: ProtectionClass = name == "none" ? .none : .complete
        var isWritten = false
        #expect(throws: VolumeError.refused(.EBUSY)) {
            try one.volume.reencrypt(node, to: wanted) { _ in
                guard !isWritten else { return true }
                isWritten = true
                switch change {
                case "overwrite": try? theirs.write(Array("theirs".utf8).span, at: 0)
                case "append": try? theirs.append(Array("theirs".utf8).span)
                default: try? other.setClass("f", "B")
                }
                return true
            }
        }
        #expect(isWritten)
        let wants = change == "overwrite" ? "theirs" + text.dropFirst(6) : change == "append" ? text + "theirs" : text
        #expect(try one.read("f") == wants)
        #expect(try other.read("f") == wants)
        let kept = change == "class" ? "completeUnlessOpen" : "completeUntilFirstUserAuthentication"
        #expect(try one.getClass("f") == kept)
        #expect(try one.list("") == ["f"])
        // Nobody writes now.
        #expect(try one.volume.reencrypt(node, to: wanted))
        #expect(try other.read("f") == wants)
        #expect(try other.getClass("f") == (name == "none" ? "none" : "complete"))
        // The handle from before is on the former inode, whose writes would be lost.
        #expect(throws: VolumeError.stale) { try theirs.write(Array("late".utf8).span, at: 0) }
        #expect(throws: VolumeError.stale) { try theirs.append(Array("late".utf8).span) }
        #expect(try TestVolume.bytes(of: theirs) == wants)
    }

    /// A clock that does not move tells no change from the one before it.
    @Test func aCopyNeedsAClock() throws {
        let store = MemoryStore()
        let (one, _) = try Self.mounts(store)
        try one.write("f", "before")
        store.stopClock()
        #expect(throws: VolumeError.refused(.EBUSY)) { try one.volume.reencrypt(one.node("f"), to: .complete) }
        #expect(try one.read("f") == "before")
    }

    /// A file that was removed elsewhere can be written by those who have it open, as on other file systems.
    @Test func aRemovedFileCanBeWritten() throws {
        let (one, other) = try Self.mounts(MemoryStore())
        try one.write("f", "before")
        let content = try one.volume.open(one.node("f"), writable: true)
        try other.unlink("f")
        try content.write(Array("after".utf8).span, at: 0)
        #expect(try TestVolume.bytes(of: content) == "aftere")
    }

    /// Data and holes of a file that another machine has made longer.
    @Test func seekingFindsWhatAnotherMachineWrote() throws {
        let (one, other) = try Self.mounts(MemoryStore())
        try one.write("f", "before")
        let content = try one.volume.open(one.node("f"), writable: false)
        let theirs = try other.volume.open(other.node("f"), writable: true)
        try theirs.write([UInt8](repeating: 7, count: 100_000).span, at: 6)
        #expect(try content.seek(.data, from: 50_000) == 50_000)
        try theirs.truncate(to: 200_000)
        #expect(try content.seek(.hole, from: 0) < 200_000)
        try theirs.truncate(to: 3)
        #expect(throws: VolumeError.refused(.ENXIO)) { try content.seek(.data, from: 50_000) }
    }

    /// A second open is judged by the class that another machine has given the file, and so is the first handle then.
    @Test func aSecondOpenFindsTheClassOfAnotherMachine() throws {
        let (one, other) = try Self.mounts(MemoryStore())
        try one.write("f", "before")
        let node = try one.node("f")
        let content = try one.volume.open(node, writable: false)
        try other.setClass("f", "A")
        one.lock()
        #expect(throws: VolumeError.locked(.complete)) { try one.volume.open(node, writable: false) }
        #expect(throws: VolumeError.locked(.complete)) { try TestVolume.bytes(of: content) }
        try one.unlock()
        #expect(try TestVolume.bytes(of: content) == "before")
        #expect(try one.read("f") == "before")
        // A weaker class counts, too.
        try other.setClass("f", "C")
        one.lock()
        #expect(try one.read(node) == "before")
    }

    /// A daemon dies while it cuts a file whose page 0 another one has written. The other one reads what is left, as it
    /// tolerates the epoch that page 0 has from the dead one.
    @Test(arguments: [30_000, 5]) func aDeathDuringACutIsTolerated(size: UInt64) throws {
        let text = SeededBytes.make(60_000)
        var count = 0
        var hasStruck = true
        while hasStruck {
            count += 1
            let keys = try ContentKeys(.aes256GCM)
            let store = MemoryStore()
            let one = keys.mount(.everything, isShared: true)
            let two = keys.mount(.everything, isShared: true)
            let content = try store.create(in: one)
            try content.put(text, at: 0)
            try content.synchronize(dataOnly: false)
            let other = try store.open(in: two)
            try other.put(text, at: 0)
            try other.synchronize(dataOnly: false)
            store.fail(.write, at: count, with: .EIO)
            do throws(VolumeError) {
                try content.truncate(to: size)
                hasStruck = false
            } catch {}
            store.clearFaults()
            let left = try store.open(in: two).getAll()
            #expect(left.prefix(5) == text.prefix(5))
            #expect(left.count >= size)
        }
    }

    /// The first write through a newly opened file looks for what a crash has left. It skips the holes.
    @Test(arguments: [false, true]) func aSparseFileIsWrittenAtOnce(isDamaged: Bool) throws {
        let keys = try ContentKeys(.aes256GCM)
        let store = MemoryStore()
        let one = keys.mount(.everything, isShared: true)
        let two = keys.mount(.everything, isShared: true)
        let content = try store.create(in: one)
        try content.put([1, 2, 3], at: 0)
        try content.truncate(to: 1 << 40)
        try content.put([4], at: 1 << 39)
        try content.synchronize(dataOnly: false)
        if isDamaged {
            // As a crash leaves it, whose write of page 0 with HOLES is lost.
            let small = try store.create("g", in: one)
            try small.put([UInt8](repeating: 5, count: 9000), at: 0)
            try store.backing("g").truncate(to: 1 << 40)
        }
        let name = isDamaged ? "g" : "f"
        store.clearRecords()
        let other = try store.open(name, in: two)
        try other.put([9], at: 1)
        #expect(store.records.count { $0.call == .read || $0.call == .write } < 100)
        #expect(try other.get(0..<3) == (isDamaged ? [5, 9, 5] : [1, 9, 3]))
        if !isDamaged { #expect(try other.get(1 << 39..<(1 << 39) + 2) == [4, 0]) }
    }

    /// A page that another machine is just writing proves nothing. It is read again.
    @Test(arguments: [0, 100, 2000]) func aTornPageZeroIsReadAgain(bytes: Int) throws {
        let keys = try ContentKeys(.aes256GCM)
        let store = MemoryStore()
        let one = keys.mount(.everything, isShared: true)
        let content = try store.create(in: one, class: .complete)
        try content.put([1, 2, 3], at: 0)
        store.inject(MemoryStore.Fault(calls: [.read], countdown: 1, error: .EIO, bytes: bytes))
        let found = try FileContent.verifiedHeader(in: one, backing: try store.backing())
        #expect(found?.protectionClass == .complete)
        #expect(store.strikes == 1)
    }

    /// Another machine that hangs while it holds one file keeps no other file from being opened.
    @Test func aFileThatIsHeldElsewhereStopsNoOther() throws {
        let holder = try TemporaryDirectory()
        let root = try HostDirectory.open(path: holder.path)
        let one = try Self.mounts(TestVolume(root), root).one
        try one.write("held", "content")
        let held = try one.node("held")
        // One of the locks that opens share out among the files.
        var other: Node?
        for number in 0..<1000 where other == nil {
            try one.write("f\(number)", "content")
            let node = try one.node("f\(number)")
            if one.volume.opened.stripe(node) === one.volume.opened.stripe(held) { other = node }
        }
        let free = try #require(other)
        let (directory, entry) = try one.backing("held")
        let theirs = try directory.openFile(entry, .readWrite)
        try theirs.setLock(.exclusive, LockRange.content, waits: false)
        let isOpened = DispatchSemaphore(value: 0)
        let results = Lock<[String]>([])
        inThreads(3) { thread in
            switch thread {
            case 0: _ = try? one.read(held) == "content" ? results.withLock { $0.append("held") } : ()
            case 1:
                sleep(microseconds: 200_000)
                _ = try? one.read(free) == "content" ? results.withLock { $0.append("free") } : ()
                isOpened.signal()
            default:
                _ = isOpened.wait(timeout: .now() + 120)
                results.withLock { $0.append("end") }
                try? theirs.setLock(.none, LockRange.content, waits: false)
            }
        }
        #expect(results.withLock { $0 } == ["free", "end", "held"])
    }

    /// A late file that is made long after its lock. Another mount that looks before it has its name does not take it
    /// from the list for good, and one that looks afterwards leaves it alone until its mount has died.
    @Test func aLateFileIsMadeUnderTheEyesOfAnotherMount() throws {
        let store = MemoryStore()
        store.keepContentLocks()
        let made = try TestVolume(store.root)
        try made.write("f", "old old old")
        try made.setClass("f", "A")
        let states = StateFileStore(directory: made.states.root, volumeID: made.volume.keys.volumeID)
        var options = VolumeOptions()
        options.isShared = true
        let shared = options
        func look() throws -> String { try made.mountAgain(store.root, options: shared).read("f") }
        do {
            let keys = made.volume.keys
            let key = try keys.withState { (held) throws(KeyError) in try held.makeLateKey(number: 1000) }
            let log = LateLog(key: key, root: store.root, states: states, isShared: true)
            let file = try #require(try made.volume.header(of: made.node("f"))?.fileID)
            #expect(try log.append(Array("new".utf8).span, to: file, at: 0, keys))
            let seen = Lock<[Int]>([])
            store.beforeRename.withLock {
                $0 = {
                    let text = try? made.mountAgain(store.root, options: shared).read("f")
                    seen.withLock { $0.append(text == "old old old" ? 1 : 0) }
                }
            }
            try log.synchronize()
            #expect(seen.withLock { $0 } == [1])
            #expect(try states.load()?.layout.openLocks.map(\.number) == [1000])
            #expect(try look() == "old old old")
            #expect(try states.load()?.layout.openLocks.map(\.number) == [1000])
            withExtendedLifetime(log) {}
        }
        #expect(try look() == "new old old")
        #expect(try states.load()?.layout.openLocks.isEmpty == true)
    }
}

enum SeededBytes {
    static func make(_ count: Int) -> [UInt8] {
        var random = SeededGenerator(7)
        return random.bytes(count)
    }
}
