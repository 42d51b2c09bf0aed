// Directories, symlinks and attributes that a newer version has made: they are read as far as they are known, and kept.

import BackingStore
import HostSystem
@testable import MemoryStore
import KeyFiles
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume

@Suite struct NewerDirectoryTests {
    struct Change: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let apply: @Sendable (inout [UInt8]) -> Void
    }

    /// Fields of a record that this version does not know.
    static let records: [Change] = [
        Change(testDescription: "version 3") { $0[3] = 3 }, Change(testDescription: "class 6") { $0[4] = 6 },
        Change(testDescription: "class 9") { $0[4] = 9 }, Change(testDescription: "flag bit 0") { $0[5] |= 1 },
        Change(testDescription: "flag bit 3") { $0[5] |= 8 }, Change(testDescription: "generation") { $0[6] = 1 },
        Change(testDescription: "freshness") { $0[11] = 1 },
        Change(testDescription: "one byte longer") { $0 += [0] },
        Change(testDescription: "much longer") { $0 += [UInt8](repeating: 9, count: 3000) },
    ]

    /// `d` has a file, a directory, a link and an attribute. `path` is the directory whose record is changed.
    private func scene(_ change: Change, at path: String = "d") throws -> TestVolume {
        let it = try TestVolume()
        try it.mkdir("d")
        try it.setClass("d", "B")
        try it.write("d/f", "content")
        try it.mkdir("d/inner")
        try it.link("d/link", "target")
        try it.attribute("d", "user.one", "value")
        try it.mkdir("empty")
        try it.mkdir("plain")
        try it.write("plain/f", "plain")
        try it.signRecord(path, change.apply)
        return try it.again()
    }

    /// Every way of changing what is in the directory `d`.
    private func refusesChange(_ it: TestVolume) throws {
        let volume = it.volume
        let node = try it.node("d")
        let caller = TestVolume.caller
        try it.refuses(.record, "create") { () throws(VolumeError) in try it.write("d/new") }
        try it.refuses(.record, "mkdir") { () throws(VolumeError) in try it.mkdir("d/new") }
        try it.refuses(.record, "symlink") { () throws(VolumeError) in try it.link("d/new", "x") }
        try it.refuses(.record, "mknod") { () throws(VolumeError) in
            _ = try volume.mknod(Array("new".utf8), in: node, mode: 0o010600, device: 0, caller: caller)
        }
        try it.refuses(.record, "link") { () throws(VolumeError) in
            _ = try volume.link(it.node("plain/f"), Array("new".utf8), in: node)
        }
        try it.refuses(.record, "rename into it") { () throws(VolumeError) in try it.rename("plain/f", "d/new") }
        try it.refuses(.record, "rename out of it") { () throws(VolumeError) in try it.rename("d/f", "new") }
        try it.refuses(.record, "rename in it") { () throws(VolumeError) in try it.rename("d/f", "d/new") }
        try it.refuses(.record, "exchange") { () throws(VolumeError) in try it.rename("d/f", "plain/f", .exchange) }
        try it.refuses(.record, "unlink") { () throws(VolumeError) in try it.unlink("d/f") }
        try it.refuses(.record, "rmdir in it") { () throws(VolumeError) in try it.rmdir("d/inner") }
        try it.refuses(.record, "its class") { () throws(VolumeError) in try it.setClass("d", "A") }
        try it.refuses(.record, "no class") { () throws(VolumeError) in
            try volume.removeXattr(node, Array("user.protection".utf8))
        }
        try it.refuses(.record, "setxattr") { () throws(VolumeError) in try it.attribute("d", "user.two", "x") }
        try it.refuses(.record, "removexattr") { () throws(VolumeError) in
            try volume.removeXattr(node, Array("user.one".utf8))
        }
        try it.refuses(.record, "rmdir") { () throws(VolumeError) in try it.rmdir("d") }
        try it.refuses(.record, "rename over it") { () throws(VolumeError) in try it.rename("empty", "d") }
        #expect(it.newerNotices == 1)
    }

    /// What is below is read and written, and the directory itself can be moved.
    private func allowsWhatIsKnown(_ it: TestVolume) throws {
        #expect(try it.list("d") == ["f", "inner", "link"])
        #expect(try it.read("d/f") == "content")
        #expect(try it.volume.readlink(it.node("d/link")) == Array("target".utf8))
        #expect(try it.volume.getXattr(it.node("d"), Array("user.one".utf8)) == Array("value".utf8))
        let listed = try it.volume.listXattr(it.node("d"))
        #expect(listed.contains(Array("user.one".utf8)) && listed.contains(Array("user.protection".utf8)))
        try it.volume.withContent(it.node("d/f"), writable: true) { (content) throws(VolumeError) in
            try content.put(Array("CON".utf8), at: 0)
        }
        #expect(try it.read("d/f") == "CONtent")
        try it.setClass("d/f", "A")
        try it.mkdir("d/inner/x")
        try it.rmdir("d/inner/x")
        var change = AttributeChange()
        change.mode = 0o700
        #expect(try it.volume.setAttributes(of: it.node("d"), change).mode == 0o700)
        try it.rename("d", "empty")
        try it.rename("empty", "d")
        #expect(try it.again().read("d/f") == "CONtent")
    }

    @Test(arguments: records) func aNewerRecordGivesItsNames(_ change: Change) throws {
        let it = try scene(change)
        try it.refuses(.record, "its class") { () throws(VolumeError) in _ = try it.getClass("d") }
        try refusesChange(it)
        try allowsWhatIsKnown(it)
    }

    @Test func bitsForReadingShowTheClass() throws {
        for bit in [0x10, 0x20] as [UInt8] {
            let it = try scene(Change(testDescription: "") { $0[5] |= bit })
            #expect(try it.getClass("d") == "completeUnlessOpen")
            try refusesChange(it)
            try allowsWhatIsKnown(it)
        }
    }

    @Test func bitsToKeepAreKept() throws {
        let it = try scene(Change(testDescription: "") { $0[5] |= 0xC0 })
        try it.write("d/new")
        try it.setClass("d", "A")
        try it.write("d/newer")
        #expect(try it.getClass("d/newer") == "complete")
        let target = try it.volume.directory(it.node("d")).readSymlink(BackingName.record)
        #expect(Base64URL.decode(target.span)?[5] == 0xC0)
        #expect(it.newerNotices == 0)
        try it.unlink("d/f")
    }

    @Test func anEmptyNewerDirectoryIsKept() throws {
        let it = try scene(Self.records[0], at: "empty")
        try it.refuses(.record, "rmdir") { () throws(VolumeError) in try it.rmdir("empty") }
        try it.refuses(.record, "rename over it") { () throws(VolumeError) in try it.rename("plain", "empty") }
        try it.rename("empty", "elsewhere")
        #expect(try it.list("").contains("elsewhere"))
    }

    /// Files in directories without a default take the root's class, which is not known.
    @Test func theRootsRecord() throws {
        let it = try scene(Self.records[0], at: "")
        #expect(try it.list("") == ["d", "empty", "plain"])
        #expect(try it.read("d/f") == "content")
        try it.refuses(.record, "create") { () throws(VolumeError) in try it.write("new") }
        try it.refuses(.record, "rmdir") { () throws(VolumeError) in try it.rmdir("empty") }
        try it.refuses(.record, "create without a default") { () throws(VolumeError) in try it.write("plain/new") }
        try it.write("d/new")
        try it.mkdir("plain/inner")
        try it.unlink("plain/f")
        #expect(it.newerNotices == 1)
        var options = VolumeOptions()
        options.isShared = true
        let other = try it.again(options: options)
        try other.refuses(.record, "unlink") { () throws(VolumeError) in try other.rmdir("empty") }
    }

    @Test func aWrongMACIsDamage() throws {
        let it = try scene(Change(testDescription: "") { _ in })
        try it.damageRecord("d", byte: 3)
        let again = try it.again()
        #expect(throws: VolumeError.damaged(.record)) { try again.setClass("d", "A") }
    }

    @Test func linksOfAnotherVersion() throws {
        let it = try TestVolume()
        try it.link("link", "target")
        try it.write("f", "x")
        try it.link("other", "target")
        try it.signLink("link", "a newer target")
        let again = try it.again()
        #expect(try again.volume.attributes(of: again.node("link")).size == 14)
        #expect(try again.list("") == ["f", "link", "other"])
        try again.refuses(.symlink, "readlink") { () throws(VolumeError) in
            _ = try again.volume.readlink(again.node("link"))
        }
        for name in ["f", "other"] {
            try again.refuses(.symlink, "rename over it") { () throws(VolumeError) in try again.rename(name, "link") }
            try again.refuses(.symlink, "rename of it") { () throws(VolumeError) in try again.rename("link", name) }
        }
        #expect(again.newerNotices == 1)
        try again.rename("link", "elsewhere")
        try again.rename("elsewhere", "f", .exchange)
        try again.unlink("f")
    }

    @Test func attributesOfAnotherVersion() throws {
        let it = try TestVolume()
        try it.write("f", "x")
        try it.attribute("f", "user.one", "value")
        try it.attribute("f", "user.two", "value")
        try it.signAttribute("f", "user.one", "newer")
        let again = try it.again()
        let node = try again.node("f")
        let name = Array("user.one".utf8)
        try again.refuses(.attribute, "getxattr") { () throws(VolumeError) in
            _ = try again.volume.getXattr(node, name)
        }
        for mode in [AttributeMode.set, .replace] {
            try again.refuses(.attribute, "setxattr") { () throws(VolumeError) in
                try again.volume.setXattr(node, name, value: [1], mode: mode)
            }
        }
        #expect(throws: VolumeError.store(.EEXIST)) { try again.volume.setXattr(node, name, value: [1], mode: .create) }
        #expect(try again.volume.listXattr(node).contains(name))
        try again.attribute("f", "user.two", "other")
        #expect(try again.volume.getXattr(node, Array("user.two".utf8)) == Array("other".utf8))
        // A copy under a new key has it as it is.
        try again.volume.reencrypt(node, to: .complete)
        let copy = try again.node("f")
        try again.refuses(.attribute, "getxattr") { () throws(VolumeError) in _ = try again.volume.getXattr(copy, name)
        }
        try again.volume.removeXattr(copy, name)
        try again.attribute("f", "user.one", "again")
        #expect(again.newerNotices > 0)
    }

    /// A record that a newer version has set aside may be needed; a directory that holds one stays.
    @Test func aRecordSetAside() throws {
        for isNewer in [true, false] {
            let it = try TestVolume()
            for path in ["d", "e"] { try it.mkdir(path) }
            let directory = try it.volume.directory(it.node("d"))
            let id = try #require(try it.volume.directoryID(it.node("d")))
            let aside = it.volume.names.asideName(
                parent: id, directory: NameCipher.randomID(), name: BackingName.temporary())
            let record = it.volume.names.recordTarget(
                VerifiedRecord(directoryID: NameCipher.randomID(), defaultClass: nil))
            try directory.createSymlink(aside, target: isNewer ? it.signed(record: record) { $0[3] = 9 } : record)
            if isNewer {
                try it.refuses(.record, "rmdir") { () throws(VolumeError) in try it.rmdir("d") }
                try it.refuses(.record, "rename") { () throws(VolumeError) in try it.rename("e", "d") }
            } else {
                try it.rmdir("d")
            }
        }
    }
}
