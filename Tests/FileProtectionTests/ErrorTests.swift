// Tests the Cocoa error for each errno, and the errors that show a refusal by the lock.

import Glibc
import Testing

@testable import FileProtection

@Suite struct ErrorTests {
    @Test(
        arguments: [
            (FileUse.read, EACCES, 257), (.read, EPERM, 257), (.read, ENOENT, 260), (.read, EIO, 256),
            (.write, EACCES, 513), (.write, EPERM, 513), (.write, ENOENT, 4), (.write, EEXIST, 516),
            (.write, EROFS, 642), (.write, ENOSPC, 640), (.write, EDQUOT, 640), (.write, EIO, 512),
        ])
    func codes(_ use: FileUse, _ code: Int32, _ expected: Int) throws {
        let error = CocoaError.of(code, use, "/no/such/place") as NSError
        #expect(error.domain == NSCocoaErrorDomain)
        #expect(error.code == expected)
        #expect(error.userInfo[NSFilePathErrorKey] as? String == "/no/such/place")
        #expect((error.userInfo[NSURLErrorKey] as? URL)?.path == "/no/such/place")
        let cause = try #require(error.userInfo[NSUnderlyingErrorKey] as? NSError)
        #expect(cause.domain == NSPOSIXErrorDomain && cause.code == Int(code))
        // Nothing is locked off a mount.
        #expect((error as any Error).protectedClass == nil)
    }

    /// An attribute that cannot be read: no class, or an object that a newer version has made.
    @Test func anObjectOfANewerVersion() throws {
        func value(_ code: Int32, isProtected: Bool) throws -> String? {
            try unsafe ProtectionAttribute.value("getxattr", isProtected) { _, _ in
                errno = code
                return -1
            }
        }
        for isProtected in [false, true] { #expect(try value(ENODATA, isProtected: isProtected) == nil) }
        #expect(try value(EOPNOTSUPP, isProtected: false) == nil)
        #expect(throws: ProtectionSystemError(code: EOPNOTSUPP, call: "getxattr")) {
            try value(EOPNOTSUPP, isProtected: true)
        }
    }

    private func refused(_ info: [String: Any], domain: String = NSCocoaErrorDomain, code: Int = 257) -> any Error {
        NSError(domain: domain, code: code, userInfo: info)
    }

    @Test func theClassIsInTheError() {
        let error = refused([FileProtectionErrorKey: FileProtectionType.complete])
        #expect(error.isProtectedDataUnavailable)
        #expect(error.protectedClass == .complete)
    }

    @Test func othersAreNotTheLock() {
        let path = "/etc/passwd"
        let others: [any Error] = [
            refused([:]), refused([NSFilePathErrorKey: path]), refused([NSFilePathErrorKey: path], code: 513),
            refused([NSFilePathErrorKey: path], code: 260), refused([NSFilePathErrorKey: path], domain: "other"),
            refused([NSFilePathErrorKey: path, NSUnderlyingErrorKey: POSIXError(.EPERM)]),
            refused([FileProtectionErrorKey: "complete"]),
            FileProtectionError.unknownClass(value: "7"), FileProtectionError.notProtected(path), CancellationError(),
        ]
        for error in others {
            #expect(!error.isProtectedDataUnavailable, "\(error)")
            #expect(error.protectedClass == nil)
        }
    }

    @Test func explainingLeavesOthersAlone() throws {
        #expect(try explaining { 7 } == 7)
        let thrown = #expect(throws: CocoaError.self) {
            try explaining { try Data(contentsOf: URL(fileURLWithPath: "/no/such/place")) }
        }
        #expect(thrown?.code == .fileReadNoSuchFile)
    }

    @Test func sentences() {
        let error = FileProtectionError.notProtected("/etc/passwd")
        guard case .notProtected(path: "/etc/passwd", let why) = error else { return #expect(Bool(false), "\(error)") }
        #expect(error.description == "/etc/passwd has no data protection: \(why)")
        #expect(error.localizedDescription == error.description)
        let cause = ProtectionSystemError(code: EACCES, call: "connect")
        for error in [error, .unknownClass(value: "7"), .unreachable(path: "/mnt", cause: cause)] {
            #expect(error.recoverySuggestion?.hasSuffix(".") == true)
            #expect(!error.description.hasSuffix("."))
        }
    }
}
