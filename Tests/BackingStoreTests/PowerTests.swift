// Tests that the store in memory loses power like a disk: it keeps metadata in order and any subset of page writes, and
// never loses synced data.

import BackingStore
@testable import MemoryStore
import HostSystem
import Testing

@Suite struct PowerTests {
    private func page(_ byte: UInt8) -> [UInt8] { [UInt8](repeating: byte, count: 4096) }

    /// The file's pages in every state after power loss; "missing" when its entry did not arrive.
    private func outcomes(_ store: MemoryStore) throws -> Set<String> {
        Set(
            try (0..<store.crashStateCount).map { index in
                let root = store.crash(index: index).root
                guard let file = try? root.openFile(name("f"), .readOnly) else { return "missing" }
                let content = try readAll(file, at: 0, 1 << 16)
                return stride(from: 0, to: content.count, by: 4096).map { "\(content[$0])" }.joined()
            })
    }

    @Test func everySubsetOfPagesAndEveryPrefixOfMetadata() throws {
        let store = MemoryStore()
        let file = try store.root.createFile(name("f"), mode: 0o600)
        try file.truncate(to: 8192)
        try writeAll(file, page(1), at: 0)
        try writeAll(file, page(2), at: 4096)
        #expect(try outcomes(store) == ["missing", "", "00", "10", "02", "12"])
        try file.synchronize(dataOnly: true)
        #expect(try outcomes(store) == ["12"])
        try writeAll(file, page(3), at: 0)
        try writeAll(file, page(4), at: 0)
        #expect(try outcomes(store) == ["12", "32", "42"])
    }

    @Test func writingAfterACutIsOrderedBehindIt() throws {
        let store = MemoryStore()
        let file = try store.root.createFile(name("f"), mode: 0o600)
        try writeAll(file, page(1), at: 0)
        try writeAll(file, page(2), at: 4096)
        try file.synchronize(dataOnly: false)
        try file.truncate(to: 4096)
        try file.truncate(to: 8192)
        try writeAll(file, page(3), at: 4096)
        #expect(try outcomes(store) == ["12", "1", "10", "13"])
    }

    @Test func directoryEntriesNeedTheDirectorysFsync() throws {
        let store = MemoryStore()
        _ = try store.root.createFile(name("f"), mode: 0o600)
        #expect(try outcomes(store) == ["missing", ""])
        try store.root.synchronize()
        #expect(try outcomes(store) == [""])
        try store.root.rename(name("f"), to: store.root, name("g"))
        #expect(try outcomes(store) == ["missing", ""])
        for crashed in store.crashes(atMost: 100) {
            #expect(try crashed.root.entries().count == 1)
        }
    }

    @Test func seedsRepeat() throws {
        let store = MemoryStore()
        let file = try store.root.createFile(name("f"), mode: 0o600)
        for index in 0..<50 { try writeAll(file, page(UInt8(index + 1)), at: UInt64(index % 7) * 4096) }
        #expect(store.crashStateCount == Int.max)
        for seed in 0..<20 as Range<UInt64> {
            let contents = (0..<2).map { _ in
                let root = store.crash(seed: seed).root
                return try? readAll(root.openFile(name("f"), .readOnly), at: 0, 1 << 16)
            }
            #expect(contents[0] == contents[1])
        }
    }

    @Test func powerGoesAfterACount() throws {
        let store = MemoryStore()
        store.cutPower(after: 2)
        let file = try store.root.createFile(name("f"), mode: 0o600)
        try writeAll(file, page(1), at: 0)
        #expect(throws: Errno.EIO) { try writeAll(file, page(2), at: 0) }
        #expect(throws: Errno.EIO) { try file.synchronize(dataOnly: true) }
        #expect(try outcomes(store) == ["missing", "", "0", "1"])
    }

    @Test func faultsStrikeOnceAtTheirCall() throws {
        let store = MemoryStore()
        let file = try store.root.createFile(name("f"), mode: 0o600)
        store.fail(.write, at: 2, with: .ENOSPC)
        try writeAll(file, page(1), at: 0)
        #expect(throws: Errno.ENOSPC) { try writeAll(file, page(2), at: 0) }
        try writeAll(file, page(3), at: 0)
        store.limitSpace(to: 4096)
        try writeAll(file, page(3), at: 4096)
        #expect(throws: Errno.ENOSPC) { try writeAll(file, page(3), at: 8192) }
        #expect(store.records.filter { $0.call == .write }.map(\.offset) == [0, 0, 0, 4096, 8192])
    }

    @Test func storesAfterACrashAreIndependent() throws {
        let store = MemoryStore()
        _ = try store.root.createFile(name("f"), mode: 0o600)
        let copy = store.crash(index: store.crashStateCount - 1)
        try copy.root.unlink(name("f"))
        #expect(try store.root.entries().count == 1)
    }
}
