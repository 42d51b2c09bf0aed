// A directory's record: the 44 bytes in the target of its `.protectfs.dir` symlink.

/// Flags of a directory's record. No flag has a meaning yet; the ranges say what a program does with an unknown one.
package struct RecordFlags: OptionSet, Sendable, Hashable {
    /// The bits as stored.
    package let rawValue: UInt8

    /// Flags from stored bits.
    package init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// Bits 0–3: a record with an unknown one is newer. Only its ID is used.
    package static let incompatible = RecordFlags(rawValue: 0x0F)
    /// Bits 4–5: a record with an unknown one is newer. Its ID and its default class are used.
    package static let readableOnly = RecordFlags(rawValue: 0x30)
    /// Bits 6–7: they are ignored, and kept when the record is replaced.
    package static let kept = RecordFlags(rawValue: 0xC0)

    /// Whether a newer version has set a flag for which the directory must not be changed.
    package var areReadableOnly: Bool { !isDisjoint(with: Self.readableOnly) }
}

/// A directory's ID and default class. The caller checks its MAC before using its fields.
package struct DirectoryRecord: Sendable {
    /// Bytes of the record.
    package static let length = 44
    /// Characters of the symlink's target.
    package static let targetLength = 59
    /// The MAC covers the bytes before it.
    package static let authenticated = 0..<28
    /// The offset of the MAC-128.
    package static let macRange = 28..<44
    /// The record's version.
    package static let version = UInt8(FormatVersion.current)

    /// The class of new entries. Nil if the record sets none.
    package var defaultClass: ProtectionClass?
    /// Unknown flags above bit 3.
    package var flags: RecordFlags
    /// The directory's ID.
    package var directoryID: ObjectID
    /// MAC-128 (directory record key) over bytes 0–27. The caller sets it after `store`.
    package var mac: InlineArray<16, UInt8>

    /// A record with a zero MAC, to be filled in.
    package init(directoryID: ObjectID, defaultClass: ProtectionClass?, flags: RecordFlags = []) {
        self.directoryID = directoryID
        self.defaultClass = defaultClass
        self.flags = flags
        mac = InlineArray(repeating: 0)
    }

    /// The record in exactly 44 bytes. Every byte is checked. If the MAC is right, any error means that a newer version has made
    /// the record, which may be longer; `directoryID(in:)` is then its ID.
    package init(parsing bytes: Span<UInt8>) throws(FormatError) {
        guard bytes.count == Self.length else { throw .length }
        guard bytes.hasText("PFD") else { throw .magic }
        guard bytes[3] == Self.version else { throw .version(UInt16(bytes[3])) }
        let number = bytes[4]
        defaultClass = nil
        if number != 0 {
            guard let known = ProtectionClass(rawValue: number) else { throw .unknownClass }
            defaultClass = known
        }
        flags = RecordFlags(rawValue: bytes[5])
        guard flags.isDisjoint(with: .incompatible) else { throw .unsupported("flags") }
        guard bytes.littleEndian(at: 6, as: UInt16.self) == 0 else { throw .unsupported("generation") }
        guard bytes.littleEndian(at: 8, as: UInt32.self) == 0 else { throw .unsupported("freshness") }
        directoryID = Self.directoryID(in: bytes)
        mac = InlineArray(repeating: 0)
        for index in 0..<16 { mac[index] = bytes[28 + index] }
    }

    /// Writes the 44 bytes, with `mac` unchanged, to the start of `bytes`.
    package func store(into bytes: inout MutableSpan<UInt8>) {
        bytes.copyText("PFD", to: 0)
        bytes.storeLittleEndian(Self.version, at: 3)
        bytes.storeLittleEndian(defaultClass?.rawValue ?? 0, at: 4)
        bytes.storeLittleEndian(flags.rawValue, at: 5)
        bytes.zero(6..<12)
        directoryID.store(into: &bytes, at: 12)
        bytes.copy(mac.span, to: 28)
    }

    /// The directory ID in a record of any version, of at least 44 bytes.
    package static func directoryID(in bytes: Span<UInt8>) -> ObjectID { ObjectID(bytes, at: 12) }

    /// The 44 bytes in a symlink's target. Nil unless it is 59 characters of strict base64url.
    package static func decode(target: Span<UInt8>) -> InlineArray<44, UInt8>? {
        guard target.count == targetLength else { return nil }
        var result = InlineArray<44, UInt8>(repeating: 0)
        var bytes = result.mutableSpan
        guard Base64URL.decode(target, into: &bytes) == length else { return nil }
        return result
    }

    /// The symlink's target for this record, with `mac` unchanged.
    package func target() -> [UInt8] {
        var result = InlineArray<44, UInt8>(repeating: 0)
        var bytes = result.mutableSpan
        store(into: &bytes)
        return Base64URL.encode(result.span)
    }
}
