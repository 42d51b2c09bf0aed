// Classes through the facade: inheritance, creation while locked, saves by rename, opening that races with the lock.

import BackingStore
@testable import MemoryStore
import Glibc
import KeyFiles
import Keybag
import HostSystem
import SodiumKit
import TestSupport
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume

@Suite struct VolumeClassTests {
    @Test func newEntriesInherit() throws {
        let it = try TestVolume()
        try it.mkdir("d")
        #expect(throws: VolumeError.noAttribute) { try it.getClass("d") }
        try it.write("d/c")
        #expect(try it.getClass("d/c") == "completeUntilFirstUserAuthentication")
        try it.setClass("d", "A")
        #expect(try it.getClass("d") == "complete")
        try it.write("d/a")
        try it.mkdir("d/e")
        #expect(try it.getClass("d/a") == "complete")
        #expect(try it.getClass("d/e") == "complete")
        #expect(try it.getClass("d/c") == "completeUntilFirstUserAuthentication")
        let again = try it.mountAgain(it.directory)
        #expect(try again.getClass("d") == "complete")
        #expect(try again.node("d/a").protectionClass == nil)
        #expect(try again.volume.protectionClass(of: again.node("d/a")) == .complete)
        try again.volume.removeXattr(again.node("d"), Array("user.protection".utf8))
        #expect(try again.getClass("d") == "complete")
        try again.setClass("d", "inherit")
        #expect(throws: VolumeError.noAttribute) { try again.getClass("d") }
        #expect(throws: VolumeError.invalid) { try again.setClass("d/a", "inherit") }
        #expect(throws: VolumeError.invalid) { try again.setClass("d", "complete\n") }
        #expect(throws: VolumeError.invalid) { try again.setClass("d/a", "completeWhenUserAsleep") }
        try again.setClass("d/a", "completeWhenUserInactive")
        #expect(try again.getClass("d/a") == "completeWhenUserInactive")
    }

    /// Directories that were there before have it too, and a default of their own comes first.
    @Test func theRootsDefaultIsTheVolumes() throws {
        let it = try TestVolume()
        try it.mkdir("old")
        try it.mkdir("own")
        try it.setClass("own", "C")
        #expect(it.volume.usualClass == .completeUntilFirstUserAuthentication)
        try it.setClass("", "A")
        #expect(it.volume.usualClass == .complete)
        try it.write("old/a")
        try it.write("own/c")
        #expect(try it.getClass("old/a") == "complete")
        #expect(try it.getClass("own/c") == "completeUntilFirstUserAuthentication")
        let again = try it.mountAgain(it.directory)
        try again.volume.readUsualClass()
        #expect(again.volume.usualClass == .complete)
        try again.write("old/b")
        #expect(try again.getClass("old/b") == "complete")
        #expect(throws: VolumeError.noAttribute) { try again.getClass("old") }
    }

    @Test func lockedVolume() throws {
        let it = try TestVolume()
        for letter in ["A", "B", "C", "D"] {
            try it.mkdir(letter)
            try it.setClass(letter, letter)
            try it.write("\(letter)/f", letter)
        }
        it.lock()
        for letter in ["A", "B"] {
            let protection: ProtectionClass = letter == "A" ? .complete : .completeUnlessOpen
            #expect(throws: VolumeError.locked(protection)) { try it.read("\(letter)/f") }
            #expect(try it.volume.attributes(of: it.node("\(letter)/f")).size == 1)
        }
        #expect(try it.read("C/f") == "C")
        #expect(try it.read("D/f") == "D")
        #expect(throws: VolumeError.locked(.complete)) { try it.write("A/new") }
        #expect(try it.list("A") == ["f"])
        try it.write("B/new", "made while locked")
        #expect(throws: VolumeError.locked(.completeUnlessOpen)) { try it.read("B/new") }
        try it.rename("A/f", "A/g")
        try it.setClass("A/g", "A")
        #expect(throws: VolumeError.locked(.complete)) { try it.setClass("A/g", "B") }
        #expect(throws: VolumeError.locked(.complete)) { try it.setClass("C/f", "A") }
        try it.setClass("C/f", "B")
        try it.volume.removeXattr(it.node("A/g"), Array("user.protection".utf8))
        try it.unlock()
        #expect(try it.read("A/g") == "A")
        #expect(try it.read("B/new") == "made while locked")
        #expect(try it.read("C/f") == "C")
    }

    @Test func beforeFirstUnlock() throws {
        let made = try TestVolume()
        try made.mkdir("D")
        try made.setClass("D", "none")
        try made.write("D/f", "boot")
        try made.write("c")
        let it = try made.mountAgain(made.directory, unlocked: false)
        #expect(try it.read("D/f") == "boot")
        #expect(throws: VolumeError.locked(.completeUntilFirstUserAuthentication)) { try it.read("c") }
        #expect(throws: VolumeError.locked(.completeUntilFirstUserAuthentication)) { try it.write("new") }
        #expect(try it.list("") == ["D", "c"])
        try it.mkdir("d")
        try it.unlock()
        try it.write("d/new")
    }

    @Test func handlesThroughALock() throws {
        let it = try TestVolume()
        for letter in ["A", "B"] {
            try it.write(letter, letter)
            try it.setClass(letter, letter)
        }
        let a = try it.node("A")
        let b = try it.node("B")
        let first = try it.volume.open(a, writable: true)
        let second = try it.volume.open(b, writable: true)
        it.lock()
        #expect(throws: VolumeError.locked(.complete)) { try TestVolume.bytes(of: first) }
        #expect(try TestVolume.bytes(of: second) == "B")
        #expect(throws: VolumeError.locked(.completeUnlessOpen)) { try it.volume.open(b, writable: false) }
        it.volume.release(b, writable: true)
        #expect(throws: VolumeError.locked(.completeUnlessOpen)) { try it.volume.open(b, writable: false) }
        try it.unlock()
        #expect(try TestVolume.bytes(of: first) == "A")
        it.volume.release(a, writable: true)
        #expect(try it.read("B") == "B")
    }

    @Test func aSaveByRenameKeepsTheClass() throws {
        let it = try TestVolume()
        try it.write("secret", "old")
        try it.setClass("secret", "A")
        try it.write("new", "new")
        try it.rename("new", "secret")
        #expect(try it.getClass("secret") == "complete")
        #expect(try it.read("secret") == "new")
        // A class that somebody chose stays.
        try it.write("chosen", "chosen")
        try it.setClass("chosen", "C")
        try it.rename("chosen", "secret")
        #expect(try it.getClass("secret") == "completeUntilFirstUserAuthentication")
        // Weaker targets change nothing.
        try it.write("weak")
        try it.setClass("weak", "D")
        try it.write("other", "other")
        try it.rename("other", "weak")
        #expect(try it.getClass("weak") == "completeUntilFirstUserAuthentication")
        // While locked there is no key for A: nothing changes.
        try it.write("a", "kept")
        try it.setClass("a", "A")
        try it.write("late", "late")
        it.lock()
        #expect(throws: VolumeError.locked(.complete)) { try it.rename("late", "a") }
        #expect(try it.getClass("late") == "completeUntilFirstUserAuthentication")
        #expect(try it.read("late") == "late")
        try it.unlock()
        #expect(try it.read("a") == "kept")
    }

    @Test func aSaveByRenameIsForgotten() throws {
        let it = try TestVolume()
        try it.write("a", "old")
        try it.setClass("a", "A")
        try it.write("new", "new")
        let node = try it.node("new")
        try it.rename("new", "a")
        #expect(node.protectionClass == .complete)
        // One lookup by the creation, one by the test: nothing else may keep it, or its space, once it is removed.
        it.volume.forget(node, count: 2)
        #expect(it.volume.node(node.number) == nil)
    }

    @Test func aSaveByRenameIsUndone() throws {
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        try it.write("a", "kept")
        try it.setClass("a", "A")
        try it.write("new", "new")
        store.fail(.rename, with: .EIO)
        #expect(throws: VolumeError.store(.EIO)) { try it.rename("new", "a") }
        #expect(try it.getClass("new") == "completeUntilFirstUserAuthentication")
        #expect(try it.volume.header(of: it.node("new"))?.flags == [])
        #expect(try it.read("new") == "new")
        #expect(try it.read("a") == "kept")
    }

    @Test func reencryptionGivesANewInode() throws {
        let it = try TestVolume()
        try it.write("f", "content")
        let node = try it.node("f")
        try it.volume.setXattr(node, Array("user.x".utf8), value: [1, 2, 3], mode: .set)
        let writer = try it.volume.open(node, writable: true)
        #expect(throws: VolumeError.refused(.EBUSY)) { try it.volume.reencrypt(node, to: .complete) }
        it.volume.release(node, writable: true)
        withExtendedLifetime(writer) {}
        try it.volume.reencrypt(node, to: .complete)
        let now = try it.node("f")
        #expect(now !== node)
        #expect(try it.getClass("f") == "complete")
        #expect(try it.read("f") == "content")
        #expect(try it.volume.getXattr(now, Array("user.x".utf8)) == [1, 2, 3])
        // What is written to the old inode would be lost.
        #expect(throws: VolumeError.stale) { try it.volume.open(node, writable: true) }
        _ = try it.volume.link(now, Array("g".utf8), in: it.volume.root)
        #expect(throws: VolumeError.refused(.EMLINK)) { try it.volume.reencrypt(now, to: .none) }
        #expect(try it.list("") == ["f", "g"])
    }

    @Test func anEmptyFileGetsANewKeyInPlace() throws {
        func key(_ content: FileContent) throws -> [UInt8] {
            let bytes = try content.fileKeys.withKey { (key: borrowing SecretKey) throws(VolumeError) in
                key.withBytes { bytes in bytes.indices.map { bytes[$0] } }
            }
            return try #require(bytes)
        }
        let it = try TestVolume()
        try it.write("f", "")
        let node = try it.node("f")
        let reader = try it.volume.open(node, writable: false)
        let before = try key(reader)
        #expect(try it.volume.reencrypt(node, to: .complete) == false)
        #expect(try it.node("f") === node)
        #expect(try it.getClass("f") == "complete")
        #expect(reader.header.flags == [.explicit])
        #expect(try key(reader) != before)
        let writer = try it.volume.open(node, writable: true)
        #expect(throws: VolumeError.refused(.EBUSY)) { try it.volume.reencrypt(node, to: .none) }
        try writer.put([1, 2, 3], at: 0)
        #expect(try reader.getAll() == [1, 2, 3])
        it.volume.release(node, writable: true)
        it.volume.release(node, writable: false)
        #expect(try it.volume.reencrypt(node, to: .none))
    }

    @Test func aNewKeyOfAnEmptyFileEndsItsExposure() throws {
        let it = try TestVolume()
        try it.write("f", "content")
        try it.setClass("f", "A")
        let node = try it.node("f")
        #expect(try it.volume.header(of: node)?.flags.contains(.keyExposed) == true)
        let writer = try it.volume.open(node, writable: true)
        try writer.truncate(to: 0)
        it.volume.release(node, writable: true)
        #expect(try it.volume.reencrypt(node, to: .complete) == false)
        #expect(try it.volume.header(of: node)?.flags == [.explicit])
        #expect(try it.list("") == ["f"])
    }

    @Test func aReaderOfBeforeReencryptionIsHeldToTheNewClass() throws {
        let it = try TestVolume()
        try it.write("f", "content")
        let node = try it.node("f")
        let reader = try it.volume.open(node, writable: false)
        try it.volume.reencrypt(node, to: .complete)
        #expect(reader.protectionClass == .complete && node.protectionClass == .complete)
        #expect(try reader.getAll() == Array("content".utf8))
        it.lock()
        #expect(throws: VolumeError.locked(.complete)) { try reader.getAll() }
        it.volume.release(node, writable: false)
    }

    @Test func aReencryptionThatIsRefusedLeavesTheClass() throws {
        let it = try TestVolume()
        try it.write("f", "content")
        #expect(throws: VolumeError.refused(.EBUSY)) {
            try it.volume.reencrypt(it.node("f"), to: .complete) { _ in
                guard let node = try? it.node("f"), (try? it.volume.open(node, writable: true)) != nil else {
                    return false
                }
                it.volume.release(node, writable: true)
                return true
            }
        }
        #expect(try it.getClass("f") == "completeUntilFirstUserAuthentication")
        #expect(try it.volume.header(of: it.node("f"))?.flags.contains(.keyExposed) == false)
        #expect(try it.read("f") == "content")
    }

    @Test func reencryptionKeepsWhatIsSetMeanwhile() throws {
        let it = try TestVolume()
        try it.write("f", "content")
        let node = try it.node("f")
        try it.volume.reencrypt(node, to: .complete) { _ in
            var change = AttributeChange()
            change.mode = 0o600
            return (try? it.volume.setAttributes(of: node, change)) != nil
        }
        #expect(try it.volume.attributes(of: it.node("f")).mode == 0o600)
        // A writer that came and went, and a new name, would be left with the old inode.
        #expect(throws: VolumeError.refused(.EBUSY)) {
            try it.volume.reencrypt(it.node("f"), to: .none) { _ in
                guard let node = try? it.node("f"), (try? it.volume.open(node, writable: true)) != nil else {
                    return false
                }
                it.volume.release(node, writable: true)
                return true
            }
        }
        #expect(throws: VolumeError.refused(.EBUSY)) {
            try it.volume.reencrypt(it.node("f"), to: .none) { _ in
                (try? it.volume.link(it.node("f"), Array("g".utf8), in: it.volume.root)) != nil
            }
        }
        #expect(try it.list("") == ["f", "g"])
    }

    @Test func noKeyIsLeftByOpeningDuringALock() throws {
        let it = try TestVolume()
        try it.write("a", "secret")
        try it.setClass("a", "A")
        let node = try it.node("a")
        let isDone = Lock(false)
        inThreads(3) { index in
            if index == 0 {
                for _ in 0..<200 {
                    it.lock()
                    // Opens of one file take turns: after this one is refused, none that began before the lock goes on.
                    #expect(throws: VolumeError.locked(.complete)) { try it.volume.open(node, writable: false) }
                    #expect(it.volume.content(of: node)?.hasKey != true)
                    try? it.unlock()
                }
                isDone.withLock { $0 = true }
            }
            while !isDone.withLock({ $0 }) {
                if (try? it.volume.open(node, writable: false)) != nil { it.volume.release(node, writable: false) }
            }
        }
        #expect(try it.read("a") == "secret")
        #expect(node.openHandles == 0)
    }

    @Test func noKeyIsLeftByCreatingDuringALock() throws {
        let it = try TestVolume()
        try it.mkdir("d")
        try it.setClass("d", "A")
        let parent = try it.node("d")
        let isDone = Lock(false)
        inThreads(3) { index in
            if index == 0 {
                for _ in 0..<200 {
                    it.lock()
                    try? it.unlock()
                }
                isDone.withLock { $0 = true }
            }
            var count = 0
            while !isDone.withLock({ $0 }) {
                count += 1
                let name = Array("f\(index)-\(count)".utf8)
                guard
                    let (entry, content) = try? it.volume.create(
                        name, in: parent, mode: 0o644, caller: TestVolume.caller)
                else { continue }
                if it.volume.keys.state == .locked { #expect(!content.hasKey) }
                it.volume.release(entry.node, writable: true)
                _ = try? it.volume.unlink(name, in: parent)
                it.volume.forget(entry.node, count: 1)
            }
        }
        #expect(it.volume.content.epochs.own.count == 1)
    }

    @Test func oneMountAtATime() throws {
        let store = MemoryStore()
        let first = try store.root.reopen()
        try Volume.claim(first, VolumeOptions())
        #expect(throws: VolumeError.refused(.EBUSY)) { try Volume.claim(store.root.reopen(), VolumeOptions()) }
        var readOnly = VolumeOptions()
        readOnly.isReadOnly = true
        #expect(throws: VolumeError.refused(.EBUSY)) { try Volume.claim(store.root.reopen(), readOnly) }
        withExtendedLifetime(first) {}
    }
}
