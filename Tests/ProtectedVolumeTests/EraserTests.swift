// Destroying keys: overwritten before they are removed, and finished by a second run wherever the first one ended.

import BackingStore
import Keybag
import Locks
import Testing
import VolumeFormat

@testable import ProtectedVolume

@Suite struct EraserTests {
    private static let secret: [UInt8] = (0..<3000).map { UInt8(truncatingIfNeeded: $0 &* 7) }

    /// A volume's directory with a keybag, its predecessor, and one that was being made.
    private func volume() throws -> MemoryStore {
        let store = MemoryStore()
        let bag = try TestKeys.shared.get().bag
        try KeybagFile.create(bag.bytes, in: store.root)
        let previous = try #require(KeybagFile.previous)
        try unsafe store.root.createFile(previous, mode: 0o600).write(bag.bytes.span.bytes, at: 0)
        let temporary = try #require(KeybagFile.temporary)
        try unsafe store.root.createFile(temporary, mode: 0o600).write(Self.secret.span.bytes, at: 0)
        store.makeDurable()
        store.clearRecords()
        return store
    }

    private func erase(_ directory: BackingDirectory) throws(Errno) {
        for name in KeybagFile.allNames { _ = try Eraser.destroy(name, in: directory) }
    }

    @Test func everythingIsOverwrittenAndDurableBeforeItIsRemoved() throws {
        let store = try volume()
        let kept = try #require(KeybagFile.temporary)
        // Another name shows what became of the bytes.
        try store.root.link(kept, to: store.root, BackingName.known(Array("other name".utf8)))
        store.clearRecords()
        try erase(store.root)
        #expect(try store.root.entries().map(\.name.description) == ["other name"])
        let calls = store.records.map(\.call).filter { $0.changes || $0 == .fsync || $0 == .synchronizeDirectory }
        let each: [StoreCall] = [.write, .fsync, .unlink, .synchronizeDirectory]
        #expect(calls == each + each + each)
        let left = try everything(below: store.root)
        #expect(left.count == 1 && left[Self.secret] == nil)
        #expect(left.keys.first?.count == Self.secret.count)
        #expect(try Eraser.destroy(kept, in: store.root) == .missing)
    }

    @Test func whatDoesNotReadBackIsNotCalledDestroyed() throws {
        let store = try volume()
        store.fail(.read, with: .EIO)
        #expect(throws: Errno.EIO) { try erase(store.root) }
        store.clearFaults()
        try erase(store.root)
        #expect(try store.root.entries().isEmpty)
    }

    @Test func thePowerMayFailAnywhere() throws {
        let bag = try TestKeys.shared.get().bag
        var states = 0
        for cut in 0..<40 {
            let store = try volume()
            store.cutPower(after: cut)
            let isWhole = (try? erase(store.root)) != nil
            store.clearFaults()
            for crashed in store.crashes(atMost: 20 * repairEffort, seed: UInt64(cut)) {
                states += 1
                // A volume as before, or one that a second run finishes.
                let current = (try? KeybagFile.read(in: crashed.root)) ?? []
                let left = try everything(below: crashed.root)
                if isWhole { #expect(left.isEmpty, "cut \(cut)") }
                if current != bag.bytes { #expect(left[Self.secret] == nil, "cut \(cut): the keybag is not the last") }
                try erase(crashed.root)
                #expect(try crashed.root.entries().isEmpty, "cut \(cut)")
            }
            if isWhole { return print("power cuts in an erasure: \(cut) places, \(states) states") }
        }
        Issue.record("it never ran to its end")
    }

    @Test func aLinkInTheKeysPlaceIsNotFollowed() throws {
        let store = try volume()
        let other = BackingName.known(Array("other".utf8))
        try unsafe store.root.createFile(other, mode: 0o600).write(Self.secret.span.bytes, at: 0)
        try store.root.unlink(BackingName.keybag)
        try store.root.createSymlink(BackingName.keybag, target: Array(other.bytes))
        #expect(try Eraser.destroy(BackingName.keybag, in: store.root) == .removed)
        #expect(try everything(below: store.root)[Self.secret] == 2)
    }

    @Test func aHalfOverwrittenKeyIsKnownByItsName() throws {
        let key = BackingName.known(Array("u.key".utf8))
        for cut in 0..<10 {
            let store = MemoryStore()
            try unsafe store.root.createFile(key, mode: 0o600).write(Self.secret.span.bytes, at: 0)
            store.makeDurable()
            store.cutPower(after: cut)
            let isWhole = (try? Eraser.destroyMarked(key, in: store.root)) == .destroyed
            store.clearFaults()
            for crashed in store.crashes(atMost: 20, seed: UInt64(cut)) {
                if (try? crashed.root.status(of: key)) != nil {
                    #expect(try everything(below: crashed.root)[Self.secret] == 1, "cut \(cut)")
                }
                _ = try Eraser.destroyMarked(key, in: crashed.root)
                #expect(try crashed.root.entries().isEmpty, "cut \(cut)")
            }
            if isWhole { return }
        }
        Issue.record("it never ran to its end")
    }

    @Test func theStateFileGoesToo() throws {
        let it = try TestVolume()
        let states = StateFileStore(directory: it.states.root, volumeID: it.keys.bag.volumeID)
        #expect(try states.destroy() == .destroyed)
        #expect(try it.states.root.entries().isEmpty)
        #expect(try states.destroy() == .missing)
    }
}
