// Tests the destruction of keys: they are overwritten before they are removed, and a second run completes an
// interrupted one.

import BackingStore
@testable import MemoryStore
import Keybag
import HostSystem
import SodiumKit
import TestSupport
import Testing
import VolumeFormat

@testable import KeyFiles

@Suite struct EraserTests {
    /// One for all tests: the password hash is what takes time here.
    private static let bag = Result {
        let text = Array("p".utf8)
        return try Keybag.create(
            suite: .aes256GCM, passphrase: try SecretBytes(copying: text.span), deviceKey: try SecretKey.random(),
            cost: Argon2Parameters(passes: 1, memory: 8 << 20)
        ).bag
    }
    private static let secret: [UInt8] = (0..<3000).map { UInt8(truncatingIfNeeded: $0 &* 7) }

    /// A volume's directory with a keybag, its predecessor, and an unfinished one.
    private func volume() throws -> MemoryStore {
        let store = MemoryStore()
        let bag = try Self.bag.get()
        try KeybagFile.create(bag.bytes, in: store.root)
        let previous = KeybagFile.previous
        try store.root.createFile(previous, mode: 0o600).write(bag.bytes.span, at: 0)
        let temporary = KeybagFile.temporary
        try store.root.createFile(temporary, mode: 0o600).write(Self.secret.span, at: 0)
        store.makeDurable()
        store.clearRecords()
        return store
    }

    private func erase(_ directory: BackingDirectory) throws(Errno) {
        for name in KeybagFile.allNames { _ = try KeybagFile.destroy(name, in: directory) }
    }

    @Test func everythingIsOverwrittenAndDurableBeforeItIsRemoved() throws {
        let store = try volume()
        let kept = KeybagFile.temporary
        // A handle shows what became of the bytes.
        let handle = try store.root.openFile(kept, .readOnly)
        store.clearRecords()
        try erase(store.root)
        #expect(try store.root.entries().isEmpty)
        let calls = store.records.map(\.call).filter { $0.changes || $0 == .fsync || $0 == .synchronizeDirectory }
        let each: [StoreCall] = [.write, .fsync, .unlink, .synchronizeDirectory]
        // The predecessor is there only if `replace` leaves it; the keybag is marked first.
        #expect(calls.suffix(10) == each + [.rename, .synchronizeDirectory] + each)
        var found = [UInt8](repeating: 0, count: 8192)
        var span = found.mutableSpan
        // To the end of the block.
        #expect(try handle.read(into: &span, at: 0) == 4096)
        #expect(!zip(found, Self.secret).allSatisfy { $0 == $1 })
        #expect(try KeyFileEraser.destroy(kept, in: store.root) == .missing)
    }

    @Test func aFileWithOtherNamesIsNotWritten() throws {
        let store = try volume()
        let previous = KeybagFile.previous
        let victim = BackingName.known(Array("victim".utf8))
        try store.root.createFile(victim, mode: 0o600).write(Self.secret.span, at: 0)
        try? store.root.unlink(previous)
        try store.root.link(victim, to: store.root, previous)
        let inode = try store.root.status(of: victim).inode
        #expect(try KeyFileEraser.destroy(previous, in: store.root) == .unlinked(inode: inode))
        #expect(throws: Errno.ENOENT) { try store.root.status(of: previous) }
        #expect(try everything(below: store.root)[Self.secret] == 2, "victim and the temporary keybag")
    }

    @Test func twoNamesOfTheKeybagAreOne() throws {
        let store = try volume()
        let previous = KeybagFile.previous
        // What a replacement leaves that was cut off between its link and its rename.
        try? store.root.unlink(previous)
        try store.root.link(BackingName.keybag, to: store.root, previous)
        #expect(try KeybagFile.destroy(previous, in: store.root) == .removed)
        #expect(try KeybagFile.destroy(BackingName.keybag, in: store.root) == .destroyed(nil))
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
        let bag = try Self.bag.get()
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
                #expect(current.isEmpty || current == bag.bytes, "cut \(cut): half of a keybag under its own name")
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
        try store.root.createFile(other, mode: 0o600).write(Self.secret.span, at: 0)
        try store.root.unlink(BackingName.keybag)
        try store.root.createSymlink(BackingName.keybag, target: Array(other.bytes))
        #expect(try KeyFileEraser.destroy(BackingName.keybag, in: store.root) == .removed)
        #expect(try everything(below: store.root)[Self.secret] == 2)
    }

    @Test func aHalfOverwrittenKeyIsKnownByItsName() throws {
        let key = BackingName.known(Array("u.key".utf8))
        for cut in 0..<10 {
            let store = MemoryStore()
            try store.root.createFile(key, mode: 0o600).write(Self.secret.span, at: 0)
            store.makeDurable()
            store.cutPower(after: cut)
            let isWhole = (try? KeyFileEraser.destroy(key, in: store.root)) == .destroyed(nil)
            store.clearFaults()
            for crashed in store.crashes(atMost: 20, seed: UInt64(cut)) {
                if (try? crashed.root.status(of: key)) != nil {
                    #expect(try everything(below: crashed.root)[Self.secret] == 1, "cut \(cut)")
                }
                _ = try KeyFileEraser.destroy(key, in: crashed.root)
                #expect(try crashed.root.entries().isEmpty, "cut \(cut)")
            }
            if isWhole { return }
        }
        Issue.record("it never ran to its end")
    }
}
