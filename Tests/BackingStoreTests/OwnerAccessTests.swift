// A daemon without privileges serves its user's own files whatever their mode says.

import BackingStore
import Glibc
import Testing

@Suite struct OwnerAccessTests {
    @Test(.enabled(if: geteuid() != 0, "root needs no permission"))
    func filesAndDirectoriesWithoutPermission() throws {
        let place = try TemporaryDirectory()
        let root = place.directory
        let key = Array("user.test".utf8)
        try writeAll(root.createFile(name("file"), mode: 0o600), [1, 2, 3], at: 0)
        for mode in [0, 0o200, 0o400] as [UInt32] {
            try root.node(name("file")).setMode(mode)
            let file = try root.openFile(name("file"), .readWrite)
            #expect(try readAll(file, at: 0, 10) == [1, 2, 3])
            try root.node(name("file")).setAttribute(key, [UInt8(mode & 255)])
            #expect(try root.node(name("file")).attribute(key) == [UInt8(mode & 255)])
            #expect(try root.status(of: name("file")).mode & 0o7777 == mode)
        }
        try root.createDirectory(name("directory"), mode: 0o700)
        let before = try root.openDirectory(name("directory"))
        for mode in [0, 0o200, 0o500] as [UInt32] {
            try root.node(name("directory")).setMode(mode)
            let directory = try root.openDirectory(name("directory"))
            _ = try directory.createFile(name("new"), mode: 0o600)
            try directory.rename(name("new"), to: root, name("out"))
            try root.rename(name("out"), to: before, name("in"))
            #expect(try directory.entries().map(\.name) == [name("in")])
            // The file may be open, so a link to it needs no permission of its directory.
            try directory.link(name("in"), to: root, name("link"))
            try root.unlink(name("link"))
            try before.unlink(name("in"))
            #expect(try root.status(of: name("directory")).mode & 0o7777 == mode)
        }
        try root.node(name("directory")).setMode(0o700)
    }
}
