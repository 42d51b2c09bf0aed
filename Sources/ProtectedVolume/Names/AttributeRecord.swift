// The attributes of one object that are stored together, decrypted in locked memory.

internal import HostSystem
internal import KeyFiles
internal import SodiumKit
package import VolumeFormat

/// A record of attributes. `deinit` wipes it.
package struct AttributeRecord: ~Copyable {
    private let bytes: SecretBytes
    private let entries: [AttributeEntries.Entry]
    /// The overflow object that holds it, if one does.
    package let overflow: ObjectID?

    /// A record without attributes.
    init() throws(VolumeError) {
        bytes = try NameCipher.memory(0)
        entries = []
        overflow = nil
    }

    /// The record in these bytes; nil if they are not as this version writes them.
    init?(_ bytes: consuming SecretBytes, overflow: ObjectID?) {
        guard let entries = bytes.withBytes({ AttributeEntries.parse($0) }) else { return nil }
        self.bytes = bytes
        self.entries = entries
        self.overflow = overflow
    }

    var isEmpty: Bool { entries.isEmpty }

    var names: [[UInt8]] {
        bytes.withBytes { bytes in entries.map { bytes.extracting($0.name).copiedBytes() } }
    }

    /// Whether there is an attribute of this name.
    func contains(_ name: [UInt8]) -> Bool { entry(name) != nil }

    private func entry(_ name: [UInt8]) -> AttributeEntries.Entry? {
        bytes.withBytes { bytes in
            let place = place(of: name.span, in: bytes)
            // The name there does not come before this one. So it is this one, or comes after it.
            guard place < entries.count,
                !AttributeEntries.precedes(name.span, bytes.extracting(entries[place].name))
            else { return nil }
            return entries[place]
        }
    }

    /// The number of entries before an attribute of this name, by a binary search.
    private func place(of name: Span<UInt8>, in bytes: Span<UInt8>) -> Int {
        var range = entries.indices
        while !range.isEmpty {
            let middle = range.lowerBound + range.count / 2
            let isBefore = AttributeEntries.precedes(bytes.extracting(entries[middle].name), name)
            range = isBefore ? middle + 1..<range.upperBound : range.lowerBound..<middle
        }
        return range.lowerBound
    }

    /// Copies a value to the beginning of `output`.
    ///
    /// - Returns: its length; nil if there is no such attribute.
    /// - Throws: ERANGE if it has no room.
    func copyValue(of name: [UInt8], into output: inout MutableSpan<UInt8>) throws(VolumeError) -> Int? {
        guard let entry = entry(name) else { return nil }
        guard entry.value.count <= output.count else { throw .refused(.ERANGE) }
        bytes.withBytes { output.copy($0.extracting(entry.value), to: 0) }
        wipeVectorRegisters()
        return entry.value.count
    }

    /// A copy of a value in an array, which is not wiped; nil if there is no such attribute.
    func value(of name: [UInt8]) -> [UInt8]? {
        guard let entry = entry(name) else { return nil }
        return bytes.withBytes { $0.extracting(entry.value).copiedBytes() }
    }

    /// Lends the bytes.
    func withBytes<Result>(_ body: (Span<UInt8>) throws(VolumeError) -> Result) throws(VolumeError) -> Result {
        try bytes.withBytes(body)
    }

    /// The record without this attribute.
    func removing(_ name: [UInt8]) throws(VolumeError) -> AttributeRecord {
        try replacing(entry(name)?.whole ?? 0..<0, adding: 0) { _ in }
    }

    /// The record with this value of an attribute, in place of an earlier one.
    func setting(_ name: [UInt8], to value: Span<UInt8>) throws(VolumeError) -> AttributeRecord {
        let number = bytes.withBytes { place(of: name.span, in: $0) }
        let start = number < entries.count ? entries[number].whole.lowerBound : bytes.byteCount
        return try replacing(
            entry(name)?.whole ?? start..<start, adding: AttributeEntries.length(name: name, value: value)
        ) { room in AttributeEntries.store(name, value, into: &room, at: 0) }
    }

    /// A copy with `count` other bytes, which `fill` writes, in place of a range.
    private func replacing(
        _ range: Range<Int>, adding count: Int, _ fill: (inout MutableSpan<UInt8>) -> Void
    ) throws(VolumeError) -> AttributeRecord {
        var new = try NameCipher.memory(bytes.byteCount - range.count + count)
        bytes.withBytes { old in
            new.withMutableBytes { (room: inout MutableSpan<UInt8>) in
                room.copy(old.extracting(0..<range.lowerBound), to: 0)
                var added = room._mutatingExtracting(range.lowerBound..<range.lowerBound + count)
                fill(&added)
                room.copy(old.extracting(range.upperBound..<old.count), to: range.lowerBound + count)
            }
        }
        wipeVectorRegisters()
        guard let record = AttributeRecord(new, overflow: overflow) else { throw .refused(.EINVAL) }
        return record
    }

}
