// Tests that the library connects only to a socket in a directory that no other user can have made or changed.

import CLinuxShim
import Dispatch
import Glibc
import Testing

@testable import FileProtection

struct ControlConnectionTests {
    /// The errno of connecting to a listening socket through `path`, below a directory of this mode; 0 is success.
    private func connect(mode: mode_t, through path: (String) -> String = { $0 }) throws -> Int32 {
        let base = NSTemporaryDirectory() + "protectfs-connection-\(UUID().uuidString)"
        let directory = base + "/sockets"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: base) }
        try FileManager.default.createSymbolicLink(atPath: base + "/link", withDestinationPath: directory)
        let listener = pfs_unix_socket()
        defer { close(listener) }
        #expect(unsafe pfs_unix_bind(listener, directory + "/s") == 0 && listen(listener, 1) == 0)
        #expect(unsafe chmod(directory, mode) == 0)
        do throws(ProtectionSystemError) {
            let connection = try ControlConnection.open(
                path(directory) + "/s", owner: nil, on: DispatchQueue(label: "test"), receive: { _ in }, ended: {})
            connection.close()
            return 0
        } catch {
            return error.code
        }
    }

    @Test func onlyADirectoryThatOthersCannotChangeIsTrusted() throws {
        #expect(try connect(mode: 0o700) == 0)
        for mode: mode_t in [0o777, 0o1777, 0o720] { #expect(try connect(mode: mode) == ECONNREFUSED) }
    }

    @Test func aLinkToOneIsNot() throws {
        #expect(try connect(mode: 0o700) { $0.replacingOccurrences(of: "/sockets", with: "/link") } == ENOTDIR)
    }
}
