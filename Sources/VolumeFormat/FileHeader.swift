// The 128-byte header of a backing file and the 8-byte field of a block.

/// Flags of a file's header. The ranges say what a program does with a flag that it does not know.
package struct FileFlags: OptionSet, Sendable, Hashable {
    /// The bits as stored.
    package let rawValue: UInt16

    /// Flags from stored bits.
    package init(rawValue: UInt16) {
        self.rawValue = rawValue
    }

    /// Pages of this file that are wholly zero are holes.
    package static let holes = FileFlags(rawValue: 1)
    /// An older header may open this file under a weaker class.
    package static let keyExposed = FileFlags(rawValue: 2)
    /// The class was set explicitly, not inherited.
    package static let explicit = FileFlags(rawValue: 4)
    /// Every flag that this version knows.
    package static let known: FileFlags = [.holes, .keyExposed, .explicit]

    /// Bits 0–7: a file with an unknown one is newer, and is not used.
    package static let incompatible = FileFlags(rawValue: 0x00FF)
    /// Bits 8–11: a file with an unknown one is newer, and is only read.
    package static let readableOnly = FileFlags(rawValue: 0x0F00)
    /// Bits 12–15: they are ignored, and kept whenever the header is written.
    package static let kept = FileFlags(rawValue: 0xF000)

    /// Whether a newer version has set a flag for which the file must not be changed.
    package var areReadableOnly: Bool { !isDisjoint(with: Self.readableOnly) }
}

/// The header at the start of page 0. The caller checks its MAC *before* the header is parsed and used.
package struct FileHeader: Sendable {
    /// Bytes of the header.
    package static let length = 128
    /// The MAC covers the bytes before it.
    package static let authenticated = 0..<112
    /// The offset of the MAC-128.
    package static let macRange = 112..<128
    /// The offset of the wrapped file key.
    package static let wrapRange = 32..<112
    /// Bytes of a wrapped file key.
    package static let wrapLength = 80
    /// The header's version.
    package static let version = UInt8(FormatVersion.current)

    /// The file's class.
    package var protectionClass: ProtectionClass
    /// The volume's suite.
    package var suite: CipherSuite
    /// HOLES, KEY_EXPOSED, EXPLICIT, and the unknown flags above bit 7.
    package var flags: FileFlags
    /// Generation of the class key that wraps the file key.
    package var keyGeneration: UInt16
    /// The file's random ID.
    package var fileID: ObjectID
    /// The file key, wrapped by the class key.
    package var wrappedKey: InlineArray<80, UInt8>
    /// MAC-128 (header MAC key) over bytes 0–111. The caller sets it after `store`; see `macRange`.
    package var mac: InlineArray<16, UInt8>

    /// A header with a zero wrap and MAC, to be filled in.
    package init(
        protectionClass: ProtectionClass, suite: CipherSuite, flags: FileFlags = [], keyGeneration: UInt16,
        fileID: ObjectID
    ) {
        self.protectionClass = protectionClass
        self.suite = suite
        self.flags = flags
        self.keyGeneration = keyGeneration
        self.fileID = fileID
        wrappedKey = InlineArray(repeating: 0)
        mac = InlineArray(repeating: 0)
    }

    /// The header in the first 128 bytes of `page`.
    ///
    /// Every byte is checked, so that `store` gives the same bytes again. If the MAC is right, any error means that a newer
    /// version has made the header.
    package init(parsing page: Span<UInt8>) throws(FormatError) {
        guard page.count >= Self.length else { throw .length }
        guard page.hasText("PFS") else { throw .magic }
        guard page[3] == Self.version else { throw .version(UInt16(page[3])) }
        guard let known = ProtectionClass(rawValue: page[4]) else { throw .unknownClass }
        guard let suite = CipherSuite(rawValue: page[5]) else { throw .suite }
        guard page[6] == PageGeometry.blockLog2 else { throw .unsupported("block_log2") }
        guard page[7] == 0 else { throw .unsupported("compression") }
        let flags = FileFlags(rawValue: page.littleEndian(at: 8))
        guard flags.intersection(.incompatible).isSubset(of: .known) else { throw .unsupported("flags") }
        guard page.littleEndian(at: 12, as: UInt32.self) == 0 else { throw .unsupported("freshness") }
        if known != .completeUnlessOpen {
            guard page.littleEndian(at: 104, as: UInt64.self) == 0 else { throw .inconsistent("wrapped file key") }
        }
        self.init(
            protectionClass: known, suite: suite, flags: flags, keyGeneration: page.littleEndian(at: 10),
            fileID: ObjectID(page, at: 16))
        for index in 0..<Self.wrapLength { wrappedKey[index] = page[32 + index] }
        for index in 0..<16 { mac[index] = page[112 + index] }
    }

    /// Writes the 128 bytes, with `mac` unchanged, to the start of `page`.
    package func store(into page: inout MutableSpan<UInt8>) {
        storePrefix(into: &page, at: 0)
        page.copy(wrappedKey.span, to: 32)
        page.copy(mac.span, to: 112)
    }

    /// Writes bytes 0–31 at `offset`. With `forWrap`, flags and freshness are zero.
    package func storePrefix(into bytes: inout MutableSpan<UInt8>, at offset: Int, forWrap: Bool = false) {
        bytes.copyText("PFS", to: offset)
        bytes.storeLittleEndian(Self.version, at: offset + 3)
        bytes.storeLittleEndian(protectionClass.rawValue, at: offset + 4)
        bytes.storeLittleEndian(suite.rawValue, at: offset + 5)
        bytes.storeLittleEndian(PageGeometry.blockLog2, at: offset + 6)
        bytes.storeLittleEndian(0 as UInt8, at: offset + 7)
        bytes.storeLittleEndian(forWrap ? 0 : flags.rawValue, at: offset + 8)
        bytes.storeLittleEndian(keyGeneration, at: offset + 10)
        bytes.storeLittleEndian(0 as UInt32, at: offset + 12)
        fileID.store(into: &bytes, at: offset + 16)
    }
}

/// The field of a block: its payload length, whether it is the last block, and the epoch of the keys that sealed it.
package struct BlockField: Sendable, Hashable {
    /// Bytes of the field.
    package static let length = 8

    /// Bytes of payload. The rest of the ciphertext is zero padding.
    package var payloadLength: Int
    /// Whether the file ends in this block.
    package var isLast: Bool
    /// Part of the extent key.
    package var epoch: UInt32

    /// Makes a field. `payloadLength` is at most the block's capacity.
    package init(payloadLength: Int, isLast: Bool, epoch: UInt32) {
        self.payloadLength = payloadLength
        self.isLast = isLast
        self.epoch = epoch
    }

    /// The field at `offset`, for a block whose full payload is `capacity`.
    ///
    /// Throws if flags are unknown, the length is above capacity, or a block that is not the last is not full. The fields are
    /// valid only after the block's tag has verified. An error then means that a newer version has made the block.
    package init(parsing bytes: Span<UInt8>, at offset: Int = 0, capacity: Int) throws(FormatError) {
        guard offset >= 0, bytes.count - offset >= Self.length else { throw .length }
        let flags = bytes[offset + 2]
        guard flags <= 1, bytes[offset + 3] == 0 else { throw .unsupported("block flags") }
        payloadLength = Int(bytes.littleEndian(at: offset, as: UInt16.self))
        isLast = flags == 1
        epoch = bytes.littleEndian(at: offset + 4)
        guard payloadLength <= capacity, isLast || payloadLength == capacity else {
            throw .inconsistent("payload length")
        }
    }

    /// The epoch in a field that may not parse. The key of the block depends on it.
    package static func epoch(in bytes: Span<UInt8>, at offset: Int) -> UInt32 { bytes.littleEndian(at: offset + 4) }

    /// Writes the 8 bytes at `offset`.
    package func store(into bytes: inout MutableSpan<UInt8>, at offset: Int) {
        bytes.storeLittleEndian(UInt16(payloadLength), at: offset)
        bytes.storeLittleEndian(isLast ? 1 : 0 as UInt8, at: offset + 2)
        bytes.storeLittleEndian(0 as UInt8, at: offset + 3)
        bytes.storeLittleEndian(epoch, at: offset + 4)
    }
}
