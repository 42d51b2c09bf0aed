// The keybag's bytes: header, slots, TLVs and the two MACs, parsed strictly.

/// The fields of a keybag's bytes. The caller checks both MACs.
package struct KeybagLayout: Sendable {
    /// The longest keybag.
    package static let maximumLength = 65536
    /// Bytes before the first slot.
    package static let headerLength = 128
    /// Bytes of each MAC.
    package static let macLength = 32
    /// The version that this program reads and writes.
    package static let version: UInt16 = 1
    /// Flag bit 0: the volume has no device key.
    package static let noDeviceKey: UInt8 = 1

    /// The volume's cipher suite.
    package var suite: CipherSuite
    /// Whether the volume has no device key (and so no state before first unlock).
    package var hasNoDeviceKey: Bool
    /// The volume's UUID.
    package var volumeID: VolumeID
    /// Raised by every change.
    package var serial: UInt64
    /// Feature bits that a program may ignore. They are kept.
    package var compatibleFeatures: UInt32
    /// Generations by class number; 0 is M's.
    package var generations: InlineArray<8, UInt16>
    /// Class B's public key.
    package var publicKey: InlineArray<32, UInt8>
    /// The slots.
    package var slots: [SlotLayout]
    /// Type-length-value entries, kept unchanged as a whole.
    package var extensions: [UInt8]
    /// MAC-256 "keybag-dev" over all bytes before it. The caller sets it after `serialized`; see `deviceMACRange`.
    package var deviceMAC: InlineArray<32, UInt8>
    /// MAC-256 "keybag-unlock" over all bytes before it, including `deviceMAC`.
    package var unlockMAC: InlineArray<32, UInt8>

    /// A keybag without slots and MACs, to be filled in.
    package init(suite: CipherSuite, hasNoDeviceKey: Bool, volumeID: VolumeID, publicKey: InlineArray<32, UInt8>) {
        self.suite = suite
        self.hasNoDeviceKey = hasNoDeviceKey
        self.volumeID = volumeID
        self.publicKey = publicKey
        serial = 1
        compatibleFeatures = 0
        generations = InlineArray(repeating: 0)
        slots = []
        extensions = []
        deviceMAC = InlineArray(repeating: 0)
        unlockMAC = InlineArray(repeating: 0)
    }

    /// The length of the keybag in bytes. A keybag longer than `maximumLength` cannot be read again.
    package var length: Int {
        slots.reduce(Self.headerLength + extensions.count + 2 * Self.macLength) { $0 + $1.length }
    }

    /// The range that the first MAC covers in a keybag of `length` bytes. The MAC follows it.
    package static func deviceAuthenticated(length: Int) -> Range<Int> { 0..<length - 64 }

    /// The range that the second MAC covers in a keybag of `length` bytes. The MAC follows it.
    package static func unlockAuthenticated(length: Int) -> Range<Int> { 0..<length - 32 }

    /// Parses a whole keybag. Every byte is checked, so that `serialized` gives the same bytes again.
    package init(parsing bytes: Span<UInt8>) throws(FormatError) {
        guard bytes.hasText("PFSKBAG1") else { throw .magic }
        guard bytes.count >= Self.headerLength + 2 * Self.macLength, bytes.count <= Self.maximumLength else {
            throw .length
        }
        let version: UInt16 = bytes.littleEndian(at: 8)
        guard version == Self.version else { throw .version(version) }
        guard bytes.littleEndian(at: 10, as: UInt16.self) == UInt16(FileHeader.length) else {
            throw .unsupported("file-header length")
        }
        guard let suite = CipherSuite(rawValue: bytes[12]) else { throw .suite }
        guard bytes[13] == PageGeometry.blockLog2 else { throw .unsupported("block_log2") }
        guard bytes[14] == 1 else { throw .unsupported("name scheme") }
        guard bytes[15] & ~Self.noDeviceKey == 0 else { throw .unsupported("keybag flags") }
        guard bytes.littleEndian(at: 40, as: UInt32.self) == 0 else { throw .unsupported("incompatible features") }
        guard bytes.littleEndian(at: 96, as: UInt32.self) == UInt32(bytes.count) else { throw .length }
        guard bytes.extracting(104..<128).isAllZero else { throw .unsupported("reserved bytes") }
        self.init(
            suite: suite, hasNoDeviceKey: bytes[15] & Self.noDeviceKey != 0,
            volumeID: VolumeID(bytes, at: 16), publicKey: bytes.inline(at: 64))
        serial = bytes.littleEndian(at: 32)
        compatibleFeatures = bytes.littleEndian(at: 44)
        for index in 0..<8 { generations[index] = bytes.littleEndian(at: 48 + 2 * index) }
        let end = bytes.count - 2 * Self.macLength
        var offset = Self.headerLength
        for _ in 0..<bytes.littleEndian(at: 100, as: UInt16.self) {
            let slot = try SlotLayout(parsing: bytes, at: offset, end: end)
            guard slots.allSatisfy({ $0.slotID != slot.slotID }) else { throw .inconsistent("slot ID") }
            slots.append(slot)
            offset += slot.length
        }
        guard Int(bytes.littleEndian(at: 102, as: UInt16.self)) == end - offset else {
            throw .inconsistent("TLV bytes")
        }
        try Self.checkExtensions(bytes.extracting(offset..<end))
        extensions = bytes.extracting(offset..<end).copiedBytes()
        deviceMAC = bytes.inline(at: end)
        unlockMAC = bytes.inline(at: end + Self.macLength)
    }

    /// The keybag's bytes, with the MACs unchanged.
    package func serialized() -> [UInt8] {
        var result = [UInt8](repeating: 0, count: length)
        let end = result.count
        var bytes = result.mutableSpan
        bytes.copyText("PFSKBAG1", to: 0)
        bytes.storeLittleEndian(Self.version, at: 8)
        bytes.storeLittleEndian(UInt16(FileHeader.length), at: 10)
        bytes.storeLittleEndian(suite.rawValue, at: 12)
        bytes.storeLittleEndian(PageGeometry.blockLog2, at: 13)
        bytes.storeLittleEndian(1 as UInt8, at: 14)
        bytes.storeLittleEndian(hasNoDeviceKey ? Self.noDeviceKey : 0, at: 15)
        volumeID.store(into: &bytes, at: 16)
        bytes.storeLittleEndian(serial, at: 32)
        bytes.storeLittleEndian(compatibleFeatures, at: 44)
        for index in 0..<8 { bytes.storeLittleEndian(generations[index], at: 48 + 2 * index) }
        bytes.copy(publicKey.span, to: 64)
        bytes.storeLittleEndian(UInt32(truncatingIfNeeded: end), at: 96)
        bytes.storeLittleEndian(UInt16(truncatingIfNeeded: slots.count), at: 100)
        bytes.storeLittleEndian(UInt16(truncatingIfNeeded: extensions.count), at: 102)
        var offset = Self.headerLength
        for slot in slots {
            slot.store(into: &bytes, at: offset)
            offset += slot.length
        }
        bytes.copy(extensions.span, to: offset)
        bytes.copy(deviceMAC.span, to: end - 64)
        bytes.copy(unlockMAC.span, to: end - 32)
        return result
    }

    private static func checkExtensions(_ bytes: Span<UInt8>) throws(FormatError) {
        var offset = 0
        while offset < bytes.count {
            guard bytes.count - offset >= 4 else { throw .inconsistent("TLV") }
            let length = Int(bytes.littleEndian(at: offset + 2, as: UInt16.self))
            guard bytes.count - offset - 4 >= length else { throw .inconsistent("TLV") }
            offset += 4 + length
        }
    }
}
