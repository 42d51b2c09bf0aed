// Every operation of the facade, in memory and on a real file system.

import BackingStore
@testable import MemoryStore
import Glibc
import HostSystem
import KeyFiles
import TestSupport
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume

@Suite struct VolumeTests {
    enum Store: CaseIterable { case memory, host }

    /// The holder keeps a directory of the host for as long as the test runs.
    func make(_ store: Store) throws -> (TestVolume, TemporaryDirectory?) {
        if store == .memory { return (try TestVolume(), nil) }
        let holder = try TemporaryDirectory()
        return (try TestVolume(holder.directory), holder)
    }

    @Test func aHeaderThatFindsNoSpaceLeavesAnEmptyFile() throws {
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        let made = try it.volume.create(Array("f".utf8), in: it.volume.root, mode: 0o644, caller: TestVolume.caller)
        store.fail(.write, with: .ENOSPC)
        it.volume.release(made.entry.node, writable: true)
        #expect(try it.read("f") == "")
        let text = Array("later".utf8)
        // As the kernel does: a name that is stale is looked up again.
        let content =
            try (try? it.volume.open(it.node("f"), writable: true)) ?? it.volume.open(it.node("f"), writable: true)
        try content.write(text.span, at: 0)
        it.volume.release(try it.node("f"), writable: true)
        #expect(try it.read("f") == "later")
        try it.volume.close()
        #expect(try it.mountAgain(it.directory).read("f") == "later")
    }

    @Test func aNodeShownWithAWrongSizeIsLeftOnlyWhenClosed() throws {
        let it = try TestVolume()
        try it.write("f", "content")
        let node = try it.node("f")
        it.volume.trueSizes.remember(7, of: node.key, backingLength: 0, before: node.serial + 1)
        try it.volume.withContent(node, writable: true) { (_) throws(VolumeError) in
            #expect(throws: VolumeError.stale) { try it.volume.open(node, writable: true) }
            #expect(it.volume.nodes.known(node.key) === node)
        }
        #expect(throws: VolumeError.stale) { try it.volume.open(node, writable: true) }
        #expect(try it.node("f") !== node)
        #expect(try it.read("f") == "content")
    }

    /// A file that a crash had cut grows again to the length that it then had in the store.
    @Test func theSizeAfterACrashIsNotThatOfALaterContent() throws {
        let it = try TestVolume()
        try it.write("f", String(repeating: "1", count: 100))
        try it.volume.close()
        let length = try #require(it.volume.content.geometry.backingLength(size: 200))
        let (directory, entry) = try it.backing("f")
        try directory.openFile(entry, .readWrite).truncate(to: length)
        let again = try it.mountAgain(it.directory)
        #expect(try again.read("f").count == 100)
        let node = try again.node("f")
        #expect(try again.volume.attributes(of: node).size == 100)
        let content = try again.volume.open(node, writable: true)
        try content.write([UInt8](repeating: 0x32, count: 100).span, at: 100)
        again.volume.release(node, writable: true)
        #expect(try directory.status(of: entry).size == length)
        #expect(try again.volume.attributes(of: node).size == 200)
        #expect(try again.read("f").hasSuffix("12" + String(repeating: "2", count: 99)))
    }

    /// What was remembered of an inode's former content, and was told of another one, is not told after an open.
    @Test func aSizeThatWasWrongIsFoundWhenTheFileIsOpened() throws {
        let it = try TestVolume()
        try it.write("f", "content")
        let node = try it.node("f")
        let length = try #require(it.volume.content.geometry.backingLength(size: 7))
        it.volume.trueSizes.remember(3, of: node.key, backingLength: length, before: 0)
        #expect(try it.volume.attributes(of: node).size == 3)
        #expect(throws: VolumeError.stale) { try it.volume.open(node, writable: false) }
        #expect(try it.volume.attributes(of: it.node("f")).size == 7)
        #expect(try it.read("f") == "content")
    }

    @Test func aNewFileOnASharedMountHasItsHeader() throws {
        let it = try TestVolume()
        var options = VolumeOptions()
        options.isShared = true
        let one = try it.mountAgain(it.directory, options: options)
        let other = try it.mountAgain(it.directory, options: options)
        let made = try one.volume.create(
            Array("f".utf8), in: one.volume.root, mode: 0o644, caller: TestVolume.caller)
        let node = try other.node("f")
        let content = try other.volume.open(node, writable: true)
        #expect(content.fileID == made.content.fileID)
        let text = Array("theirs".utf8)
        try content.write(text.span, at: 0)
        other.volume.release(node, writable: true)
        try made.content.write(Array("O".utf8).span, at: 0)
        one.volume.release(made.entry.node, writable: true)
        #expect(try other.read("f") == "Oheirs")
    }

    @Test(arguments: Store.allCases) func filesAndDirectories(_ store: Store) throws {
        let (it, holder) = try make(store)
        defer { withExtendedLifetime(holder) {} }
        try it.mkdir("a")
        try it.mkdir("a/b")
        try it.write("a/b/file", "hello")
        #expect(try it.read("a/b/file") == "hello")
        #expect(try it.list("a/b") == ["file"])
        #expect(try it.list("") == ["a"])
        #expect(try it.volume.attributes(of: it.node("a/b/file")).size == 5)
        #expect(throws: VolumeError.exists) { try it.mkdir("a") }
        #expect(throws: VolumeError.self) { try it.write("a/b/file") }
        #expect(throws: VolumeError.noEntry) { try it.node("a/c") }
        #expect(throws: VolumeError.notEmpty) { try it.rmdir("a") }
        #expect(throws: VolumeError.refused(.EISDIR)) { try it.unlink("a") }
        #expect(throws: VolumeError.refused(.ENOTDIR)) { try it.rmdir("a/b/file") }
        try it.unlink("a/b/file")
        try it.rmdir("a/b")
        #expect(try it.list("a") == [])
        try it.rmdir("a")
        #expect(try it.directory.entries().map(\.name.description) == [".protectfs.dir"])
        try it.volume.close()
    }

    @Test(arguments: Store.allCases) func everythingIsThereAfterMountingAgain(_ store: Store) throws {
        let (it, holder) = try make(store)
        defer { withExtendedLifetime(holder) {} }
        let long = String(repeating: "long name ", count: 25)
        try it.mkdir("d")
        try it.mkdir("d/\(long)")
        try it.write("d/\(long)/\(long)1", "one")
        let root = it.volume.root
        let link = try it.volume.symlink(
            Array("link".utf8), in: root, target: Array("d/target".utf8), caller: TestVolume.caller)
        #expect(link.attributes.size == 8)
        try it.volume.close()
        let again = try it.mountAgain(it.directory.reopen())
        #expect(try again.list("d") == [long])
        #expect(try again.read("d/\(long)/\(long)1") == "one")
        #expect(try again.volume.readlink(again.node("link")) == Array("d/target".utf8))
        #expect(again.notices.withLock { $0 } == [])
        try again.unlink("d/\(long)/\(long)1")
        try again.rmdir("d/\(long)")
        #expect(try again.volume.directory(again.node("d")).entries().count == 1)
    }

    @Test(arguments: Store.allCases) func renames(_ store: Store) throws {
        let (it, holder) = try make(store)
        defer { withExtendedLifetime(holder) {} }
        let long = String(repeating: "n", count: 255)
        try it.mkdir("a")
        try it.mkdir("b")
        try it.write("a/one", "1")
        try it.write("a/two", "2")
        #expect(throws: VolumeError.exists) { try it.rename("a/one", "a/two", .noReplace) }
        try it.rename("a/one", "b/\(long)", .noReplace)
        #expect(try it.read("b/\(long)") == "1")
        try it.rename("b/\(long)", "a/two", .exchange)
        #expect(try it.read("b/\(long)") == "2")
        #expect(try it.read("a/two") == "1")
        try it.rename("b/\(long)", "a/two")
        #expect(try it.read("a/two") == "2")
        #expect(try it.list("b") == [])
        #expect(try it.volume.directory(it.node("b")).entries().count == 1)
        #expect(throws: VolumeError.refused(.EISDIR)) { try it.rename("a/two", "b") }
        #expect(throws: VolumeError.refused(.ENOTDIR)) { try it.rename("b", "a/two") }
        #expect(throws: VolumeError.notEmpty) { try it.rename("b", "a") }
        let open = try it.node("a/two")
        try it.rename("a", "b")
        #expect(try it.list("") == ["b"])
        #expect(try it.read("b/two") == "2")
        #expect(try it.read(open) == "2")
        #expect(throws: VolumeError.noEntry) { try it.rename("x", "y", .exchange) }
        #expect(throws: VolumeError.noEntry) { try it.rename("b", "y", .exchange) }
    }

    @Test func renameIntoItselfIsRefused() throws {
        let holder = try TemporaryDirectory()
        let it = try TestVolume(holder.directory)
        try it.mkdir("a")
        try it.mkdir("a/b")
        #expect(throws: VolumeError.store(.EINVAL)) { try it.rename("a", "a/b/c") }
        // Over an ancestor that is not empty.
        #expect(throws: VolumeError.notEmpty) { try it.rename("a/b", "a") }
        #expect(try it.list("a") == ["b"])
    }

    @Test(arguments: Store.allCases) func hardLinksAreOneNode(_ store: Store) throws {
        let (it, holder) = try make(store)
        defer { withExtendedLifetime(holder) {} }
        try it.write("one", "same")
        try it.mkdir("d")
        let node = try it.node("one")
        let second = try it.volume.link(node, Array("two".utf8), in: it.node("d"))
        #expect(second.node === node)
        #expect(second.attributes.links == 2)
        try it.unlink("one")
        // The kernel still has the dentry of the second name and asks by number.
        #expect(try it.read(node) == "same")
        let third = try it.volume.link(node, Array("three".utf8), in: it.volume.root)
        #expect(third.node === node)
        try it.unlink("d/two")
        #expect(try it.read("three") == "same")
        try it.rename("three", "four")
        #expect(try it.read(node) == "same")
    }

    @Test(arguments: Store.allCases) func unlinkedFilesStayReachable(_ store: Store) throws {
        let (it, holder) = try make(store)
        defer { withExtendedLifetime(holder) {} }
        try it.write("gone", "still here")
        let node = try it.node("gone")
        let open = try it.volume.open(node, writable: true)
        try it.unlink("gone")
        #expect(try TestVolume.bytes(of: open) == "still here")
        #expect(try it.volume.attributes(of: node).links == 0)
        it.volume.release(node, writable: true)
        #expect(try it.volume.attributes(of: node).links == 0)
        try it.write("gone", "another")
        #expect(try it.node("gone") !== node)
        let directory = try it.mkdir("d")
        try it.rmdir("d")
        #expect(try it.volume.attributes(of: directory).kind == .directory)
        it.volume.forget(node, count: 3)
        #expect(it.volume.node(node.number) == nil)
    }

    @Test(arguments: Store.allCases) func attributesAreEncrypted(_ store: Store) throws {
        let (it, holder) = try make(store)
        defer { withExtendedLifetime(holder) {} }
        try it.write("f")
        try it.mkdir("d")
        let name = Array("user.comment".utf8)
        for path in ["f", "d"] {
            let node = try it.node(path)
            #expect(throws: VolumeError.noAttribute) { try it.volume.getXattr(node, name) }
            #expect(throws: VolumeError.store(.ENODATA)) {
                try it.volume.setXattr(node, name, value: [1], mode: .replace)
            }
            try it.volume.setXattr(node, name, value: Array("secret words".utf8), mode: .create)
            #expect(throws: VolumeError.store(.EEXIST)) {
                try it.volume.setXattr(node, name, value: [1], mode: .create)
            }
            #expect(try it.volume.getXattr(node, name) == Array("secret words".utf8))
            try it.volume.setXattr(node, Array("user.empty".utf8), value: [], mode: .set)
            #expect(try it.volume.getXattr(node, Array("user.empty".utf8)) == [])
            let names = try it.volume.listXattr(node).map { String(decoding: $0, as: UTF8.self) }.sorted()
            #expect(names == ["user.comment", "user.empty"])
            let (directory, entry) = try it.backing(path)
            for stored in try directory.node(entry).attributeNames() {
                #expect(String(decoding: stored, as: UTF8.self).hasPrefix("user.pfs."))
            }
            try it.volume.removeXattr(node, name)
            #expect(throws: VolumeError.self) { try it.volume.removeXattr(node, name) }
        }
        let node = try it.node("f")
        #expect(throws: VolumeError.notSupported) { try it.volume.getXattr(node, Array("system.other".utf8)) }
        #expect(throws: VolumeError.refused(.ERANGE)) {
            try it.volume.setXattr(
                node, Array("user.".utf8) + [UInt8](repeating: 65, count: 251), value: [], mode: .set)
        }
        #expect(throws: VolumeError.noAttribute) {
            try it.volume.getXattr(node, Array("user.protectfs.state".utf8))
        }
        #expect(try it.volume.getXattr(it.volume.root, Array("user.protectfs.state".utf8)) == Array("unlocked".utf8))
    }

    @Test func namesOfEveryLength() throws {
        let holder = try TemporaryDirectory()
        let it = try TestVolume(holder.directory)
        var all: [[UInt8]] = []
        for length in [1, 2, 3, 100, 174, 175, 176, 177, 254, 255] {
            let name = [UInt8](repeating: UInt8(length % 90 + 130), count: length)
            _ = try it.volume.mkdir(name, in: it.volume.root, mode: 0o700, caller: TestVolume.caller)
            all.append(name)
        }
        #expect(try it.list(it.volume.root, attributes: .all) == all.sorted { $0.lexicographicallyPrecedes($1) })
        #expect(throws: VolumeError.nameTooLong) {
            try it.volume.lookup([UInt8](repeating: 65, count: 256), in: it.volume.root)
        }
        for name in all { try it.volume.rmdir(name, in: it.volume.root) }
        #expect(try it.directory.entries().count == 1)
    }

    @Test func specialFiles() throws {
        let it = try TestVolume()
        let root = it.volume.root
        let fifo = try it.volume.mknod(
            Array("fifo".utf8), in: root, mode: 0o010644, device: 0, caller: TestVolume.caller)
        #expect(fifo.node.kind == .fifo)
        #expect(throws: VolumeError.notSupported) {
            try it.volume.setXattr(fifo.node, Array("other.x".utf8), value: [], mode: .set)
        }
        #expect(try it.volume.listXattr(fifo.node) == [])
        let security = Array("security.x".utf8)
        try it.volume.setXattr(fifo.node, security, value: [1, 2], mode: .set)
        #expect(try it.volume.listXattr(fifo.node) == [security])
        #expect(try it.volume.getXattr(fifo.node, security) == [1, 2])
        let file = try it.volume.mknod(
            Array("plain".utf8), in: root, mode: 0o100600, device: 0, caller: TestVolume.caller)
        #expect(file.attributes.size == 0)
        #expect(try it.read("plain") == "")
    }
}
