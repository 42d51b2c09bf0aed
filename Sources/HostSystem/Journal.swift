// Sends entries to the journal of systemd by its native protocol, and tells which descriptors it reads.

internal import CLibrary
internal import CLinuxShim

/// The journal. https://systemd.io/JOURNAL_NATIVE_PROTOCOL/ describes the protocol: a datagram with lines of the form FIELD=value.
package enum Journal {
    private static let socket = HostPath("/run/systemd/journal/socket")

    /// Whether what is written to a descriptor goes to the journal as lines. A service's JOURNAL_STREAM has device and inode of
    /// such a descriptor (systemd.exec(5)), and programs that it starts inherit the variable and may write elsewhere.
    package static func isBehind(_ output: borrowing Descriptor) -> Bool {
        guard let stream = SystemPaths.environment("JOURNAL_STREAM"), let status = try? output.status() else {
            return false
        }
        return stream.bytes == Array("\(status.st_dev):\(status.st_ino)".utf8)
    }

    /// Sends one entry, and never waits.
    ///
    /// - Parameter fields: values without line breaks; one in a value becomes a space.
    /// - Returns: false if the journal does not exist or its queue is full. The entry is lost then.
    package static func send(_ fields: [(name: String, value: String)]) -> Bool {
        var bytes: [UInt8] = []
        for field in fields {
            bytes += field.name.utf8
            bytes.append(UInt8(ascii: "="))
            bytes += field.value.utf8.map { $0 == UInt8(ascii: "\n") ? UInt8(ascii: " ") : $0 }
            bytes.append(UInt8(ascii: "\n"))
        }
        return unsafe socket.withCString { path in
            unsafe bytes.withUnsafeBytes { unsafe pfs_send_datagram(path, $0.baseAddress, UInt($0.count)) == 0 }
        }
    }
}
