// IDs are compared beyond what fits into memory, and names are read in parts.

import BackingStore
import HostSystem
import MemoryStore
import Testing
import VolumeFormat

@testable import VolumeCheck

@Suite struct SeenIDsTests {
    private func id(_ number: UInt64) -> ObjectID {
        var bytes = [UInt8](repeating: 0, count: 16)
        var raw = bytes.mutableSpan
        raw.storeLittleEndian(number &* 0x9E37_79B9_7F4A_7C15, at: 0)
        raw.storeLittleEndian(number, at: 8)
        return ObjectID(bytes.span)
    }

    @Test(arguments: [64, 1000, 100_000]) func equalIDs(room: Int) throws {
        let store = MemoryStore()
        let seen = SeenIDs(room: room, scratch: store.root)
        for number in UInt64(0)..<20_000 { seen.note(id(number), inode: number) }
        // A hard link, seen twice, is no duplicate. Three copies of one file are.
        seen.note(id(7), inode: 7)
        for copy in UInt64(0)..<3 { seen.note(id(11), inode: 30_000 + copy) }
        seen.note(id(19_999), inode: 40_000)
        let groups = try seen.duplicates()
        #expect(Set(groups.keys) == [11, 30_000, 30_001, 30_002, 19_999, 40_000])
        #expect(Set([11, 30_000, 30_001, 30_002].map { groups[$0] }).count == 1)
        #expect(groups[11] != groups[40_000] && groups[19_999] == groups[40_000])
        #expect(try store.root.entries().isEmpty)
    }

    @Test func noRoomForIDs() {
        let seen = SeenIDs(room: 10, scratch: nil)
        for number in UInt64(0)..<100 { seen.note(id(number % 5), inode: number) }
        #expect(throws: Errno.ENOSYS) { try seen.duplicates() }
    }

    @Test func namesInParts() throws {
        let store = MemoryStore()
        var all: [EntryName] = []
        for number in 0..<1000 { all.append(try #require(EntryName("\(number * 7919 % 1000)"))) }
        for name in all { _ = try store.root.createFile(name, mode: 0o600) }
        var found: [EntryName] = []
        while true {
            let part = try Check.names(of: store.root, after: found.last, limit: 64)
            if part.isEmpty { break }
            found += part
        }
        #expect(found == all.sorted { $0.description < $1.description })
    }
}
