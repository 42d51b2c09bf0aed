// Tests late records: writes that arrive after their keys are gone are in their files after an unlock, and no other
// writes are.

import BackingStore
@testable import MemoryStore
import KeyFiles
import Keybag
import HostSystem
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume
@testable import VolumeCheck

@Suite struct LateTests {
    @Test func aLateWriteIsThereAfterUnlock() throws {
        let scene = try LateScene()
        scene.it.lock()
        try scene.late("new")
        try scene.late("er", at: 3)
        #expect(throws: VolumeError.locked(.complete)) { try TestVolume.bytes(of: scene.content) }
        #expect(scene.lateFiles.isEmpty)
        #expect(try scene.openLocks.isEmpty)
        try scene.it.unlock()
        #expect(try TestVolume.bytes(of: scene.content) == "newerld old")
        #expect(scene.lateFiles.isEmpty)
        #expect(try scene.openLocks.isEmpty)
        // The log is closed: this is an ordinary write.
        try scene.late("again")
        #expect(try TestVolume.bytes(of: scene.content) == "againld old")
    }

    /// A state file has room for 64 locks with late files: one that has been unlocked takes none.
    @Test func moreLocksThanAStateFileLists() throws {
        let scene = try LateScene()
        for number in 100...100 + StateFileLayout.maximumLocks + 6 {
            scene.it.lock()
            try scene.late("\(number)")
            try scene.it.volume.persistLateRecords()
            #expect(try scene.openLocks.count == 1 && scene.lateFiles.count == 1, "lock \(number)")
            try scene.it.unlock()
            #expect(try TestVolume.bytes(of: scene.content) == "\(number) old old", "lock \(number)")
            #expect(try scene.openLocks.isEmpty && scene.lateFiles.isEmpty, "lock \(number)")
        }
    }

    @Test func aLateWriteMayGrowTheFile() throws {
        let scene = try LateScene()
        scene.it.lock()
        let long = String(repeating: "0123456789abcdef", count: 1024)
        try scene.late(long, at: 100)
        try scene.it.unlock()
        #expect(scene.content.size == 100 + 16384)
        #expect(try TestVolume.bytes(of: scene.content).contains("9abcdef0123"))
    }

    @Test func whatIsWrittenToTheStoreIsSealed() throws {
        let scene = try LateScene()
        scene.it.lock()
        try scene.late("SECRETSECRET")
        try scene.it.volume.persistLateRecords()
        let name = try #require(scene.lateFiles.first)
        let bytes = try Self.bytes(scene.store, name)
        #expect(bytes.count == 128 + 56 + 12 + 48 + 32)
        #expect(!String(decoding: bytes, as: Unicode.ASCII.self).contains("SECRET"))
        #expect(try scene.it.list("") == ["f"])
        #expect(try scene.openLocks.count == 1)
    }

    /// Data that fsync has made durable survives every power cut, until the file has it.
    @Test func powerCuts() throws {
        let scene = try LateScene()
        scene.it.lock()
        try scene.late("new")
        try scene.it.volume.synchronize(scene.node, dataOnly: true)
        for (place, (store, states)) in try crashes(scene).enumerated() {
            try expect(store, states, scene, "while locked, \(place)")
        }
        var changes = 0
        while true {
            let scene = try LateScene()
            scene.it.lock()
            try scene.late("new")
            try scene.it.volume.synchronize(scene.node, dataOnly: true)
            scene.store.cutPower(after: changes)
            try scene.it.unlock()
            let isWhole = (try? TestVolume.bytes(of: scene.content)) == "new old old" && scene.lateFiles.isEmpty
            for (store, states) in try crashes(scene) {
                try expect(store, states, scene, "\(changes) changes into the unlock")
            }
            if isWhole { break }
            changes += 1
            #expect(changes < 100)
            if changes == 100 { break }
        }
        #expect(changes > 3)
    }

    private func crashes(_ scene: LateScene) throws -> [(MemoryStore, MemoryStore)] {
        scene.store.crashes(atMost: 12).flatMap { store in
            scene.it.states.crashes(atMost: 4).map { (store, $0) }
        }
    }

    private func expect(_ store: MemoryStore, _ states: MemoryStore, _ scene: LateScene, _ what: String) throws {
        let again = try TestVolume(scene.it.keys, store.root, states, unlocked: false)
        try again.unlock()
        #expect(try again.read("f") == "new old old", "\(what)")
        #expect(LateScene.lateFiles(store).isEmpty, "\(what)")
        #expect(try LateScene.openLocks(states, again).isEmpty, "\(what)")
    }

    /// A file that is closed by the time of the unlock has its records when it is opened; others wait, and none comes twice.
    @Test func closedFilesWait() throws {
        let scene = try LateScene(["f", "g"])
        let other = try scene.it.volume.open(scene.it.node("g"), writable: true)
        scene.it.lock()
        try scene.late("F1")
        try scene.late("G1", at: 0, other)
        try scene.it.volume.close()
        let again = try scene.it.mountAgain(scene.store.crash(seed: 1).root, unlocked: false)
        try again.unlock()
        #expect(try LateScene.openLocks(scene.it.states, again).map(\.done) == [0])
        #expect(try again.read("f") == "F1d old old")
        #expect(try LateScene.openLocks(scene.it.states, again).map(\.done) == [1])
        let node = try again.node("f")
        let content = try again.volume.open(node, writable: true)
        let newer = Array("F2".utf8)
        try content.write(newer.span, at: 0)
        again.volume.release(node, writable: true)
        // A lock in between changes nothing.
        again.lock()
        try again.unlock()
        try again.volume.close()
        let third = try scene.it.mountAgain(again.directory)
        #expect(try third.read("f") == "F2d old old")
        #expect(try third.read("g") == "G1d old old")
        #expect(try LateScene.openLocks(scene.it.states, third).isEmpty)
    }

    @Test func aFullStoreLosesNothing() throws {
        let scene = try LateScene()
        scene.it.lock()
        scene.store.limitSpace(to: 0)
        try scene.late("new")
        #expect(throws: VolumeError.store(.ENOSPC)) { try scene.it.volume.synchronize(scene.node, dataOnly: true) }
        scene.store.limitSpace(to: .max)
        try scene.it.unlock()
        #expect(try TestVolume.bytes(of: scene.content) == "new old old")
        #expect(scene.lateFiles.isEmpty)
        #expect(try scene.openLocks.isEmpty)
    }

    /// Nor does it concern files without late records: their fsync and the end of the mount make them durable.
    @Test func aFullStoreConcernsNoOtherFile() throws {
        let scene = try LateScene()
        try scene.it.write("other", "synced")
        try scene.it.write("third", "never synced")
        try scene.it.volume.synchronizeDirectory(scene.it.volume.root)
        scene.it.lock()
        scene.store.limitSpace(to: 0)
        try scene.late("new")
        try scene.it.volume.synchronize(scene.it.node("other"), dataOnly: true)
        #expect(throws: VolumeError.store(.ENOSPC)) { try scene.it.volume.close() }
        for seed in 1...8 as ClosedRange<UInt64> {
            let again = try scene.it.mountAgain(scene.store.crash(seed: seed).root)
            #expect(try again.read("other") == "synced")
            #expect(try again.read("third") == "never synced")
        }
    }

    /// A file that cannot take its records stays closed until it can: nobody reads, or writes over, what is behind.
    @Test func aFileThatCannotTakeThemStaysClosed() throws {
        let scene = try LateScene()
        scene.it.lock()
        try scene.late("new")
        try scene.it.volume.synchronize(scene.node, dataOnly: true)
        scene.store.fail(.write, at: 1, with: .EIO)
        try scene.it.unlock()
        scene.store.clearFaults()
        #expect(throws: VolumeError.damaged(.late)) { try TestVolume.bytes(of: scene.content) }
        #expect(try scene.it.read(scene.node) == "new old old")
        #expect(try TestVolume.bytes(of: scene.content) == "new old old")
    }

    /// No change of a late file by an attacker without the keys leads to other content.
    @Test func tampering() throws {
        let scene = try LateScene()
        scene.it.lock()
        try scene.late("one")
        try scene.late("two", at: 4)
        try scene.it.volume.close()
        let name = try #require(scene.lateFiles.first)
        let whole = try Self.bytes(scene.store, name)
        let first = 128 + 56 + 3 + 48 + 32
        #expect(whole.count == 2 * first - 128)
        for offset in 0..<whole.count {
            var bytes = whole
            bytes[offset] ^= 1
            let expected = offset < first ? "old old old" : "one old old"
            try expect(bytes, name, scene, expected, "byte \(offset)")
        }
        for length in [0, 1, 127, 128, 129, first - 1, first, first + 1, whole.count - 1] {
            try expect(
                Array(whole[..<length]), name, scene, length < first ? "old old old" : "one old old", "cut to \(length)"
            )
        }
        let header = Array(whole[..<128])
        let (one, two) = (Array(whole[128..<first]), Array(whole[first...]))
        try expect(header + two + one, name, scene, "old old old", "reordered")
        try expect(header + one + one, name, scene, "one old old", "repeated")
        try expect(whole + two, name, scene, "one two old", "repeated behind")
        try expect(whole, name, scene, "one two old", "whole")
        // Under another number, or of another lock, it does not count.
        let other = String(decoding: LateFileName.bytes(of: 77), as: UTF8.self)
        try expect(whole, other, scene, "old old old", "under another number")
    }

    private func expect(
        _ bytes: [UInt8], _ name: String, _ scene: LateScene, _ expected: String, _ what: String
    ) throws {
        scene.store.makeDurable()
        let copy = scene.store.crash(seed: 1)
        scene.it.states.makeDurable()
        let states = scene.it.states.crash(seed: 1)
        for known in LateScene.lateFiles(copy) { try copy.root.unlink(#require(EntryName(known))) }
        let file = try copy.root.createFile(#require(EntryName(name)), mode: 0o600)
        try file.write(bytes.span, at: 0)
        let again = try TestVolume(scene.it.keys, copy.root, states, unlocked: false)
        try again.unlock()
        #expect(try again.read("f") == expected, "\(what)")
    }

    /// A used late file is not applied again, even if it is restored from a copy.
    @Test func aUsedFileDoesNotCount() throws {
        let scene = try LateScene()
        scene.it.lock()
        try scene.late("one")
        try scene.it.volume.synchronize(scene.node, dataOnly: true)
        let name = try #require(scene.lateFiles.first)
        let whole = try Self.bytes(scene.store, name)
        try scene.it.unlock()
        let newer = Array("NEW".utf8)
        try scene.content.write(newer.span, at: 0)
        try scene.it.volume.close()
        try expect(whole, name, scene, "NEW old old", "put back")
        let file = try scene.store.root.createFile(#require(EntryName(name)), mode: 0o600)
        try file.write(whole.span, at: 0)
        // The same mount, too.
        scene.it.lock()
        try scene.it.unlock()
        #expect(try TestVolume.bytes(of: scene.content) == "NEW old old")
    }

    /// A check puts them in, and drops those of files that are gone.
    @Test func aCheckPutsThemIn() throws {
        let scene = try LateScene(["f", "g"])
        let other = try scene.it.volume.open(scene.it.node("g"), writable: true)
        scene.it.lock()
        try scene.late("F1")
        try scene.late("G1", at: 0, other)
        try scene.it.unlink("g")
        try scene.it.volume.close()
        let copy = scene.store.crash(seed: 1)
        let ring = try scene.it.keys.ring()
        try scene.it.keys.unlock(ring)
        let states = StateFileStore(directory: scene.it.states.root, volumeID: ring.volumeID)
        let found = Lock<[String]>([])
        let summary = try Check.run(directory: copy.root, keys: ring, states: states) { finding in
            found.withLock { $0.append("\(finding.kind)") }
        }
        #expect(summary.errors == 0)
        #expect(LateScene.lateFiles(copy).isEmpty)
        #expect(try states.load()?.layout.openLocks.isEmpty == true)
        let again = try scene.it.mountAgain(copy.root)
        #expect(try again.read("f") == "F1d old old")
    }

    /// If a file's late records cannot be read, it stays closed, because the records would overwrite a write later.
    @Test func whatCannotBeReadClosesFiles() throws {
        let scene = try LateScene()
        scene.it.lock()
        try scene.late("one")
        try scene.it.volume.close()
        let copy = scene.store.crash(seed: 1)
        let again = try TestVolume(scene.it.keys, copy.root, scene.it.states, unlocked: false)
        let text = try #require(LateScene.lateFiles(copy).first)
        let name = try #require(EntryName(text))
        copy.fail(.openFile, at: 1, with: .EIO)
        try again.unlock()
        copy.fail(.openFile, at: 2, with: .EIO)
        #expect(throws: VolumeError.damaged(.late)) { try again.read("f") }
        copy.clearFaults()
        #expect(try again.read("f") == "one old old")
        #expect(throws: Errno.ENOENT) { try copy.root.status(of: name) }
    }

    /// An inode that a change of class has replaced has the same file ID, and a reader: it is not the one that is owed.
    @Test func theReplacedInodeGetsNothing() throws {
        let scene = try LateScene()
        scene.it.volume.release(scene.node, writable: true)
        _ = try scene.it.volume.open(scene.node, writable: false)
        try scene.it.volume.reencrypt(scene.node, to: .complete) { _ in true }
        let node = try scene.it.node("f")
        #expect(node !== scene.node)
        let content = try scene.it.volume.open(node, writable: true)
        scene.it.lock()
        try scene.late("new", at: 0, content)
        scene.it.volume.release(node, writable: true)
        try scene.it.unlock()
        #expect(try scene.it.read("f") == "new old old")
        #expect(scene.lateFiles.isEmpty)
    }

    /// A name alone proves nothing. It must not use up the numbers, and a file without header has no records.
    @Test func strangeNames() throws {
        let scene = try LateScene()
        try scene.it.volume.close()
        for number: UInt64 in [.max, .max - 1, LateFileName.largest, 7] {
            let bytes = LateFileName.bytes(of: number)
            let name = try #require(EntryName(bytes))
            _ = try scene.store.root.createFile(name, mode: 0o600)
        }
        try StateFileStore(directory: scene.it.states.root, volumeID: scene.it.volume.keys.volumeID).update { state in
            state?.layout.openLocks = [.init(number: 7), .init(number: LateFileName.largest)]
        }
        #expect(LateFiles.openLocks(of: scene.it.volume.keys.volumeID, in: scene.store.root).isEmpty)
        let again = try scene.it.mountAgain(scene.store.root)
        #expect(try LateScene.openLocks(scene.it.states, again).isEmpty)
        let node = try again.node("f")
        let content = try again.volume.open(node, writable: true)
        for _ in 0..<3 {
            again.lock()
            let bytes = Array("new".utf8)
            try again.volume.writeLate(bytes.span, at: 0, to: content)
            try again.volume.synchronize(node, dataOnly: true)
            try again.unlock()
        }
        #expect(try TestVolume.bytes(of: content) == "new old old")
    }

    /// Records that could neither go into their file nor to the disk are not durable, whatever is asked how often.
    @Test func fsyncPromisesNothingThatIsOwed() throws {
        let scene = try LateScene()
        scene.it.lock()
        try scene.late("new")
        for call in [StoreCall.write, .createFile] {
            for count in 1...4 { scene.store.fail(call, at: count, with: .ENOSPC) }
        }
        try scene.it.unlock()
        #expect(throws: VolumeError.self) { try scene.it.volume.synchronize(scene.node, dataOnly: true) }
        scene.store.clearFaults()
        try scene.it.volume.synchronize(scene.node, dataOnly: true)
        #expect(try TestVolume.bytes(of: scene.content) == "new old old")
    }

    static func bytes(_ store: MemoryStore, _ name: String) throws -> [UInt8] {
        let file = try store.root.openFile(#require(EntryName(name)), .readOnly)
        var bytes = [UInt8](repeating: 0, count: Int(try file.status().size))
        var raw = bytes.mutableSpan
        _ = try file.read(into: &raw, at: 0)
        return bytes
    }
}
