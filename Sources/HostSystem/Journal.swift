// Sends entries to the journal of systemd by its native protocol.

internal import CLinuxShim

/// The journal. https://systemd.io/JOURNAL_NATIVE_PROTOCOL/ describes the protocol: a datagram with lines of the form FIELD=value.
package enum Journal {
    private static let socket = HostPath("/run/systemd/journal/socket")

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
