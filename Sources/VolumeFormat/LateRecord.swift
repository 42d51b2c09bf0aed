// Late records (the format, section 8), which hold pages that leave the page cache after their keys are wiped.

/// The first 128 bytes of a late file: its lock and its wrapped MAC key.
package struct LateFileHeader: Sendable {
    /// Bytes of the header.
    package static let length = 128
    /// The version that this program reads and writes.
    package static let version = FormatVersion.current
    /// The bytes that the wrap authenticates.
    package static let authenticated = 0..<48
    /// Nonce of the wrap.
    package static let nonceRange = 48..<72
    /// The wrapped MAC key: ciphertext and tag.
    package static let wrapRange = 72..<120

    /// Generation of class key A, from which the wrap key is derived.
    package var generation: UInt16
    /// Generation of class key B, to whose public key the data is encrypted.
    package var publicKeyGeneration: UInt16
    /// The volume.
    package var volumeID: VolumeID
    /// The lock's number. Later locks have higher ones.
    package var number: UInt64
    /// Nonce and wrapped MAC key, as in bytes 48–119.
    package var wrapped: InlineArray<72, UInt8>

    /// The version. A header of another one that class key A opens is newer.
    private var version = Self.version
    /// Bytes 14–15 and 40–47, which are zero in this version. The wrap covers them.
    private var reserved: (first: UInt16, second: UInt64) = (0, 0)

    /// Whether a newer version has made the header, if class key A opens it.
    package var isNewer: Bool { version != Self.version || reserved != (0, 0) }

    /// A header without its wrap, to be filled in.
    package init(generation: UInt16, publicKeyGeneration: UInt16, volumeID: VolumeID, number: UInt64) {
        self.generation = generation
        self.publicKeyGeneration = publicKeyGeneration
        self.volumeID = volumeID
        self.number = number
        wrapped = InlineArray(repeating: 0)
    }

    /// The header at the start of `bytes`, of this version or a later one. Every byte is checked or kept.
    package init(parsing bytes: Span<UInt8>) throws(FormatError) {
        guard bytes.count >= Self.length else { throw .length }
        guard bytes.hasText("PFSLATE1") else { throw .magic }
        version = bytes.littleEndian(at: 8)
        guard version >= Self.version else { throw .version(version) }
        reserved = (bytes.littleEndian(at: 14), bytes.littleEndian(at: 40))
        // Nothing covers these bytes before the first record is verified.
        guard bytes.extracting(120..<128).isAllZero else { throw .inconsistent("reserved bytes") }
        generation = bytes.littleEndian(at: 10)
        publicKeyGeneration = bytes.littleEndian(at: 12)
        volumeID = VolumeID(bytes, at: 16)
        number = bytes.littleEndian(at: 32)
        wrapped = bytes.inline(at: 48)
    }

    /// Writes the 128 bytes to the start of `bytes`.
    package func store(into bytes: inout MutableSpan<UInt8>) {
        bytes.copyText("PFSLATE1", to: 0)
        bytes.storeLittleEndian(version, at: 8)
        bytes.storeLittleEndian(generation, at: 10)
        bytes.storeLittleEndian(publicKeyGeneration, at: 12)
        bytes.storeLittleEndian(reserved.first, at: 14)
        volumeID.store(into: &bytes, at: 16)
        bytes.storeLittleEndian(number, at: 32)
        bytes.storeLittleEndian(reserved.second, at: 40)
        bytes.copy(wrapped.span, to: 48)
        bytes.storeLittleEndian(0 as UInt64, at: 120)
    }

    /// The 128 bytes.
    package var bytes: InlineArray<128, UInt8> {
        var result = InlineArray<128, UInt8>(repeating: 0)
        var raw = result.mutableSpan
        store(into: &raw)
        return result
    }
}

/// The first 56 bytes of a late record. The sealed data follows, then the MAC of the chain.
package struct LateRecordHeader: Sendable, Equatable {
    /// Bytes of the header.
    package static let length = 56
    /// Bytes of a MAC of the chain.
    package static let macLength = 32
    /// Bytes that sealing adds to the data.
    package static let sealOverhead = 48
    /// The most data in one record.
    package static let maximumData = 1 << 20
    /// Files have no bytes at or above this offset.
    package static let endOfOffsets: UInt64 = 1 << 63

    /// The kind of a record.
    package enum Kind: UInt8, Sendable {
        /// The record's bytes belong at its offset.
        case data = 1
        /// The earlier records of this file are durably in the file.
        case done = 2
    }

    /// Bytes of data. 0 in a record of kind `done`.
    package var dataLength: Int
    /// Data, or the end of a file's earlier records.
    package var kind: Kind
    /// The record's place in its late file: 0, 1, 2 …
    package var index: UInt64
    /// The file.
    package var fileID: ObjectID
    /// Where the data belongs in the file's content.
    package var offset: UInt64
    /// The time of the write: seconds since 1970.
    package var seconds: Int64
    /// The nanoseconds of that time.
    package var nanoseconds: UInt32

    /// A record of data.
    package init(
        dataLength: Int, index: UInt64, fileID: ObjectID, offset: UInt64, seconds: Int64, nanoseconds: UInt32
    ) {
        self.dataLength = dataLength
        kind = .data
        self.index = index
        self.fileID = fileID
        self.offset = offset
        self.seconds = seconds
        self.nanoseconds = nanoseconds
    }

    /// A record that marks a file as complete.
    package init(doneWith fileID: ObjectID, index: UInt64) {
        self.init(dataLength: 0, index: index, fileID: fileID, offset: 0, seconds: 0, nanoseconds: 0)
        kind = .done
    }

    /// The header at the start of `bytes`. Every byte is checked. If the MAC is right, an error that `isNewer` means that a newer
    /// version has made the record.
    package init(parsing bytes: Span<UInt8>) throws(FormatError) {
        guard bytes.count >= Self.length else { throw .length }
        guard let kind = Kind(rawValue: bytes[4]) else { throw .unsupported("kind of late record") }
        guard bytes.extracting(5..<8).isAllZero, bytes.extracting(52..<56).isAllZero else {
            throw .unsupported("reserved bytes")
        }
        let count: UInt32 = bytes.littleEndian(at: 0)
        self.kind = kind
        dataLength = Int(count)
        index = bytes.littleEndian(at: 8)
        fileID = ObjectID(bytes, at: 16)
        offset = bytes.littleEndian(at: 32)
        seconds = bytes.littleEndian(at: 40)
        nanoseconds = bytes.littleEndian(at: 48)
        guard nanoseconds < 1_000_000_000 else { throw .inconsistent("time") }
        switch kind {
        case .data:
            guard (1...Self.maximumData).contains(dataLength) else { throw .length }
            guard offset <= Self.endOfOffsets - UInt64(dataLength) else { throw .inconsistent("offset") }
        case .done: guard count == 0, offset == 0, seconds == 0, nanoseconds == 0 else { throw .length }
        }
    }

    /// Writes the 56 bytes to the start of `bytes`.
    package func store(into bytes: inout MutableSpan<UInt8>) {
        bytes.storeLittleEndian(UInt32(dataLength), at: 0)
        bytes.storeLittleEndian(kind.rawValue, at: 4)
        bytes.zero(5..<8)
        bytes.storeLittleEndian(index, at: 8)
        fileID.store(into: &bytes, at: 16)
        bytes.storeLittleEndian(offset, at: 32)
        bytes.storeLittleEndian(seconds, at: 40)
        bytes.storeLittleEndian(nanoseconds, at: 48)
        bytes.zero(52..<56)
    }

    /// The length of the record of any kind that begins with `bytes`; nil if it is longer than a record can be. A record of an
    /// unknown kind is as long as one of data.
    package static func recordLength(in bytes: Span<UInt8>) -> Int? {
        guard bytes.count >= length else { return nil }
        let count = Int(bytes.littleEndian(at: 0, as: UInt32.self))
        guard count <= maximumData else { return nil }
        return length + (bytes[4] == Kind.done.rawValue ? 0 : sealOverhead + count) + macLength
    }

    /// The range of the sealed data in the record.
    package var sealedRange: Range<Int> { Self.length..<authenticatedLength }
    /// The number of bytes that the MAC covers, besides the previous record's MAC.
    package var authenticatedLength: Int {
        Self.length + (kind == .data ? dataLength + Self.sealOverhead : 0)
    }
    /// Bytes of the whole record.
    package var recordLength: Int { authenticatedLength + Self.macLength }
}

/// The names of late files, in the volume's root.
package enum LateFileName {
    /// The highest number, so that the next number always exists too.
    package static let largest = UInt64(Int64.max)

    /// The name of a lock's late file.
    package static func bytes(of number: UInt64) -> [UInt8] {
        let bigEndian = stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> UInt64($0)) }
        return ReservedName.latePrefix.bytes + Hexadecimal.encode(bigEndian)
    }

    /// The same as text.
    package static func text(of number: UInt64) -> String { String(decoding: bytes(of: number), as: UTF8.self) }

    /// The number in a late file's name. Nil for any other name.
    package static func number(of name: Span<UInt8>) -> UInt64? {
        let prefix = ReservedName.latePrefix.utf8CodeUnitCount
        guard name.count == prefix + 16, name.hasText(ReservedName.latePrefix) else { return nil }
        let digits = (prefix..<name.count).map { name[$0] }
        // This format never writes a name in upper case.
        guard let bytes = Hexadecimal.decode(digits), Hexadecimal.encode(bytes) == digits else { return nil }
        let number = bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        return number <= largest ? number : nil
    }
}
