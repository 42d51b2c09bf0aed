// An older version of a file that someone puts back is noticed by the table of seen versions, and nothing else is taken for one.

import BackingStore
import HostSystem
import KeyFiles
import Keybag
@testable import MemoryStore
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume
@testable import VolumeCheck

@Suite struct FreshnessTests {
    /// A volume with a file, and what is stored of it.
    private struct Scene {
        let store = MemoryStore()
        let it: TestVolume
        let first: [UInt8]

        init(_ text: String = "first") throws {
            it = try TestVolume(store.root)
            try it.write("x", text)
            try it.volume.close()
            first = try Self.bytes(of: store)
        }

        static func file(in store: MemoryStore) throws -> BackingFile {
            for entry in try store.root.entries() where !entry.name.bytes.starts(with: ".protectfs".utf8) {
                return try store.root.openFile(entry.name, .readWrite)
            }
            throw Errno.ENOENT
        }

        static func bytes(of store: MemoryStore) throws -> [UInt8] {
            let file = try file(in: store)
            var bytes = [UInt8](repeating: 0, count: Int(try file.status().size))
            var raw = bytes.mutableSpan
            #expect(try file.read(into: &raw, at: 0) == bytes.count)
            return bytes
        }

        /// Puts the first version back.
        func putBack() throws {
            let file = try Self.file(in: store)
            try file.truncate(to: 0)
            try file.write(first.span, at: 0)
        }

        func mount(_ states: MemoryStore? = nil, _ change: (inout VolumeOptions) -> Void = { _ in }) throws
            -> TestVolume
        {
            var options = VolumeOptions()
            change(&options)
            return try TestVolume(it.keys, store.root, states ?? it.states, options: options)
        }

        /// A whole session.
        func session(_ states: MemoryStore? = nil, _ body: (TestVolume) throws -> Void) throws {
            let volume = try mount(states)
            try body(volume)
            try volume.volume.close()
        }

        /// What a mount says when the file is read.
        func notices(_ states: MemoryStore? = nil, _ change: (inout VolumeOptions) -> Void = { _ in }) throws
            -> [String]
        {
            let volume = try mount(states, change)
            _ = try volume.read("x")
            try volume.volume.close()
            return volume.notices.withLock { $0 }
        }

        func version(_ states: MemoryStore? = nil) throws -> UInt32 {
            let volume = try mount(states) { $0.isReadOnly = true }
            return try volume.volume.withContent(volume.node("x"), writable: false) { $0.version }
        }
    }

    private func isOlder(_ notices: [String]) -> Bool { notices.count == 1 && notices[0].hasPrefix("older(") }

    private func overwrite(_ it: TestVolume, _ text: String, at offset: Int = 0) throws {
        let node = try it.node("x")
        let content = try it.volume.open(node, writable: true)
        defer { it.volume.release(node, writable: true) }
        try content.put(Array(text.utf8), at: offset)
    }

    @Test func anOlderVersionIsNoticed() throws {
        let scene = try Scene()
        #expect(try scene.notices().isEmpty)
        try scene.session { try overwrite($0, "other") }
        #expect(try scene.notices().isEmpty)
        try scene.putBack()
        // It does not become the newest one by being seen, or by a check.
        for _ in 0..<2 {
            #expect(isOlder(try scene.notices()))
            let found = try CheckOutcome.of(scene.it, scene.store.root)
            #expect(found.kinds == ["older-than-seen"] && found.summary.errors == 0 && found.summary.notes == 1)
        }
        let strict = try scene.mount { $0.refusesOlder = true }
        #expect(throws: VolumeError.damaged(.older)) { try strict.read("x") }
        #expect(isOlder(strict.notices.withLock { $0 }))
        try strict.volume.close()
        #expect(isOlder(try scene.notices { $0.isReadOnly = true }))
        // A person accepts it.
        try scene.session { try $0.volume.accept($0.node("x")) }
        #expect(try scene.notices().isEmpty)
        #expect(try scene.notices { $0.refusesOlder = true }.isEmpty)
    }

    /// What is appended writes the last page, and not the first one.
    @Test func theLastPageCounts() throws {
        let scene = try Scene(String(repeating: "a", count: 10_000))
        #expect(try scene.notices().isEmpty)
        try scene.session { try overwrite($0, "appended", at: 10_000) }
        try scene.putBack()
        #expect(isOlder(try scene.notices()))
    }

    /// The file was never opened before the session that changes it, and never after it.
    @Test func theSessionThatWritesIsEnough() throws {
        let scene = try Scene()
        try scene.session { try overwrite($0, "other") }
        try scene.putBack()
        #expect(isOlder(try scene.notices()))
    }

    @Test func aChangeMakesItTheNewest() throws {
        let scene = try Scene()
        try scene.session { try overwrite($0, "other") }
        try scene.putBack()
        try scene.session { try overwrite($0, "third") }
        #expect(try scene.notices().isEmpty)
    }

    /// Without a clean end, what a sync has made durable is known; the rest is not.
    @Test(arguments: [true, false]) func afterACrash(isSynced: Bool) throws {
        let scene = try Scene()
        #expect(try scene.notices().isEmpty)
        let crashed = try scene.mount()
        try overwrite(crashed, "other")
        if isSynced {
            let node = try crashed.node("x")
            _ = try crashed.volume.open(node, writable: true)
            try crashed.volume.synchronize(node, dataOnly: true)
            crashed.volume.release(node, writable: true)
        }
        let store = scene.store.crash(index: 0)
        #expect(try TestVolume(scene.it.keys, store.root, scene.it.states).read("x") == (isSynced ? "other" : "first"))
        try scene.putBack()
        let again = try scene.mount()
        #expect(try again.read("x") == "first")
        #expect(isOlder(again.notices.withLock { $0 }) == isSynced)
    }

    @Test func whatIsRemovedIsForgotten() throws {
        let scene = try Scene()
        try scene.session { try overwrite($0, "other") }
        try scene.session { it in
            #expect(it.volume.content.seen?.isEmpty == false)
            _ = try it.read("x")
            try it.unlink("x")
            #expect(it.volume.content.seen?.isEmpty == true)
        }
        // The file of before is not known any more.
        try scene.session { #expect($0.volume.content.seen?.isEmpty == true) }
    }

    /// One that was never opened in the mount, and one that a rename replaces.
    @Test(arguments: [true, false]) func whatLosesItsNameUnopenedIsForgotten(isReplaced: Bool) throws {
        let scene = try Scene()
        try scene.session { try overwrite($0, "other") }
        try scene.session { it in
            #expect(it.volume.content.seen?.isEmpty == false)
            if isReplaced {
                try it.write("y", "new")
                try it.rename("y", "x")
            } else {
                try it.unlink("x")
            }
            #expect(it.volume.content.seen?.isEmpty == true)
        }
    }

    /// A change of class by a copy makes another file with the same ID.
    @Test func theFileBeforeAChangeOfClassIsOlder() throws {
        let scene = try Scene()
        #expect(try scene.notices().isEmpty)
        try scene.session { try $0.volume.reencrypt($0.node("x"), to: .complete) }
        #expect(try scene.notices().isEmpty)
        try scene.putBack()
        #expect(isOlder(try scene.notices()))
    }

    @Test func aVolumePutBackIsNoticedFileByFile() throws {
        let scene = try Scene()
        #expect(try scene.notices().isEmpty)
        scene.store.makeDurable()
        let backup = scene.store.crash(index: 0)
        try scene.session { try overwrite($0, "other") }
        let restored = try TestVolume(scene.it.keys, backup.root, scene.it.states)
        #expect(try restored.read("x") == "first")
        #expect(isOlder(restored.notices.withLock { $0 }))
        // A person accepts all of it.
        try restored.volume.accept(nil)
        try restored.volume.close()
        let again = try TestVolume(scene.it.keys, backup.root, scene.it.states)
        #expect(try again.read("x") == "first" && again.notices.withLock { $0 }.isEmpty)
    }

    /// Another machine's epochs may be lower, if its clock is behind. What it writes is newer all the same.
    @Test func anotherMachineWritesAboveWhatItFinds() throws {
        let scene = try Scene()
        for number in 0..<20 { try scene.session { try overwrite($0, "\(number)") } }
        let before = try scene.version()
        let other = MemoryStore()
        let volume = scene.it.volume.keys.volumeID
        try StateFileStore(directory: other.root, volumeID: volume) { Epoch.origin + 5 }.update {
            $0 = StateFile(unpinned: volume, above: [])
        }
        try scene.session(other) { try overwrite($0, "of another machine") }
        #expect(try scene.version() > before)
        #expect(try scene.notices().isEmpty)
        // Each has its own table.
        try scene.session { try overwrite($0, "of this one") }
        #expect(try scene.notices(other).isEmpty)
        try scene.putBack()
        #expect(isOlder(try scene.notices(other)))
        #expect(isOlder(try scene.notices()))
    }

    /// A repair and a rotation of keys write the file anew; a mount with `-o shared` compares nothing.
    @Test func whatWritesAFileMakesItNewer() throws {
        let scene = try Scene()
        for _ in 0..<2 {
            #expect(try scene.notices().isEmpty)
            let found = try CheckOutcome.of(scene.it, scene.store.root) { $0.repairs = true }
            #expect(found.kinds.isEmpty)
            try scene.session { _ = try $0.volume.renewKey(of: $0.node("x")) { _ in true } }
        }
        try scene.putBack()
        #expect(try scene.notices { $0.isShared = true }.isEmpty)
        #expect(isOlder(try scene.notices()))
    }

    /// A clock that was wrong once must not use up the epochs of other machines.
    @Test func aVersionOfFarAheadIsNotFollowed() {
        #expect(Epoch.latest(after: 5, at: Epoch.origin + 9) == 9 + 1 << 25)
        #expect(Epoch.latest(after: 50, at: Epoch.origin) == 50 + 1 << 25)
        #expect(Epoch.latest(after: .max, at: .min) == Epoch.largest - 1)
        #expect(Epoch.latest(after: 7, at: 0) == 7 + 1 << 25)
        let log = EpochLog(endedBadly: [], highest: 100, tolerance: .byEpoch, record: .none { Epoch.origin })
        #expect(log.follows(100 + 1 << 25) && !log.follows(101 + 1 << 25))
    }
}
