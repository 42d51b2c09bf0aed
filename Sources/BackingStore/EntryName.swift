// The name of one directory entry, which is one component and never a path.

/// One component of a backing path. It has 1–255 raw bytes without `/` and NUL, and is not `.` or `..`, so it cannot
/// lead out of its directory.
public struct EntryName: Hashable, Sendable, CustomStringConvertible {
    /// The longest that there can be, in bytes.
    package static let longest = 255

    /// The bytes and a NUL, for system calls.
    let terminated: [UInt8]

    /// Checks the bytes; nil if they are not a single component. Takes one allocation, as each looked up name is one.
    public init?(_ bytes: Span<UInt8>) {
        guard (1...Self.longest).contains(bytes.count) else { return nil }
        var terminated = [UInt8](repeating: 0, count: bytes.count + 1)
        var isDots = bytes.count <= 2
        for index in bytes.indices {
            let byte = bytes[index]
            if byte == 0 || byte == UInt8(ascii: "/") { return nil }
            if byte != UInt8(ascii: ".") { isDots = false }
            terminated[index] = byte
        }
        if isDots { return nil }
        self.terminated = terminated
    }

    /// The same for an array.
    public init?(_ bytes: [UInt8]) {
        self.init(bytes.span)
    }

    /// The same for a part of an array.
    public init?(_ bytes: ArraySlice<UInt8>) {
        self.init(bytes.span)
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
