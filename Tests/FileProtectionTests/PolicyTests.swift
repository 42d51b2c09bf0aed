// Tests classes on file systems without protection.

import Testing

@testable import FileProtection

private func names(_ place: URL) throws -> [String] {
    try Foundation.FileManager.default.contentsOfDirectory(atPath: place.path).sorted()
}

// The policy is the process's: one test at a time.
@Suite(.serialized) struct PolicyTests {
    @Test func requireRefusesAndWritesNothing() throws {
        #expect(FileProtection.policy == .require)
        try withPlace { place throws in
            #expect(!FileProtection.isSupported(at: place))
            let file = place.appendingPathComponent("file")
            #expect(throws: FileProtectionError.notProtected(file.path)) {
                try Data("x".utf8).write(to: file, options: .completeFileProtection)
            }
            #expect(throws: FileProtectionError.notProtected(file.path)) {
                try FileManager.default.createDirectory(
                    at: file, withIntermediateDirectories: false,
                    attributes: [.protectionKey: FileProtectionType.complete])
            }
            #expect(
                !FileManager.default.createFile(
                    atPath: file.path, contents: nil, attributes: [.protectionKey: FileProtectionType.complete]))
            #expect(try names(place) == [])
            #expect(throws: FileProtectionError.notProtected(place.path)) { try ProtectedData(at: place) }
            try Data("x".utf8).write(to: file, options: .atomic)
            #expect(try FileManager.default.attributesOfItem(atPath: file.path)[.protectionKey] == nil)
            #expect(try file.resourceValues(forKeys: [.fileProtectionKey]).fileProtection == nil)
            #expect(throws: FileProtectionError.notProtected(file.path)) {
                try FileManager.default.setAttributes(
                    [.protectionKey: FileProtectionType.complete, .posixPermissions: 0o400], ofItemAtPath: file.path)
            }
            // Refused whole.
            #expect(
                try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions] as? NSNumber != 0o400)
        }
    }

    @Test(arguments: [FileProtection.Policy.warn, .ignore]) func othersGoOn(_ policy: FileProtection.Policy) throws {
        FileProtection.policy = policy
        defer { FileProtection.policy = .require }
        try withPlace { place throws in
            let file = place.appendingPathComponent("file")
            try Data("x".utf8).write(to: file, options: [.atomic, .completeFileProtection])
            #expect(try Data(contentsOf: file) == Data("x".utf8))
            // A class that is none is refused by every policy.
            #expect(throws: FileProtectionError.self) {
                try FileManager.default.setAttributes([.protectionKey: "7"], ofItemAtPath: file.path)
            }
            // What needs a mount is refused by every policy.
            #expect(throws: FileProtectionError.self) { try ProtectedData(at: place) }
        }
    }

    /// The last guard before the first byte, whatever led here.
    @Test func stagingIsRefused() throws {
        try withPlace { place throws in
            let target = place.appendingPathComponent("file").path
            #expect(throws: ProtectionSystemError.notProtected) { _ = try Staging(beside: target, class: nil) }
            #expect(throws: ProtectionSystemError.notProtected) { _ = try Staging(beside: target, class: .complete) }
            #expect(try names(place) == [])
        }
    }
}
