// Walks of trees that are deeper than a process has descriptors.

import HostSystem
@testable import MemoryStore
import Testing

@testable import BackingStore

@Suite struct DescentTests {
    private static let name = EntryName("d")

    /// Makes directories one in another, and gives their entries.
    private func nest(_ depth: Int, in top: BackingDirectory) throws -> [DirectoryEntry] {
        var directory = top
        return try (0..<depth).map { _ in
            let name = try #require(Self.name)
            try directory.createDirectory(name, mode: 0o700)
            directory = try directory.openDirectory(name)
            return DirectoryEntry(name: name, inode: try directory.status().inode, kind: .directory)
        }
    }

    /// Down to the deepest one, and up with a look at each.
    private func walk(_ entries: [DirectoryEntry], from top: BackingDirectory) throws {
        var way = Descent(from: top)
        for (number, entry) in entries.enumerated() {
            if number % 2 == 0 {
                try way.enter(entry)
            } else {
                try way.enter(entry.name, way.directory().openDirectory(entry.name))
            }
        }
        for entry in entries.reversed() {
            #expect(try way.directory().status().inode == entry.inode)
            way.leave()
        }
        #expect(try way.directory().status().inode == top.status().inode)
    }

    @Test func comingBackTakesFewCalls() throws {
        let store = MemoryStore()
        let entries = try nest(2000, in: store.root)
        store.clearRecords()
        try walk(entries, from: store.root)
        #expect(store.records.count < 10 * entries.count, "\(store.records.count) calls")
    }

    @Test func fewAreOpen() throws {
        let place = try TemporaryDirectory()
        let entries = try nest(300, in: place.directory)
        let limited = try HostDirectory.open(path: place.path).limited(by: DescriptorQuota(files: 70, all: 70))
        try walk(entries, from: limited)
        try walk(entries, from: limited)
    }

    /// What was replaced while it was closed is not taken for what was there.
    @Test func replacedMeanwhile() throws {
        let store = MemoryStore()
        let entries = try nest(200, in: store.root)
        var way = Descent(from: store.root)
        for entry in entries { try way.enter(entry) }
        let above = try store.root.openDirectory(entries[0].name)
        try above.rename(entries[1].name, to: above, try #require(EntryName("moved")), mode: .noReplace)
        _ = try nest(200, in: above)
        for _ in entries.dropFirst(2) { way.leave() }
        #expect(throws: Errno.ENOENT) { try way.directory() }
        way.leave()
        #expect(try way.directory().status().inode == entries[0].inode)
    }
}
