// Security keys that are missing, or not keys at all. The mount tests have one in software.

import Glibc
import HostSystem
import SecurityKey
import SodiumKit
import Testing
import VolumeFormat

@Suite struct SecurityKeyDeviceTests {
    /// What opening gives. Without libfido2 every way gives that the library is missing.
    private func failure(_ place: SecurityKeyDevice.Place) -> SecurityKeyError? {
        do throws(SecurityKeyError) {
            _ = try SecurityKeyDevice(place)
            return nil
        } catch { return error }
    }

    private static var hasLibrary: Bool { (try? ConnectedKey.all()) != nil }

    @Test(.enabled(if: hasLibrary, "libfido2-1 is not installed"))
    func nothingIsThere() {
        let places = ["/nonexistent/key", "/dev/null", "/", "/" + String(repeating: "x", count: 300)]
        for path in places.map(HostPath.init(_:)) {
            #expect(failure(.socket(path)) == .cannotOpen, "socket \(path)")
            #expect(failure(.device(path)) == .cannotOpen, "device \(path)")
        }
    }

    /// A socket at which somebody accepts and closes at once, or sends what is no report.
    @Test(
        .enabled(if: hasLibrary, "libfido2-1 is not installed"), arguments: [[], [UInt8](repeating: 0xff, count: 640)])
    func noKeyAnswers(_ sent: [UInt8]) throws {
        let path = "/tmp/protectfs-key-test-\(getpid())-\(sent.count)"
        let listener = try Listener(path)
        let thread = BackgroundThread(name: "key") { listener.serveOnce(sent) }
        #expect(failure(.socket(HostPath(path))) == .cannotOpen)
        thread?.join()
    }
}

/// A Unix socket that takes one connection.
private final class Listener: Sendable {
    private let number: Int32
    private let path: String

    init(_ path: String) throws {
        self.path = path
        _ = unsafe unlink(path)
        number = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        try #require(bytes.count < 100)
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: bytes) }
        let bound = unsafe withUnsafePointer(to: &address) {
            unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe bind(number, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(bound == 0 && listen(number, 1) == 0)
    }

    deinit {
        close(number)
        _ = unsafe unlink(path)
    }

    func serveOnce(_ sent: [UInt8]) {
        let one = accept(number, nil, nil)
        guard one >= 0 else { return }
        _ = unsafe send(one, sent, sent.count, Int32(MSG_NOSIGNAL))
        close(one)
    }
}
