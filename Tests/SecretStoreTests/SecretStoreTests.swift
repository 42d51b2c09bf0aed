// Tests the store on a plain directory that passes for a mount: what happens if an item changes between two calls.

import CLibrary
import SodiumKit
import Testing
import VolumeFormat

@testable import HostSystem
@testable import SecretStore

@Suite struct SecretStoreTests {
    private func withStore(_ body: (SecretStore) throws -> Void) throws {
        let base = SystemPaths.environment("TMPDIR") ?? HostPath("/tmp")
        var name = base.appending("secrets-XXXXXX").bytes.map { CChar(bitPattern: $0) } + [0]
        guard unsafe mkdtemp(&name) != nil else { throw SystemError.last("mkdtemp") }
        let path = String(decoding: name.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        defer { remove(HostPath(path)) }
        let device = UInt64(try FileStatus.read(HostPath(path)).st_dev)
        let entry = MountEntry(
            major: UInt32(device >> 8 & 0xFFF), minor: UInt32(device & 0xFF | device >> 12 & 0xFFFF_FF00),
            root: HostPath("/"), mountPoint: HostPath(path), options: "", type: "fuse.protectfs", source: HostPath("/"),
            superOptions: "")
        try body(SecretStore(entry))
    }

    private func remove(_ path: HostPath) {
        for name in (try? FileStatus.names(in: path)) ?? [] { remove(path.appending(bytes: name.bytes)) }
        try? FileChange.removeFile(path)
        try? FileChange.removeDirectory(path)
    }

    private func secret(_ text: String) throws -> SecretBytes {
        try SecretBytes(copying: Array(text.utf8).span)
    }

    private func item(_ account: String) -> SecretItem {
        SecretItem(.generic, ["account": .text(account), "service": .text("test")], class: .none)
    }

    /// The name of an error, because the errors cannot be compared.
    private func failure(_ body: () throws(SecretError) -> Void) -> String {
        do throws(SecretError) {
            try body()
            return "none"
        } catch {
            return String(describing: error)
        }
    }

    @Test func anItemThatHasChangedIsNotDeleted() throws {
        try withStore { store in
            let found = try store.add(item("a"), secret: try secret("old"))
            var changed = found
            changed.attributes["comment"] = .text("kept")
            try store.update(found, to: changed, secret: try secret("new"))
            #expect(failure { () throws(SecretError) in try store.delete(found) } == "changed")
            let now = try #require(try store.item(named: found.file))
            #expect(now.attributes["comment"] == .text("kept"))
            try store.delete(now)
            #expect(failure { () throws(SecretError) in try store.delete(now) } == "notFound")
        }
    }

    @Test func aSecretIsGivenWithItsAttributesOnly() throws {
        try withStore { store in
            var found = try store.add(item("a"), secret: try secret("old"))
            var changed = found
            changed.attributes["comment"] = .text("other")
            try store.update(found, to: changed, secret: try secret("new"))
            #expect(failure { () throws(SecretError) in _ = try store.secret(of: found) } == "changed")
            let latest = try store.latestSecret(of: &found)
            #expect(latest.withBytes { bytes in bytes.count } == 3)
            #expect(found.attributes["comment"] == .text("other"))
        }
    }

    @Test func anItemWithoutItsNameIsRepairedByTheNextWriter() throws {
        try withStore { store in
            let old = try store.add(item("a"), secret: try secret("old"))
            let new = item("b")
            let failed = failure { () throws(SecretError) in
                try store.stage(new, try SecretStoreTests.bytes()) { staged throws(SystemError) in
                    try FileChange.rename(staged, to: store.items.appending(old.file), replacing: true)
                    throw SystemError(code: EIO, call: "rename", subject: "test")
                }
            }
            #expect(failed.hasPrefix("system"))
            #expect(try store.item(named: new.name) == nil)
            try store.add(item("c"), secret: try secret("any"))
            #expect(try store.item(named: new.name)?.attributes["account"] == .text("b"))
            #expect(try store.item(named: old.file) == nil)
            #expect(try FileStatus.names(in: store.staging).isEmpty)
        }
    }

    @Test func aWriteThatFailsBeforeTheRenameLeavesNothing() throws {
        try withStore { store in
            try store.add(item("a"), secret: try secret("old"))
            _ = failure { () throws(SecretError) in
                try store.stage(item("b"), try SecretStoreTests.bytes()) { _ throws(SystemError) in
                    throw SystemError(code: EIO, call: "rename", subject: "test")
                }
            }
            #expect(try FileStatus.names(in: store.staging).isEmpty)
        }
    }

    private static func bytes() throws(SecretError) -> SecretBytes { try SecretStore.memory(1) }
}
