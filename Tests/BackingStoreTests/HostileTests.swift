// Tests objects that a hostile backing store may plant: symlinks, FIFOs, `..`, names that leave their directory.

import BackingStore
@testable import MemoryStore
import HostSystem
import Testing

@Suite struct HostileTests {
    @Test(arguments: ["", ".", "..", "a/b", "/", "/etc", "a\0b", String(repeating: "x", count: 256)])
    func namesThatLeaveTheirDirectory(text: String) {
        #expect(EntryName(text) == nil)
    }

    @Test(arguments: ["...", "..a", ".a", "ä", String(repeating: "x", count: 255)])
    func namesThatAreFine(text: String) {
        #expect(EntryName(text).map { Array($0.bytes) } == Array(text.utf8))
    }

    @Test func symlinksAreNeverFollowed() throws {
        let (place, outside) = (try TemporaryDirectory(), try TemporaryDirectory())
        _ = try outside.directory.createFile(name("secret"), mode: 0o600)
        let root = place.directory
        let time = TimeChange.set(Timestamp(seconds: 1, nanoseconds: 0))
        let targets = [
            "file": "\(outside.path)/secret", "directory": outside.path, "up": "..", "fd": "/proc/self/fd/0",
        ]
        for (planted, target) in targets {
            try root.createSymlink(name(planted), target: Array(target.utf8))
            #expect(throws: Errno.ELOOP) { try root.openFile(name(planted), .readOnly) }
            #expect(throws: Errno.ELOOP) { try root.openFile(name(planted), .readWrite) }
            #expect(throws: Errno.EEXIST) { try root.createFile(name(planted), mode: 0o600) }
            #expect(throws: Errno.self) { try root.openDirectory(name(planted)) }
            #expect(try root.status(of: name(planted)).kind == .symlink)
            #expect(throws: Errno.ELOOP) { try root.node(name(planted)).openFile(.readOnly) }
            #expect(throws: Errno.EOPNOTSUPP) { try root.node(name(planted)).setMode(0o777) }
            try root.node(name(planted)).setTimes(accessed: .keep, modified: time)
        }
        #expect(try outside.directory.status(of: name("secret")).modified.seconds != 1)
        #expect(try outside.directory.status(of: name("secret")).mode & 0o777 == 0o600)
    }

    @Test func specialFilesDoNotHang() throws {
        let place = try TemporaryDirectory()
        let root = place.directory
        for (planted, kind) in [("fifo", FileKind.fifo), ("socket", .socket)] {
            try root.createSpecial(name(planted), mode: kind.modeBits | 0o600, device: 0)
            #expect(throws: Errno.ENXIO) { try root.openFile(name(planted), .readOnly) }
            #expect(throws: Errno.ENXIO) { try root.openFile(name(planted), .readWrite) }
            #expect(throws: Errno.ENXIO) { try root.node(name(planted)).openFile(.readWrite) }
            #expect(throws: Errno.ENOTDIR) { try root.openDirectory(name(planted)) }
        }
    }

    /// The directory moves out of the volume while a handle on it is open: what is below stays reachable, nothing above.
    @Test func aMovedDirectoryLeadsNowhereElse() throws {
        let (place, outside) = (try TemporaryDirectory(), try TemporaryDirectory())
        try place.directory.createDirectory(name("inner"), mode: 0o700)
        let inner = try place.directory.openDirectory(name("inner"))
        try place.directory.rename(name("inner"), to: outside.directory, name("moved"))
        _ = try inner.createFile(name("here"), mode: 0o600)
        #expect(try outside.directory.openDirectory(name("moved")).entries().count == 1)
    }

    @Test func attributesAtTheirLimits() throws {
        let place = try TemporaryDirectory()
        let file = try place.directory.createFile(name("file"), mode: 0o600)
        #expect(throws: Errno.EINVAL) { try file.setAttribute([], [1]) }
        #expect(throws: Errno.EINVAL) { try file.setAttribute(Array("user.a\0b".utf8), [1]) }
        let empty = Array("user.empty".utf8)
        try file.setAttribute(empty, [])
        #expect(try file.attribute(empty) == [])
        #expect(throws: Errno.ERANGE) {
            try file.setAttribute(Array("user.".utf8) + [UInt8](repeating: 97, count: 300), [1])
        }
    }

    /// Offsets that leave the kernel's type are errors, not traps.
    @Test func offsetsOutOfRange() throws {
        let place = try TemporaryDirectory()
        for root in [place.directory, MemoryStore().root] {
            let file = try root.createFile(name("file"), mode: 0o600)
            #expect(throws: Errno.EFBIG) { try file.truncate(to: .max) }
            #expect(throws: Errno.EFBIG) { try writeAll(file, [1], at: UInt64(Int64.max)) }
            #expect(throws: Errno.EFBIG) { try file.punchHole(at: .max, length: 2) }
            #expect(throws: Errno.EFBIG) { try file.allocate(at: 1, length: .max) }
            #expect(throws: Errno.EFBIG) { _ = try readAll(file, at: .max, 1) }
        }
    }
}
