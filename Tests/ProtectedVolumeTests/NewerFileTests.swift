// Files that a newer version has made: their headers and blocks are not damaged, not used, and never lost.

import BackingStore
import HostSystem
@testable import MemoryStore
import KeyFiles
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume
@testable import VolumeCheck

@Suite struct NewerFileTests {
    struct Change: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let offset: Int
        let value: UInt8
    }

    /// Fields of a header that this version does not know.
    static let headers: [Change] = [
        Change(testDescription: "version 3", offset: 3, value: 3),
        Change(testDescription: "class 6", offset: 4, value: 6),
        Change(testDescription: "class 9", offset: 4, value: 9), Change(testDescription: "suite", offset: 5, value: 3),
        Change(testDescription: "the other suite", offset: 5, value: 2),
        Change(testDescription: "block_log2", offset: 6, value: 13),
        Change(testDescription: "compression", offset: 7, value: 1),
        Change(testDescription: "flag bit 3", offset: 8, value: 8),
        Change(testDescription: "flag bit 7", offset: 8, value: 0x80),
        Change(testDescription: "freshness", offset: 12, value: 1),
        Change(testDescription: "wrap", offset: 111, value: 1),
    ]

    private func scene(_ change: Change) throws -> TestVolume {
        let it = try TestVolume()
        try it.write("f", "content")
        try it.attribute("f", "user.one", "value")
        try it.write("other", "other")
        try it.signHeader("f") { $0[change.offset] = change.value }
        return try it.again()
    }

    /// Everything that a program could do with the content or the class of a file.
    private func refusesUse(_ it: TestVolume, _ path: String = "f") throws {
        let volume = it.volume
        let node = try it.node(path)
        try it.refuses(.header, "read") { () throws(VolumeError) in _ = try it.read(node) }
        try it.refuses(.header, "class") { () throws(VolumeError) in _ = try it.getClass(path) }
        try it.refuses(.header, "attribute") { () throws(VolumeError) in
            _ = try volume.getXattr(node, Array("user.one".utf8))
        }
        try refusesChange(it, path)
    }

    private func refusesChange(_ it: TestVolume, _ path: String = "f") throws {
        let volume = it.volume
        let node = try it.node(path)
        try it.refuses(.header, "open for writing") { () throws(VolumeError) in
            _ = try volume.open(node, writable: true)
        }
        try it.refuses(.header, "O_TRUNC") { () throws(VolumeError) in
            _ = try volume.open(node, writable: false, truncate: true)
        }
        try it.refuses(.header, "truncate") { () throws(VolumeError) in
            var change = AttributeChange()
            change.size = 3
            _ = try volume.setAttributes(of: node, change)
        }
        try it.refuses(.header, "setxattr of the class") { () throws(VolumeError) in try it.setClass(path, "A") }
        try it.refuses(.header, "removexattr of the class") { () throws(VolumeError) in
            try volume.removeXattr(node, Array("user.protection".utf8))
        }
        try it.refuses(.header, "setxattr") { () throws(VolumeError) in try it.attribute(path, "user.two", "x") }
        try it.refuses(.header, "removexattr") { () throws(VolumeError) in
            try volume.removeXattr(node, Array("user.one".utf8))
        }
        try it.refuses(.header, "a new key") { () throws(VolumeError) in try volume.reencrypt(node, to: .complete) }
        try it.refuses(.header, "rename over it") { () throws(VolumeError) in try it.rename("other", path) }
        try it.refuses(.header, "rename of it over another") { () throws(VolumeError) in try it.rename(path, "other") }
        #expect(it.newerNotices == 1)
    }

    /// What needs nothing of the header works.
    private func allowsWhatIsTheStores(_ it: TestVolume, _ path: String = "f", size: UInt64 = 7) throws {
        let volume = it.volume
        let node = try it.node(path)
        #expect(try volume.attributes(of: node).size == size)
        #expect(try it.list("") == ["f", "other"])
        _ = try volume.listXattr(node)
        var change = AttributeChange()
        change.mode = 0o600
        change.modified = .set(Timestamp(seconds: 5, nanoseconds: 6))
        let changed = try volume.setAttributes(of: node, change)
        #expect(changed.mode == 0o600 && changed.modified.seconds == 5)
        _ = try volume.link(node, Array("second".utf8), in: volume.root)
        try it.rename("second", "third")
        try it.mkdir("d")
        try it.rename("third", "d/third")
        try it.rename(path, "other", .exchange)
        #expect(try it.read(path) == "other")
        try it.unlink("d/third")
        try it.unlink("other")
        #expect(try it.list("d").isEmpty)
    }

    @Test(arguments: headers) func aNewerHeaderIsNotUsed(_ change: Change) throws {
        let it = try scene(change)
        try refusesUse(it)
        try allowsWhatIsTheStores(it)
    }

    @Test func aWrongMACIsDamage() throws {
        let it = try TestVolume()
        try it.write("f", "content")
        try it.damage("f", at: 3, [3])
        #expect(throws: VolumeError.damaged(.header)) { try it.again().read("f") }
    }

    /// No mode of a mount changes what newer means.
    @Test func everyKindOfMountRefuses() throws {
        for mode in 0..<4 {
            let it = try scene(Self.headers[0])
            var options = VolumeOptions()
            if mode == 0 { options.isReadOnly = true }
            if mode == 1 { options.isShared = true }
            if mode == 2 { options.isStrict = true }
            if mode == 3 { options.recovers = true }
            let again = try it.again(options: options)
            try again.refuses(.header, "read") { () throws(VolumeError) in _ = try again.read("f") }
            try again.refuses(.header, "class") { () throws(VolumeError) in _ = try again.getClass("f") }
            guard mode > 0 else { continue }
            try refusesChange(again)
        }
    }

    @Test func anUnknownGenerationOfAKeyIsNewer() throws {
        let it = try TestVolume()
        try it.write("f", "content")
        try it.write("other", "other")
        try it.signHeader("f") { $0[10] = 9 }
        let again = try it.again()
        try again.refuses(.header, "read") { () throws(VolumeError) in _ = try again.read("f") }
        try again.refuses(.header, "class") { () throws(VolumeError) in try again.setClass("f", "A") }
        try again.refuses(.header, "rename over it") { () throws(VolumeError) in try again.rename("other", "f") }
        try again.unlink("f")
    }

    @Test(arguments: [0x0100, 0x0800] as [UInt16]) func readableOnly(_ bits: UInt16) throws {
        let it = try TestVolume()
        try it.write("f", "content")
        try it.attribute("f", "user.one", "value")
        try it.write("other", "other")
        try it.setFlags("f", bits)
        let again = try it.again()
        #expect(try again.read("f") == "content")
        #expect(try again.getClass("f") == "completeUntilFirstUserAuthentication")
        #expect(try again.volume.getXattr(again.node("f"), Array("user.one".utf8)) == Array("value".utf8))
        try refusesChange(again)
        // A handle for reading that is open changes nothing of this.
        let node = try again.node("f")
        let content = try again.volume.open(node, writable: false)
        try again.refuses(.header, "write") { () throws(VolumeError) in try content.put([1], at: 0) }
        try again.refuses(.header, "allocate") { () throws(VolumeError) in
            try content.allocate(.reserve, at: 0, length: 9000)
        }
        try again.refuses(.header, "punch") { () throws(VolumeError) in try content.allocate(.punch, at: 0, length: 2) }
        try again.refuses(.header, "ftruncate") { () throws(VolumeError) in try content.truncate(to: 0) }
        try again.refuses(.header, "repair") { () throws(VolumeError) in try content.repair() }
        let source = try again.volume.open(again.node("other"), writable: false)
        try again.refuses(.header, "copy into it") { () throws(VolumeError) in
            _ = try FileContent.copy(from: source, at: 0, to: content, at: 0, count: 3)
        }
        again.volume.release(try again.node("other"), writable: false)
        again.volume.release(node, writable: false)
        try allowsWhatIsTheStores(again)
    }

    /// A reader keeps what rule R5 would mend in memory; it is never mended.
    @Test func readableOnlyIsNeverMended() throws {
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        try it.fill("f", [UInt8](repeating: 7, count: 20_000))
        try it.setFlags("f", 0x0100)
        let again = try it.mountAgain(it.directory)
        let node = try again.node("f")
        let content = try again.volume.open(node, writable: false)
        #expect(try content.getAll().count == 20_000)
        try again.refuses(.header, "repair") { () throws(VolumeError) in try content.repair() }
        again.volume.release(node, writable: false)
    }

    @Test func keptFlagsAreKept() throws {
        let it = try TestVolume()
        try it.fill("f", [UInt8](repeating: 7, count: 20_000))
        try it.setFlags("f", 0xF000)
        let again = try it.again()
        func flags() throws -> UInt16 {
            try #require(try again.volume.header(of: again.node("f"))).flags.rawValue & 0xF000
        }
        try again.setClass("f", "A")
        #expect(try flags() == 0xF000)
        try again.volume.withContent(again.node("f"), writable: true) { (content) throws(VolumeError) in
            try content.put([1, 2, 3], at: 5)
            try content.allocate(.punch, at: 4096, length: 12_000)
        }
        #expect(try flags() == 0xF000)
        try again.volume.removeXattr(again.node("f"), Array("user.protection".utf8))
        try again.volume.reencrypt(again.node("f"), to: .none)
        #expect(try flags() == 0xF000)
        try again.volume.withContent(again.node("f"), writable: true) { (content) throws(VolumeError) in
            try content.truncate(to: 0)
        }
        try again.setClass("f", "B")
        let last = try again.again()
        let stored = try #require(try last.volume.header(of: last.node("f"))).flags.rawValue
        #expect(stored & 0xF000 == 0xF000)
    }

    @Test func aNewerFileCountsAsTheStrongestClass() throws {
        let it = try scene(Self.headers[1])
        try it.write("f.tmp", "derived")
        #expect(try it.getClass("f.tmp") == "complete")
        try it.unlink("f")
        try it.write("f", "again")
        #expect(try it.getClass("f") == "complete")
    }
}
