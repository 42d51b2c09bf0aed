// The attributes of an object that are stored together: a sequence of names and values.

/// Parses and writes the entries of an attribute record (docs/judge/volume-format.md, 7.7).
package enum AttributeEntries {
    /// The longest value, in bytes (xattr(7)).
    package static let longestValue = 65_536
    /// Bytes before a name: its length, and that of the value.
    private static let headLength = 5

    /// The place of an attribute in a record.
    package struct Entry: Sendable {
        /// The full name.
        package var name: Range<Int>
        /// Where its value is in the entries' bytes.
        package var value: Range<Int>
        /// All bytes of the entry.
        package var whole: Range<Int> { name.lowerBound - headLength..<value.upperBound }
    }

    /// The entries of a record; nil if a byte of it is not as this version writes it.
    package static func parse(_ bytes: Span<UInt8>) -> [Entry]? {
        var entries: [Entry] = []
        var at = 0
        while at < bytes.count {
            guard bytes.count - at > headLength, bytes[at] > 0 else { return nil }
            let valueLength: UInt32 = bytes.littleEndian(at: at + 1)
            let name = at + headLength..<at + headLength + Int(bytes[at])
            guard valueLength <= longestValue, bytes.count - name.upperBound >= Int(valueLength) else { return nil }
            let entry = Entry(name: name, value: name.upperBound..<name.upperBound + Int(valueLength))
            guard name.allSatisfy({ bytes[$0] != 0 }) else { return nil }
            if let last = entries.last, !precedes(bytes.extracting(last.name), bytes.extracting(name)) { return nil }
            entries.append(entry)
            at = entry.value.upperBound
        }
        return entries
    }

    /// Bytes of an entry.
    package static func length(name: [UInt8], value: Span<UInt8>) -> Int { headLength + name.count + value.count }

    /// Writes an entry at `offset`. Traps if it does not fit.
    package static func store(
        _ name: [UInt8], _ value: Span<UInt8>, into bytes: inout MutableSpan<UInt8>, at offset: Int
    ) {
        bytes.storeLittleEndian(UInt8(name.count), at: offset)
        bytes.storeLittleEndian(UInt32(value.count), at: offset + 1)
        bytes.copy(name.span, to: offset + headLength)
        bytes.copy(value, to: offset + headLength + name.count)
    }

    /// Whether `one` comes before `other`, in the order of their bytes.
    package static func precedes(_ one: Span<UInt8>, _ other: Span<UInt8>) -> Bool {
        for index in 0..<min(one.count, other.count) where one[index] != other[index] {
            return one[index] < other[index]
        }
        return one.count < other.count
    }
}
