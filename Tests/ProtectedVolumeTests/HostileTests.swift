// Tests a backing store that an attacker changes: planted, swapped and damaged objects give only their error.

import BackingStore
@testable import MemoryStore
import KeyFiles
import Keybag
import HostSystem
import TestSupport
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
        #expect(try it.list("d").allSatisfy { $0.hasPrefix(".unverified-") && $0.hasSuffix("-f") })
        #expect(throws: VolumeError.noEntry) { try it.node("d/f") }
        #expect(throws: VolumeError.damaged(.record)) { try it.write("d/g") }
        #expect(try it.list("") == ["d"])
        try directory.unlink(BackingName.record)
        try directory.createSpecial(BackingName.record, mode: 0o010600, device: 0)
        #expect(try it.list(node).count == 1)
        #expect(throws: VolumeError.damaged(.record)) { try it.write("d/g") }
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
        #expect(try it.volume.listXattr(it.node("name")).count == 2)
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

    /// A store without any key must not get class C files where class A was asked for: no record is ever made up.
    @Test(arguments: [false, true]) func nothingIsCreatedWithoutARecord(_ isDamaged: Bool) throws {
        let made = try TestVolume()
        for path in ["empty", "full"] {
            try made.mkdir(path)
            try made.setClass(path, "A")
        }
        try made.write("full/f", "content")
        try made.mkdir("full/sub")
        try made.mkdir("full/recordless")
        for path in ["empty", "full", "full/recordless"] {
            let directory = try made.volume.directory(made.node(path))
            let target = try directory.readSymlink(BackingName.record)
            try directory.unlink(BackingName.record)
            if isDamaged { try directory.createSymlink(BackingName.record, target: flip(target, at: 57)) }
        }
        try made.write("other", "other")
        let it = try made.mountAgain(made.directory)
        let error = VolumeError.damaged(isDamaged ? .record : .missingRecord)
        let before = try everything(below: it.directory)
        for directory in ["empty", "full"] {
            let node = try it.node(directory)
            #expect(throws: error) { try it.write("\(directory)/new") }
            #expect(throws: error) { try it.mkdir("\(directory)/new") }
            #expect(throws: error) { try it.link("\(directory)/new", "target") }
            #expect(throws: error) { try it.rename("other", "\(directory)/new") }
            #expect(throws: error) { try it.setClass(directory, "D") }
            #expect(throws: error) {
                try it.volume.mknod(
                    Array("new".utf8), in: node, mode: 0o010600, device: 0, caller: TestVolume.caller)
            }
            #expect(throws: error) {
                try it.volume.link(it.node("other"), Array("new".utf8), in: node)
            }
        }
        #expect(try everything(below: it.directory) == before)
        // What is there is listed under marked names, read, renamed away and removed.
        #expect(try it.list("empty") == [])
        let shown = try it.list("full")
        #expect(shown.count == 3 && shown.allSatisfy { $0.hasPrefix(".unverified-") })
        let file = try #require(shown.first { $0.hasSuffix("-f") })
        #expect(try it.read("full/\(file)") == "content")
        #expect(throws: VolumeError.noEntry) { try it.node("full/f") }
        try it.rename("full/\(file)", "saved")
        #expect(try it.read("saved") == "content")
        for name in shown where name != file { try it.rmdir("full/\(name)") }
        try it.rmdir("full")
        try it.rmdir("empty")
        #expect(try it.list("") == ["other", "saved"])
        #expect(try it.directory.entries().allSatisfy { !$0.name.bytes.starts(with: ".protectfs.tmp.".utf8) })
    }

    /// Directories without a default take the root's: with its record gone they would take the mount's.
    @Test func withoutTheRootsRecordNoFileIsCreatedThatWouldTakeItsClass() throws {
        let made = try TestVolume()
        try made.mkdir("inherits")
        try made.mkdir("own")
        try made.setClass("", "A")
        try made.setClass("own", "B")
        try made.write("inherits/f", "secret")
        try made.directory.unlink(BackingName.record)
        let it = try made.mountAgain(made.directory)
        #expect(try it.list("").sorted() == ["inherits", "own"])
        for path in ["f", "inherits/g"] {
            #expect(throws: VolumeError.damaged(.missingRecord)) { try it.write(path) }
        }
        #expect(throws: VolumeError.damaged(.missingRecord)) { try it.mkdir("d") }
        #expect(try it.list("inherits") == ["f"])
        #expect(try it.read("inherits/f") == "secret")
        try it.write("own/f", "b")
        #expect(try it.getClass("own/f") == "completeUnlessOpen")
    }

    /// A crash between the two steps of rmdir leaves a directory whose record is set aside: it is healthy.
    @Test func aRecordSetAsideIsNoMissingOne() throws {
        let made = try TestVolume()
        try made.mkdir("d")
        try made.setClass("d", "A")
        let (parent, entry) = try made.backing("d")
        let child = try made.volume.directory(made.node("d"))
        let record = try #require(made.volume.names.record(target: child.readSymlink(BackingName.record)))
        let aside = made.volume.names.asideName(
            parent: made.volume.keys.metadata.rootID, directory: record.directoryID, name: entry)
        try child.rename(BackingName.record, to: parent, aside)
        let it = try made.mountAgain(made.directory)
        try it.write("d/f", "f")
        #expect(try it.getClass("d/f") == "complete")
    }

    /// A store that knows one name can turn it into another. Without a record nothing proves the name.
    @Test func aChosenNameIsMarked() throws {
        let made = try TestVolume()
        try made.mkdir("ssh")
        try made.write("ssh/visitors_address", "key")
        let (directory, entry) = try made.backing("ssh/visitors_address")
        try directory.rename(entry, to: directory, Self.chosen(entry, "visitors_address", "authorized_keys2"))
        let whole = try made.mountAgain(made.directory)
        let hidden = try whole.list("ssh")
        #expect(hidden.count == 1 && hidden[0].hasPrefix(".undecryptable-"))
        try directory.unlink(BackingName.record)
        let it = try made.mountAgain(made.directory)
        let shown = try it.list("ssh")
        #expect(shown.count == 1 && shown[0].hasPrefix(".unverified-") && shown[0].hasSuffix("-authorized_keys2"))
        #expect(throws: VolumeError.noEntry) { try it.node("ssh/authorized_keys2") }
        #expect(try it.read("ssh/\(shown[0])") == "key")
        let entries = try it.list(it.node("ssh"), attributes: .all)
        #expect(entries == [Array(shown[0].utf8)])
    }

    /// The backing name of `old`, turned into that of `new` without any key.
    static func chosen(_ entry: EntryName, _ old: String, _ new: String) throws -> EntryName {
        let decoded = Base64URL.decode(Array(entry.bytes).span)
        var bytes = try #require(decoded)
        for (index, (one, other)) in zip(old.utf8, new.utf8).enumerated() { bytes[16 + index] ^= one ^ other }
        return BackingName.known(Base64URL.encode(bytes.span))
    }

    /// The kernel keeps the pages of files that it knows. An external change must not appear as a program's data.
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
        var raw = bytes.mutableSpan
        #expect(try from.read(into: &raw, at: 0) == 4096)
        try to.write(raw.span, at: 0)
        #expect(throws: VolumeError.stale) { try it.read(a) }
        #expect(try it.node("a") !== a)
    }
}
