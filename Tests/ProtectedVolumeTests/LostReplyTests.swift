// Tests a store that does a change of names and answers it with an error, as a network or FUSE store can: nothing is left that
// no program was told of, and nothing is taken apart that was done.

import BackingStore
@testable import MemoryStore
import HostSystem
import KeyFiles
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume
@testable import VolumeCheck

@Suite struct LostReplyTests {
    static let long = String(repeating: "l", count: 250)
    static let targetWithoutRoom = [UInt8](repeating: 65, count: 4000)

    enum Operation: String, CaseIterable {
        case file, longFile, directory, longDirectory, symlink, longSymlink, longTarget, link, longLink, fifo, longFifo
        case rmdir, rename, longRename, renameOver, renameDirectory, renameOverDirectory, exchange, defaultClass
        case reencrypt, longAttribute, nameless, namelessLink, namelessLongLink

        /// The names afterwards, if it is done. The others are there in both cases.
        var made: [String] {
            switch self {
            case .longFile, .longDirectory, .longSymlink, .longLink, .longFifo, .longRename, .namelessLongLink:
                [LostReplyTests.long]
            case .rmdir, .defaultClass, .reencrypt, .exchange, .longAttribute, .nameless: []
            case .renameOver: ["other"]
            case .renameOverDirectory: ["empty"]
            default: ["new"]
            }
        }

        /// The names that it takes away, if it is done.
        var taken: [String] {
            switch self {
            case .rmdir: ["empty"]
            case .rename, .longRename, .renameOver: ["old"]
            case .renameDirectory, .renameOverDirectory: ["directory"]
            default: []
            }
        }

        func run(_ it: TestVolume) throws {
            let (root, caller) = (it.volume.root, TestVolume.caller)
            let name = Array((made.first ?? "").utf8)
            switch self {
            case .file, .longFile:
                let made = try it.volume.create(name, in: root, mode: 0o644, caller: caller)
                it.volume.release(made.entry.node, writable: true)
            case .directory, .longDirectory: _ = try it.volume.mkdir(name, in: root, mode: 0o755, caller: caller)
            case .symlink, .longSymlink: _ = try it.volume.symlink(name, in: root, target: [65], caller: caller)
            case .longTarget:
                _ = try it.volume.symlink(name, in: root, target: LostReplyTests.targetWithoutRoom, caller: caller)
            case .link, .longLink: _ = try it.volume.link(it.node("old"), name, in: root)
            case .fifo, .longFifo:
                let mode = FileKind.fifo.modeBits | 0o644
                _ = try it.volume.mknod(name, in: root, mode: mode, device: 0, caller: caller)
            case .rmdir: try it.rmdir("empty")
            case .rename, .longRename, .renameOver: try it.rename("old", made[0])
            case .renameDirectory, .renameOverDirectory: try it.rename("directory", made[0])
            case .exchange: try it.rename("old", "directory", .exchange)
            case .defaultClass: try it.setClass("directory", "A")
            case .reencrypt: _ = try it.volume.reencrypt(it.node("old"), to: .complete) { _ in true }
            case .longAttribute:
                let value = [UInt8](repeating: 7, count: 10_000)
                try it.volume.setXattr(it.node("old"), Array("user.long".utf8), value: value, mode: .set)
            case .nameless, .namelessLink, .namelessLongLink:
                let made = try it.volume.createNameless(in: root, mode: 0o644, caller: caller)
                defer { it.volume.release(made.entry.node, writable: true) }
                try made.content.write(Array("nameless".utf8).span, at: 0)
                if self != .nameless { _ = try it.volume.link(made.entry.node, name, in: root) }
            }
        }
    }

    private static func make() throws -> (MemoryStore, TestVolume) {
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        try it.write("old", "old")
        try it.write("other", "other")
        try it.mkdir("directory")
        try it.write("directory/in", "in")
        try it.mkdir("empty")
        return (store, it)
    }

    /// The lost reply is that of each call in turn.
    @Test(arguments: Operation.allCases) func eachCall(_ operation: Operation) throws {
        var number = 1
        while true {
            let (store, it) = try Self.make()
            let names = try it.list("")
            store.inject(MemoryStore.Fault(calls: Self.calls, countdown: number, error: .EIO, bytes: 0))
            let isDone = (try? operation.run(it)) != nil
            let hasStruck = store.strikes > 0
            store.clearFaults()
            #expect(hasStruck || isDone, "\(operation)")
            let done = names.filter { !operation.taken.contains($0) } + operation.made
            let wanted = isDone ? Set(done) : Set(names)
            #expect(Set(try it.list("")) == wanted, "\(operation), call \(number)")
            try it.volume.close()
            let again = try it.mountAgain(store.root)
            #expect(Set(try again.list("")) == wanted, "\(operation), call \(number), mounted again")
            if !isDone {
                for (name, text) in [("old", "old"), ("other", "other"), ("directory/in", "in")] {
                    #expect(try again.read(name) == text, "\(operation), call \(number)")
                }
            }
            try again.volume.close()
            let found = try CheckOutcome.of(it, store.root, mends: false)
            #expect(found.kinds == [], "\(operation), call \(number): \(found.findings.map(\.backingPath.count))")
            if !hasStruck { break }
            number += 1
            try #require(number < 30)
        }
        #expect(number > 1)
    }

    static let calls: Set<StoreCall> = [
        .createFile, .createDirectory, .createSymlink, .createSpecial, .rename, .link, .setAttribute,
    ]

    /// A call that removes something is done as well. Those that only take leftovers away may fail.
    @Test(arguments: [StoreCall.unlink, .removeDirectory]) func aRemoval(_ call: StoreCall) throws {
        let (store, it) = try Self.make()
        store.inject(MemoryStore.Fault(calls: [call], countdown: 1, error: .EIO, bytes: 0))
        #expect(throws: Never.self) { if call == .unlink { try it.unlink("other") } else { try it.rmdir("empty") } }
        #expect(store.strikes == 1)
        #expect(try it.list("").count == 3)
        try it.volume.close()
        #expect(try CheckOutcome.of(it, store.root, mends: false).kinds == [])
    }

    /// A file of the same name that another program has made is never removed.
    @Test func somebodyElsesFile() throws {
        let (store, it) = try Self.make()
        let made = try it.volume.create(Array("new".utf8), in: it.volume.root, mode: 0o644, caller: TestVolume.caller)
        it.volume.release(made.entry.node, writable: true)
        let (directory, entry) = try it.backing("new")
        store.fail(.createFile, with: .EIO)
        #expect(throws: VolumeError.store(.EIO)) {
            try it.volume.create(Array("new".utf8), in: it.volume.root, mode: 0o644, caller: TestVolume.caller)
        }
        #expect(try directory.status(of: entry).size > 0)
        #expect(try it.read("new") == "")
    }

    /// While what was made cannot be looked at, the session stays open, so that the next mount and check take the file for empty.
    @Test func aStoreThatAnswersNothing() throws {
        let (store, it) = try Self.make()
        store.inject(MemoryStore.Fault(calls: [.createFile], countdown: 1, error: .EIO, bytes: 0))
        // Two looks come before: at the record of the directory.
        store.inject(MemoryStore.Fault(calls: [.status, .openNode], countdown: 3, error: .EIO, lasts: true))
        #expect(throws: VolumeError.store(.EIO)) { try Operation.file.run(it) }
        store.clearFaults()
        #expect(try it.read("new") == "")
        try it.volume.close()
        let again = try it.mountAgain(store.root)
        #expect(try again.read("new") == "")
        try again.volume.close()
        let found = try CheckOutcome.of(it, store.root)
        #expect(found.summary.errors == 0, "\(found.kinds)")
        #expect(try CheckOutcome.of(it, store.root).kinds == [])
    }

    @Test func lateRecords() throws {
        let scene = try LateScene()
        scene.it.lock()
        try scene.late("new")
        scene.store.inject(MemoryStore.Fault(calls: [.createFile], countdown: 1, error: .EIO, bytes: 0))
        #expect(throws: Never.self) { try scene.it.volume.persistLateRecords() }
        #expect(scene.store.strikes == 1)
        try scene.it.volume.close()
        let again = try scene.it.mountAgain(scene.store.root)
        #expect(try again.read("f") == "new old old")
        try again.volume.close()
        #expect(try CheckOutcome.of(scene.it, scene.store.root).summary.errors == 0)
    }
}
