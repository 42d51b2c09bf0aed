// Power cut in the middle of every operation on names: the tree is the one before or the one after, and works.

import BackingStore
@testable import MemoryStore
import KeyFiles
import Keybag
import HostSystem
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume

@Suite struct CrashTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let name: String
        let prepare: @Sendable (TestVolume) throws -> Void
        let operation: @Sendable (TestVolume) throws -> Void
        /// Trees that may be found, as lists of paths.
        let outcomes: [[String]]
        var testDescription: String { name }
    }

    static let long = String(repeating: "q", count: 220)

    static let cases: [Case] = [
        Case(
            name: "mkdir", prepare: { _ in }, operation: { try $0.mkdir("d") }, outcomes: [[], ["d"]]),
        Case(
            name: "mkdir with a long name", prepare: { _ in }, operation: { try $0.mkdir(long) },
            outcomes: [[], [long]]),
        Case(
            name: "create with a long name", prepare: { _ in }, operation: { try $0.write(long) },
            outcomes: [[], [long]]),
        Case(
            name: "unlink a long name", prepare: { try $0.write(long) }, operation: { try $0.unlink(long) },
            outcomes: [[long], []]),
        Case(
            name: "rmdir", prepare: { try $0.mkdir("d") }, operation: { try $0.rmdir("d") }, outcomes: [["d"], []]),
        Case(
            name: "rmdir of a long name", prepare: { try $0.mkdir(long) }, operation: { try $0.rmdir(long) },
            outcomes: [[long], []]),
        Case(
            name: "rename over a directory",
            prepare: {
                try $0.mkdir("a")
                try $0.write("a/f")
                try $0.mkdir("b")
            }, operation: { try $0.rename("a", "b") }, outcomes: [["a", "a/f", "b"], ["b", "b/f"]]),
        Case(
            name: "rename from long to long",
            prepare: { try $0.write(long + "1") }, operation: { try $0.rename(long + "1", long + "2") },
            outcomes: [[long + "1"], [long + "2"]]),
        Case(
            name: "default class",
            prepare: {
                try $0.mkdir("d")
                try $0.write("d/f")
            }, operation: { try $0.setClass("d", "A") }, outcomes: [["d", "d/f"]]),
    ]

    /// Every path in the volume, sorted; each file is read, each directory can be created in.
    private func tree(_ it: TestVolume) throws -> [String] {
        var found: [String] = []
        var pending = [""]
        while let path = pending.popLast() {
            for name in try it.list(path) {
                let full = path.isEmpty ? name : "\(path)/\(name)"
                found.append(full)
                switch try it.node(full).kind {
                case .directory: pending.append(full)
                default: _ = try it.read(full)
                }
            }
        }
        for path in found where try it.node(path).kind == .directory {
            try it.mkdir("\(path)/probe")
            try it.rmdir("\(path)/probe")
        }
        return found.sorted()
    }

    @Test(arguments: cases) func everyCut(_ tested: Case) throws {
        for cut in 0..<40 {
            let store = MemoryStore()
            let it = try TestVolume(store.root)
            try tested.prepare(it)
            try it.volume.close()
            store.makeDurable()
            store.cutPower(after: cut)
            let isWhole = (try? tested.operation(it)) != nil
            store.clearFaults()
            for crashed in store.crashes(atMost: 12, seed: UInt64(cut)) {
                let again = try it.mountAgain(crashed.root)
                let found = try tree(again)
                #expect(tested.outcomes.contains(found), "cut \(cut): \(found)")
                for path in found.reversed() {
                    if try again.node(path).kind == .directory { try again.rmdir(path) } else { try again.unlink(path) }
                }
                #expect(try again.list("") == [])
            }
            if isWhole { return }
        }
        Issue.record("the operation never ran to its end")
    }

    @Test(arguments: cases) func everyFailure(_ tested: Case) throws {
        for count in 1..<60 {
            let store = MemoryStore()
            let it = try TestVolume(store.root)
            try tested.prepare(it)
            store.fail(nil, at: count, with: .ENOSPC)
            let isWhole = (try? tested.operation(it)) != nil
            store.clearFaults()
            let again = try it.mountAgain(store.root)
            let found = try tree(again)
            #expect(tested.outcomes.contains(found), "failure \(count): \(found)")
            // What failed left nothing in the way of doing it again.
            if !isWhole, found == tested.outcomes[0].sorted() {
                try? tested.operation(again)
                #expect(try tree(again) == tested.outcomes.last?.sorted())
            }
            if store.records.count < count { return }
        }
    }

    /// Where a store may lose a new symlink's target, a record is durable before its directory is seen, or an old one goes.
    @Test func aRecordIsDurableBeforeItIsNeeded() throws {
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        store.forgetOrderOfNewLinks()
        let operations: [(TestVolume) throws -> Void] = [{ try $0.mkdir("d") }, { try $0.setClass("d", "A") }]
        for operation in operations {
            store.clearRecords()
            try operation(it)
            let calls = store.records.map(\.call)
            let made = try #require(calls.firstIndex(of: .createSymlink))
            let synced = try #require(calls.firstIndex(of: .synchronizeDirectory))
            let renamed = try #require(calls.firstIndex(of: .rename))
            #expect(made < synced && synced < renamed)
        }
    }

    @Test func anAsideOfADirectoryWithEntriesIsPutBackWhereItsNamesVerify() throws {
        let it = try TestVolume()
        try it.mkdir("d")
        try it.write("d/f", "kept")
        let (root, entry) = try it.backing("d")
        let directory = try it.volume.directory(it.node("d"))
        let id = try #require(try it.volume.directoryID(it.node("d")))
        let aside = it.volume.names.asideName(parent: it.volume.keys.metadata.rootID, directory: id, name: entry)
        try directory.rename(BackingName.record, to: root, aside)
        let again = try it.mountAgain(it.directory)
        #expect(try again.read("d/f") == "kept")
        #expect(again.notices.withLock { $0.contains { $0.hasPrefix("restoredRecord") } })
        #expect(throws: Errno.ENOENT) { try root.status(of: aside) }
        #expect(try directory.readSymlink(BackingName.record).count == 59)
    }

    @Test(arguments: ["d/e/f", long, "\(long)/\(long)1", "d/\(long)"])
    func fsyncMakesTheWholePathDurable(_ path: String) throws {
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        try it.volume.close()
        store.makeDurable()
        let components = it.split(path).map { String(decoding: $0, as: UTF8.self) }
        for depth in 1..<components.count { try it.mkdir(components[..<depth].joined(separator: "/")) }
        let (parent, name) = try it.parent(path)
        let (entry, content) = try it.volume.create(name, in: parent, mode: 0o600, caller: TestVolume.caller)
        let bytes = Array("synced".utf8)
        try content.write(bytes.span, at: 0)
        try it.volume.synchronize(entry.node, dataOnly: false)
        let records = store.records.suffix(20).map(\.call)
        #expect(records.contains(.synchronizeDirectory) || components.count == 1 && path.utf8.count < 176)
        for crashed in store.crashes(atMost: 30) {
            let again = try it.mountAgain(crashed.root)
            #expect(try again.read(path) == "synced")
        }
        // A second sync has nothing to do but the file itself.
        store.clearRecords()
        try it.volume.synchronize(entry.node, dataOnly: false)
        #expect(store.records.map(\.call) == [.fsync])
        it.volume.release(entry.node, writable: true)
    }
}
