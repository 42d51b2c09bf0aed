// The 16-byte identifiers of the format: files, directories and the volume.

/// The random 16-byte ID of a file or a directory.
package struct ObjectID: Hashable, Sendable {
    /// Bytes in an ID.
    package static let length = 16

    private let first: UInt64
    private let second: UInt64

    /// The place of an ID for objects without one: symlinks and special files.
    package static let absent = ObjectID(InlineArray<16, UInt8>(repeating: 0))

    /// The ID with its bytes at `offset`. Traps outside the span.
    package init(_ bytes: Span<UInt8>, at offset: Int = 0) {
        first = bytes.littleEndian(at: offset)
        second = bytes.littleEndian(at: offset + 8)
    }

    /// The ID made of these bytes.
    package init(_ bytes: InlineArray<16, UInt8>) {
        self.init(bytes.span)
    }

    /// The ID's bytes.
    package var bytes: InlineArray<16, UInt8> {
        var result = InlineArray<16, UInt8>(repeating: 0)
        var raw = result.mutableSpan
        store(into: &raw, at: 0)
        return result
    }

    /// Whether all bytes are zero. No object has such an ID.
    package var isZero: Bool { first | second == 0 }

    /// Writes the 16 bytes at `offset`. Traps if they do not fit.
    package func store(into bytes: inout MutableSpan<UInt8>, at offset: Int) {
        bytes.storeLittleEndian(first, at: offset)
        bytes.storeLittleEndian(second, at: offset + 8)
    }
}

/// The volume's 16-byte UUID, written in lower case with hyphens.
package struct VolumeID: Hashable, Sendable, CustomStringConvertible {
    /// Bytes in the UUID.
    package static let length = 16

    private let identifier: ObjectID

    /// The UUID with its bytes at `offset`. Traps outside the span.
    package init(_ bytes: Span<UInt8>, at offset: Int = 0) {
        identifier = ObjectID(bytes, at: offset)
    }

    /// The UUID made of these bytes.
    package init(_ bytes: InlineArray<16, UInt8>) {
        identifier = ObjectID(bytes)
    }

    /// A random (version 4) UUID from 16 random bytes: sets the version and variant bits.
    package init(random bytes: InlineArray<16, UInt8>) {
        var bytes = bytes
        bytes[6] = bytes[6] & 0x0f | 0x40
        bytes[8] = bytes[8] & 0x3f | 0x80
        identifier = ObjectID(bytes)
    }

    /// The UUID written `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` in lower case. Nil for anything else.
    package init?(text: String) {
        guard text.utf8.count == 36, let decoded = Hexadecimal.decode(text.utf8.filter { $0 != 0x2d }),
            decoded.count == Self.length
        else { return nil }
        self.init(decoded.span)
        // In lower case, with the hyphens at their places.
        guard description == text else { return nil }
    }

    /// The UUID's bytes.
    package var bytes: InlineArray<16, UInt8> { identifier.bytes }

    /// The UUID in lower case with hyphens.
    package var description: String {
        let bytes = identifier.bytes
        let groups = [0..<4, 4..<6, 6..<8, 8..<10, 10..<16]
        return groups.map { Hexadecimal.text($0.map { bytes[$0] }) }.joined(separator: "-")
    }

    /// Writes the 16 bytes at `offset`. Traps if they do not fit.
    package func store(into bytes: inout MutableSpan<UInt8>, at offset: Int) {
        identifier.store(into: &bytes, at: offset)
    }
}
