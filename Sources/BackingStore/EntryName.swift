// The name of one directory entry: one component, never a path.

/// One component of a backing path: 1–255 raw bytes without `/` and NUL, and not `.` or `..`; so a name cannot leave
/// its directory.
public struct EntryName: Hashable, Sendable, CustomStringConvertible {
    /// The bytes with a NUL after them, as system calls want them.
    let terminated: [UInt8]

    /// Checks the bytes; nil when they are no single component.
    public init?(_ bytes: some Collection<UInt8>) {
        guard (1...255).contains(bytes.count), !bytes.contains(0), !bytes.contains(UInt8(ascii: "/")) else {
            return nil
        }
        if bytes.allSatisfy({ $0 == UInt8(ascii: ".") }) && bytes.count <= 2 { return nil }
        var terminated = [UInt8]()
        terminated.reserveCapacity(bytes.count + 1)
        terminated.append(contentsOf: bytes)
        terminated.append(0)
        self.terminated = terminated
    }

    /// Checks the UTF-8 of `text`; nil when it is no single component.
    public init?(_ text: String) {
        self.init(Array(text.utf8))
    }

    /// The name's bytes, without a terminator.
    public var bytes: ArraySlice<UInt8> { terminated.dropLast() }

    /// The name as text, with invalid UTF-8 replaced; for messages only.
    public var description: String { String(decoding: bytes, as: UTF8.self) }
}
