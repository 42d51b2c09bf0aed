// A directory in /tmp for the tests of several modules.

package import BackingStore
internal import Glibc
internal import HostSystem

/// A directory of the host that is removed with its owner.
package final class TemporaryDirectory: Sendable {
    /// Its path.
    package let path: String
    /// The directory, open.
    package let directory: BackingDirectory

    /// Makes it.
    package init() throws {
        path = "/tmp/protectfs-test-\(UInt64.random(in: 0 ... .max))"
        guard unsafe Glibc.mkdir(path, 0o700) == 0 else { throw Errno(rawValue: errno) }
        directory = try HostDirectory.open(path: path)
    }

    deinit { Self.remove(directory, path) }

    private static func remove(_ directory: BackingDirectory, _ path: String) {
        empty(directory)
        unsafe _ = Glibc.rmdir(path)
    }

    private static func empty(_ directory: BackingDirectory) {
        for entry in (try? directory.entries()) ?? [] {
            if let inner = try? directory.openDirectory(entry.name) {
                empty(inner)
                try? directory.removeDirectory(entry.name)
            } else {
                try? directory.unlink(entry.name)
            }
        }
    }
}
