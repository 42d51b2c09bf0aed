// The reference to an overflow object, in the object whose content has no room in the store: a link or an attribute.

/// Names an overflow object and the length of its content (docs/judge/volume-format.md, 7.6).
package struct OverflowReference: Hashable, Sendable {
    /// Bytes of a reference.
    package static let length = ObjectID.length + 4
    /// The longest content, in bytes.
    package static let longestContent = 1 << 20

    /// The object's ID, random and never used again.
    package var id: ObjectID
    /// Bytes of its content.
    package var contentLength: Int

    /// A reference to an object with so many bytes.
    package init(id: ObjectID, contentLength: Int) {
        self.id = id
        self.contentLength = contentLength
    }

    /// The reference at the beginning of `bytes`; nil if they are too short, or no content has that length.
    package init?(_ bytes: Span<UInt8>) {
        guard bytes.count >= Self.length else { return nil }
        let count: UInt32 = bytes.littleEndian(at: ObjectID.length)
        guard count <= Self.longestContent else { return nil }
        self.init(id: ObjectID(bytes), contentLength: Int(count))
    }

    /// Writes the reference to the beginning of `bytes`. Traps if it does not fit.
    package func store(into bytes: inout MutableSpan<UInt8>) {
        id.store(into: &bytes, at: 0)
        bytes.storeLittleEndian(UInt32(contentLength), at: ObjectID.length)
    }
}

/// The stored form of a link whose target has no room in the store's link: a reference to an overflow object, and zeros.
package enum LongTarget {
    /// Bytes of the form before it is encrypted: so many that hardly a target has this length. `stat` needs the length of a
    /// target, and so reads only the links of this length.
    package static let length = 509
    /// Characters of the link in the store.
    package static let storedLength = 734
    /// The longest target of a link, in bytes (PATH_MAX of Linux, less the zero byte).
    package static let longest = 4095

    /// The form of a reference.
    package static func bytes(of reference: OverflowReference) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: length)
        var raw = bytes.mutableSpan
        reference.store(into: &raw)
        return bytes
    }

    /// The reference in a form; nil if anything of it is not as this version writes it.
    package static func reference(in bytes: [UInt8]) -> OverflowReference? {
        guard bytes.count == length, bytes[OverflowReference.length...].allSatisfy({ $0 == 0 }),
            let reference = OverflowReference(bytes.span), (1...longest).contains(reference.contentLength)
        else { return nil }
        return reference
    }
}
