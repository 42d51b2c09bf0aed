// Tests the limit of a store's descriptors: refusals, errors without leaks, and released descriptors.

import HostSystem
import Testing

@testable import BackingStore

@Suite struct QuotaTests {
    private func withDirectory(_ files: Int, _ all: Int, _ body: (HostDirectory, DescriptorQuota) throws -> Void) throws
    {
        let place = try TemporaryDirectory()
        let quota = DescriptorQuota(files: files, all: all, reserve: 2)
        try body(try place.directory.limited(by: quota), quota)
    }

    @Test func filesAreRefusedBeforeTheyAreMade() throws {
        try withDirectory(3, 5) { directory, quota in
            // The directory itself is the first.
            var files = [try directory.createFile(name("a"), mode: 0o600)]
            #expect(!quota.isShort)
            files.append(try directory.createFile(name("b"), mode: 0o600))
            #expect(quota.isShort)
            #expect(throws: Errno.ENFILE) { _ = try directory.createFile(name("c"), mode: 0o600) }
            #expect(throws: Errno.ENFILE) { _ = try directory.openFile(name("a"), .readOnly) }
            #expect(try directory.entries().map(\.name.description).sorted() == ["a", "b"])
            // Handles and directories have more.
            let node = try directory.node(name("a"))
            #expect(throws: Errno.ENFILE) { _ = try node.openFile(.readOnly) }
            let again = try directory.reopen()
            #expect(throws: Errno.ENFILE) { _ = try directory.entries() }
            _ = (node, again)
            files = []
        }
    }

    @Test func whatIsClosedAndWhatFailsIsGivenBack() throws {
        try withDirectory(2, 3) { directory, quota in
            for turn in 0..<10 {
                _ = try directory.createFile(name("\(turn)"), mode: 0o600)
                #expect(throws: Errno.ENOENT) { _ = try directory.openFile(name("missing"), .readOnly) }
                _ = try directory.node(name("\(turn)"))
                _ = try directory.entries()
            }
            #expect(!quota.isShort)
        }
    }

    @Test func theVolumesOwnFilesHaveAReserve() throws {
        try withDirectory(2, 3) { directory, quota in
            let own = try directory.reserved()
            let again = try directory.reopen()
            #expect(quota.isShort)
            defer { withExtendedLifetime(again) {} }
            let files = [try own.createFile(name("a"), mode: 0o600), try own.createFile(name("b"), mode: 0o600)]
            defer { withExtendedLifetime(files) {} }
            #expect(throws: Errno.ENFILE) { _ = try own.createFile(name("c"), mode: 0o600) }
            #expect(throws: Errno.ENFILE) { _ = try directory.openFile(name("a"), .readOnly) }
        }
    }

    @Test func whatIsKeptForSpeedGoesFirst() throws {
        try withDirectory(3, 3) { directory, _ in
            let kept = Lock<[BackingDirectory]>([try directory.reopen(), try directory.reopen()])
            directory.whenShort { kept.withLock { $0 = [] } }
            let file = try directory.createFile(name("a"), mode: 0o600)
            #expect(kept.withLock { $0.isEmpty })
            _ = file
        }
    }
}
