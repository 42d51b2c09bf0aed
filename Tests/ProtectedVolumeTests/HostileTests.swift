// A backing store that is changed by someone else: planted, swapped and damaged objects give their error and nothing else.

import BackingStore
import Keybag
import Locks
import Testing
import VolumeFormat

@testable import ProtectedVolume

@Suite struct HostileTests {
    private func name(_ text: String) -> EntryName { BackingName.known(Array(text.utf8)) }

    private func flip(_ target: [UInt8], at index: Int) -> [UInt8] {
        var target = target
        target[index] = target[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
        return target
    }

    private func replaceLink(_ directory: BackingDirectory, _ entry: EntryName, _ target: [UInt8]) throws {
        try directory.unlink(entry)
        try directory.createSymlink(entry, target: target)
    }

    @Test func foreignNamesAreShownAndHideNothing() throws {
        let holder = try TemporaryDirectory()
        let it = try TestVolume(holder.directory)
        try it.write("good", "good")
        _ = try it.directory.createFile(name("foreign"), mode: 0o600)
        try it.directory.createSymlink(name("AAAAAAAAAAAAAAAAAAAAAAAA"), target: Array("/etc/passwd".utf8))
        try it.directory.createSpecial(name("~" + String(repeating: "x", count: 43)), mode: 0o010600, device: 0)
        let listed = try it.list("")
        #expect(listed.count == 4)
        #expect(listed.contains("good"))
        for shown in listed where shown != "good" {
            #expect(shown.hasPrefix(".undecryptable-"))
            let node = try it.node(shown)
            if node.kind == .file {
                #expect(throws: VolumeError.damaged(.name)) { try it.read(node) }
            } else if node.kind == .symlink {
                #expect(throws: VolumeError.damaged(.symlink)) { try it.volume.readlink(node) }
            }
            try it.unlink(shown)
        }
        #expect(try it.list("") == ["good"])
        #expect(try it.read("good") == "good")
    }

    @Test func anotherDirectorysNamesDoNotVerify() throws {
        let it = try TestVolume()
        try it.mkdir("a")
        try it.mkdir("b")
        try it.write("a/file", "a")
        let (a, entry) = try it.backing("a/file")
        let b = try it.volume.directory(it.node("b"))
        try a.rename(entry, to: b, entry)
        #expect(try it.list("a") == [])
        let shown = try it.list("b")
        #expect(shown.count == 1 && shown[0].hasPrefix(".undecryptable-"))
        #expect(throws: VolumeError.noEntry) { try it.node("b/file") }
        try it.rename("b/\(shown[0])", "b/saved")
        #expect(try it.read("b/saved") == "a")
    }

    @Test func plantedKinds() throws {
        let holder = try TemporaryDirectory()
        let it = try TestVolume(holder.directory)
        try it.write("file", "x")
        let node = try it.node("file")
        let (directory, entry) = try it.backing("file")
        try directory.unlink(entry)
        try directory.createSymlink(entry, target: Array("/etc/passwd".utf8))
        #expect(throws: VolumeError.self) { try it.read(node) }
        let again = try it.mountAgain(it.directory)
        #expect(throws: VolumeError.damaged(.symlink)) { try again.volume.readlink(again.node("file")) }
        try directory.unlink(entry)
        try directory.createSpecial(entry, mode: 0o010600, device: 0)
        #expect(try again.node("file").kind == .fifo)
        #expect(throws: VolumeError.notSupported) { try again.read(again.node("file")) }
        try it.mkdir("d")
        try it.write("d/f")
        let sub = try it.node("d")
        it.volume.directories.removeAll()
        let (parent, child) = try it.backing("d")
        try parent.rename(child, to: parent, name("elsewhere"))
        try parent.createSymlink(child, target: Array("elsewhere".utf8))
        #expect(throws: VolumeError.stale) { try it.list(sub) }
    }

    @Test(arguments: [0, 3, 6, 20, 40, 58]) func tamperedRecords(_ index: Int) throws {
        let made = try TestVolume()
        try made.mkdir("d")
        try made.write("d/f")
        let directory = try made.volume.directory(made.node("d"))
        let target = try directory.readSymlink(BackingName.record)
        try replaceLink(directory, BackingName.record, flip(target, at: index))
        let it = try made.mountAgain(made.directory)
        let node = try it.node("d")
        #expect(throws: VolumeError.damaged(.record)) { try it.list(node) }
        #expect(throws: VolumeError.damaged(.record)) { try it.node("d/f") }
        #expect(throws: VolumeError.damaged(.record)) { try it.write("d/g") }
        #expect(try it.list("") == ["d"])
        try directory.unlink(BackingName.record)
        try directory.createSpecial(BackingName.record, mode: 0o010600, device: 0)
        #expect(throws: VolumeError.damaged(.record)) { try it.list(node) }
    }

    @Test func swappedRecordsAreNoticed() throws {
        let made = try TestVolume()
        try made.mkdir("a")
        try made.mkdir("b")
        try made.write("a/f")
        let a = try made.volume.directory(made.node("a"))
        let b = try made.volume.directory(made.node("b"))
        let ofA = try a.readSymlink(BackingName.record)
        try replaceLink(a, BackingName.record, try b.readSymlink(BackingName.record))
        try replaceLink(b, BackingName.record, ofA)
        let it = try made.mountAgain(made.directory)
        #expect(try it.list("a").allSatisfy { $0.hasPrefix(".undecryptable-") })
        #expect(throws: VolumeError.noEntry) { try it.node("a/f") }
        try replaceLink(made.directory, BackingName.record, ofA)
        let root = try made.mountAgain(made.directory)
        #expect(throws: VolumeError.damaged(.record)) { try root.write("new") }
    }

    @Test func tamperedNamesLinksAndAttributes() throws {
        let made = try TestVolume()
        let long = String(repeating: "l", count: 200)
        try made.write("name", "x")
        try made.write(long, "y")
        _ = try made.volume.symlink(
            Array("link".utf8), in: made.volume.root, target: Array("somewhere".utf8), caller: TestVolume.caller)
        let file = try made.node("name")
        try made.volume.setXattr(file, Array("user.one".utf8), value: [1, 2, 3], mode: .set)
        try made.volume.setXattr(file, Array("user.two".utf8), value: [4, 5, 6], mode: .set)
        let it = try made.mountAgain(made.directory)
        // An attribute's value under another name, and one byte changed.
        let (directory, entry) = try it.backing("name")
        let object = try directory.node(entry)
        let id = try it.volume.objectID(of: it.node("name"))
        let one = try it.volume.names.encodeAttribute(Array("user.one".utf8), of: id)
        let two = try it.volume.names.encodeAttribute(Array("user.two".utf8), of: id)
        try object.setAttribute(one, try object.attribute(two))
        #expect(throws: VolumeError.damaged(.attribute)) {
            try it.volume.getXattr(it.node("name"), Array("user.one".utf8))
        }
        try object.setAttribute(Array("user.pfs.AAAA".utf8), [1])
        #expect(try it.volume.listXattr(it.node("name")).count == 3)
        // A link's target.
        let (links, link) = try it.backing("link")
        for index in [0, 30, 60] {
            let target = try links.readSymlink(link)
            try replaceLink(links, link, flip(target, at: index))
            let fresh = try made.mountAgain(made.directory)
            #expect(throws: VolumeError.damaged(.symlink)) { try fresh.volume.readlink(fresh.node("link")) }
            try replaceLink(links, link, target)
        }
        // A companion.
        let (_, longEntry) = try it.backing(long)
        let companion = try #require(Volume.companionName(of: longEntry))
        let target = try made.directory.readSymlink(companion)
        try replaceLink(made.directory, companion, flip(target, at: 100))
        #expect(try it.list("").filter { $0.hasPrefix(".undecryptable-") }.count == 1)
        try made.directory.unlink(companion)
        #expect(try it.list("").filter { $0.hasPrefix(".undecryptable-") }.count == 1)
        #expect(try it.read(long) == "y")
        // A name.
        try directory.rename(
            entry, to: directory, name(String(decoding: flip(Array(entry.bytes), at: 4), as: UTF8.self)))
        let shown = try made.mountAgain(made.directory).list("")
        #expect(!shown.contains("name") && shown.count == 3)
    }

    @Test func aMissingRecordIsDerivedOnlyWhereItMayBe() throws {
        let made = try TestVolume()
        try made.mkdir("empty")
        try made.mkdir("full")
        try made.write("full/f", "content")
        for path in ["empty", "full"] {
            try made.volume.directory(made.node(path)).unlink(BackingName.record)
        }
        let it = try made.mountAgain(made.directory)
        #expect(try it.list("empty") == [])
        #expect(try it.volume.directory(it.node("empty")).entries().isEmpty)
        try it.write("empty/new", "new")
        let other = try made.mountAgain(made.directory)
        #expect(try other.read("empty/new") == "new")
        let (parent, entry) = try it.backing("empty")
        _ = parent
        let expected = it.volume.names.derivedID(parent: it.volume.keys.metadata.rootID, name: entry)
        #expect((try it.volume.directoryID(it.node("empty")) == expected) as Bool)
        // Names still decrypt, unverified; nothing is created.
        #expect(try it.list("full") == ["f"])
        #expect(try it.read("full/f") == "content")
        #expect(throws: VolumeError.damaged(.missingRecord)) { try it.write("full/new") }
        try made.directory.unlink(BackingName.record)
        let rootless = try made.mountAgain(made.directory)
        #expect(try rootless.read("empty/new") == "new")
        #expect(throws: VolumeError.damaged(.missingRecord)) { try rootless.mkdir("d") }
    }

    /// The kernel keeps the pages of what it knows: a change below must not pass for what a program has left.
    @Test func aChangeBesideAReaderIsSeenAtTheNextOpen() throws {
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        try it.write("a", "a")
        let a = try it.node("a")
        _ = try it.volume.open(a, writable: false)
        it.volume.release(a, writable: false)
        #expect(try it.read(a) == "a")
        _ = try it.volume.open(a, writable: false)
        let (directory, entry) = try it.backing("a")
        let below = try directory.openFile(entry, .readWrite)
        try below.setTimes(accessed: .keep, modified: .set(Timestamp(seconds: 5, nanoseconds: 6)))
        it.volume.release(a, writable: false)
        #expect(throws: VolumeError.stale) { try it.read(a) }
        #expect(try it.read("a") == "a")
    }

    @Test func inodeNumbersDoNotCrossFiles() throws {
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        try it.write("a", "a")
        try it.write("b", "b")
        let a = try it.node("a")
        #expect(try it.read(a) == "a")
        // Somebody puts b's bytes into a's inode.
        let (directory, first) = try it.backing("a")
        let (_, second) = try it.backing("b")
        let from = try directory.openFile(second, .readOnly)
        let to = try directory.openFile(first, .readWrite)
        var bytes = [UInt8](repeating: 0, count: 4096)
        var span = bytes.mutableSpan
        var raw = unsafe span.mutableBytes
        #expect(try from.read(into: &raw, at: 0) == 4096)
        try to.write(raw.bytes, at: 0)
        #expect(throws: VolumeError.stale) { try it.read(a) }
        #expect(try it.node("a") !== a)
    }
}
