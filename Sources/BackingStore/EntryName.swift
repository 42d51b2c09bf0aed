// The name of one directory entry, which is one component and never a path.

/// One component of a backing path. It has 1–255 raw bytes without `/` and NUL, and is not `.` or `..`, so it cannot
/// lead out of its directory.
public struct EntryName: Hashable, Sendable, CustomStringConvertible {
    /// The bytes and a NUL, for system calls.
    let terminated: [UInt8]

    /// Checks the bytes; nil if they are not a single component.
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

    /// Checks the UTF-8 of `text`; nil if it is not a single component.
    public init?(_ text: String) {
        self.init(Array(text.utf8))
    }

    /// The name's bytes, without a terminator.
    public var bytes: ArraySlice<UInt8> { terminated.dropLast() }

    /// The name as text, with invalid UTF-8 replaced. For messages only.
    public var description: String { String(decoding: bytes, as: UTF8.self) }
}
