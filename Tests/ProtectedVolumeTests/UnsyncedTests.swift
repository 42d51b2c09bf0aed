// Clean unmounts of stores whose syncfs(2) makes nothing durable: everything is durable before the epoch is closed.

import BackingStore
import HostSystem
@testable import MemoryStore
import KeyFiles
import Testing

@testable import FileContents
@testable import ProtectedVolume

@Suite struct UnsyncedTests {
    private static let long = String(repeating: "n", count: 220)

    private func made() throws -> (MemoryStore, TestVolume) {
        let store = MemoryStore()
        store.forgetWholeSyncs()
        let it = try TestVolume(store.root)
        store.makeDurable()
        return (store, it)
    }

    private func work(_ it: TestVolume) throws {
        for path in ["a", "a/b", "c", Self.long] { try it.mkdir(path) }
        let big = String(repeating: "0123456789abcdef", count: 3000)
        for path in ["f", "a/f", "a/b/f", "\(Self.long)/\(Self.long)1"] { try it.write(path, big) }
        try it.write("gone")
        try it.unlink("gone")
        try it.rename("f", "c/moved")
        try it.rename("a/b", "c/b")
        try it.setClass("c", "A")
        try it.setClass("a/f", "A")
        let node = try it.node("a/f")
        try it.volume.setXattr(node, Array("user.note".utf8), value: Array("kept".utf8), mode: .set)
        it.volume.forget(node, count: 1_000)
    }

    private func check(_ it: TestVolume) throws {
        #expect(try it.list("") == ["a", "c", Self.long].sorted())
        #expect(try it.list("c") == ["b", "moved"])
        for path in ["c/moved", "a/f", "c/b/f", "\(Self.long)/\(Self.long)1"] {
            let text = try it.read(path)
            #expect(text.hasPrefix("0123456789abcdef"), "\(path)")
            #expect(try it.volume.open(it.node(path), writable: false).size == 48_000)
        }
        #expect(try it.getClass("c") == "complete" && it.getClass("a/f") == "complete")
        let note = try it.volume.getXattr(it.node("a/f"), Array("user.note".utf8))
        #expect(String(decoding: note, as: UTF8.self) == "kept")
    }

    @Test func aCleanUnmountIsDurable() throws {
        let (store, it) = try made()
        try work(it)
        try it.volume.close()
        for crashed in store.crashes(atMost: 30) {
            let again = try it.mountAgain(crashed.root)
            #expect(again.volume.content.epochs.endedBadly.isEmpty)
            try check(again)
            #expect(again.notices.withLock { $0 } == [])
        }
    }

    @Test func filesThatAreOpenAreDurableToo() throws {
        let (store, it) = try made()
        let (parent, name) = try it.parent("open")
        let (_, content) = try it.volume.create(name, in: parent, mode: 0o600, caller: TestVolume.caller)
        let bytes = Array("written".utf8)
        try content.write(bytes.span, at: 0)
        try it.volume.close()
        for crashed in store.crashes(atMost: 30) { #expect(try it.mountAgain(crashed.root).read("open") == "written") }
    }

    @Test(arguments: [StoreCall.fsync, .synchronizeDirectory])
    func aFailureKeepsTheEpochOpen(_ call: StoreCall) throws {
        let (store, it) = try made()
        try it.mkdir("d")
        try it.write("d/f")
        store.fail(call, with: .EIO)
        #expect(throws: VolumeError.store(.EIO)) { try it.volume.close() }
        #expect(try it.mountAgain(store.root).volume.content.epochs.endedBadly.count == 1)
    }

    /// A store whose syncfs(2) is trusted is not asked for anything else.
    @Test func trustedStoresSyncOnce() throws {
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        try work(it)
        store.clearRecords()
        try it.volume.close()
        #expect(store.records.map(\.call) == [.synchronizeStore])
    }
}
