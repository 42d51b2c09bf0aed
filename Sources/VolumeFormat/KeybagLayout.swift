// The keybag's bytes: header, slots, TLVs and the two MACs, parsed strictly.

/// The fields of a keybag's bytes. The caller checks both MACs.
package struct KeybagLayout: Sendable {
    /// The longest keybag.
    package static let maximumLength = 1 << 20
    /// Bytes before the first slot.
    package static let headerLength = 128
    /// Bytes of each MAC.
    package static let macLength = 32
    /// Flag bit 0: the volume has no device key.
    package static let noDeviceKey: UInt8 = 1
    /// The read-only compatible features that this program knows.
    package static let knownReadOnlyFeatures: UInt32 = 0
    /// TLV: the program that wrote the keybag last.
    package static let writerType: UInt16 = 1
    /// TLV: what vouches for the public key.
    package static let vouchType: UInt16 = 2

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
    /// Feature bits that a program must know to change the volume.
    package var readOnlyFeatures: UInt32
    /// The generations that new wraps use, by class number; 0 is M's.
    package var generations: InlineArray<8, UInt16>
    /// Class B's public key, of its generation above.
    package var publicKey: InlineArray<32, UInt8>
    /// The slots, in the order in which they are tried.
    package var slots: [KeybagSlot]
    /// The writer, and TLVs of types that this program does not know.
    package var extensions: TypeLengthValues
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
        readOnlyFeatures = 0
        generations = InlineArray(repeating: 0)
        slots = []
        extensions = TypeLengthValues()
        deviceMAC = InlineArray(repeating: 0)
        unlockMAC = InlineArray(repeating: 0)
    }

    /// The length of the keybag in bytes. A keybag longer than `maximumLength` cannot be read again.
    package var length: Int {
        slots.reduce(Self.headerLength + extensions.length + 2 * Self.macLength) { $0 + $1.length }
    }

    /// The range that the first MAC covers in a keybag of `length` bytes. The MAC follows it.
    package static func deviceAuthenticated(length: Int) -> Range<Int> { 0..<length - 64 }

    /// The range that the second MAC covers in a keybag of `length` bytes. The MAC follows it.
    package static func unlockAuthenticated(length: Int) -> Range<Int> { 0..<length - 32 }

    /// The features that this program must not change a volume with.
    package var unknownReadOnlyFeatures: UInt32 { readOnlyFeatures & ~Self.knownReadOnlyFeatures }

    /// The text of the TLV `writer`.
    package var writer: String? { WriterName.text(extensions[Self.writerType]) }

    /// What vouches for the public key. Nil if nothing does, or in a form that this program does not know.
    package var vouch: KeybagVouch? {
        get { extensions[Self.vouchType].flatMap { KeybagVouch($0.span) } }
        set { extensions[Self.vouchType] = newValue?.bytes }
    }

    /// The writer of a keybag of any version. The places of the TLVs and of the lengths are the same in all. Nothing has
    /// verified the text.
    package static func writer(of bytes: Span<UInt8>) -> String? {
        guard (headerLength + 2 * macLength...maximumLength).contains(bytes.count), bytes.hasText("PFSKBAG1"),
            bytes.littleEndian(at: 96, as: UInt32.self) == UInt32(bytes.count)
        else { return nil }
        let end = bytes.count - 2 * macLength
        let length = Int(bytes.littleEndian(at: 108, as: UInt32.self))
        guard length <= end - headerLength else { return nil }
        return WriterName.text(TypeLengthValues.value(of: writerType, in: bytes.extracting(end - length..<end)))
    }

    /// Parses a whole keybag. Every byte is checked, so that `serialized` gives the same bytes again.
    package init(parsing bytes: Span<UInt8>) throws(FormatError) {
        guard bytes.hasText("PFSKBAG1") else { throw .magic }
        guard bytes.count >= Self.headerLength + 2 * Self.macLength, bytes.count <= Self.maximumLength,
            bytes.littleEndian(at: 96, as: UInt32.self) == UInt32(bytes.count)
        else { throw .length }
        try Self.checkFixedFields(bytes)
        guard let suite = CipherSuite(rawValue: bytes[12]) else { throw .suite }
        self.init(
            suite: suite, hasNoDeviceKey: bytes[15] & Self.noDeviceKey != 0,
            volumeID: VolumeID(bytes, at: 16), publicKey: bytes.inline(at: 64))
        serial = bytes.littleEndian(at: 32)
        compatibleFeatures = bytes.littleEndian(at: 44)
        readOnlyFeatures = bytes.littleEndian(at: 104)
        for index in 0..<8 { generations[index] = bytes.littleEndian(at: 48 + 2 * index) }
        let end = bytes.count - 2 * Self.macLength
        let length = Int(bytes.littleEndian(at: 108, as: UInt32.self))
        guard length <= end - Self.headerLength else { throw .inconsistent("TLV bytes") }
        let values = bytes.extracting(end - length..<end)
        try parseSlots(bytes, end: end - length)
        extensions = try TypeLengthValues(parsing: values, known: [Self.writerType, Self.vouchType])
        deviceMAC = bytes.inline(at: end)
        unlockMAC = bytes.inline(at: end + Self.macLength)
    }

    /// Checks the fields that have one value in this version.
    private static func checkFixedFields(_ bytes: Span<UInt8>) throws(FormatError) {
        let version: UInt16 = bytes.littleEndian(at: 8)
        guard version == FormatVersion.current else { throw .version(version) }
        guard bytes.littleEndian(at: 10, as: UInt16.self) == UInt16(FileHeader.length) else {
            throw .unsupported("file-header length")
        }
        guard bytes[13] == PageGeometry.blockLog2 else { throw .unsupported("block_log2") }
        guard bytes[14] == 1 else { throw .unsupported("name scheme") }
        guard bytes[15] & ~noDeviceKey == 0 else { throw .unsupported("keybag flags") }
        guard bytes.littleEndian(at: 40, as: UInt32.self) == 0 else { throw .unsupported("incompatible features") }
        guard bytes.littleEndian(at: 102, as: UInt16.self) == 0, bytes.extracting(112..<128).isAllZero else {
            throw .unsupported("reserved bytes")
        }
    }

    private mutating func parseSlots(_ bytes: Span<UInt8>, end: Int) throws(FormatError) {
        var offset = Self.headerLength
        var numbers = Set<UInt32>()
        for _ in 0..<bytes.littleEndian(at: 100, as: UInt16.self) {
            let slot = try KeybagSlot(parsing: bytes, at: offset, end: end)
            guard numbers.insert(slot.slotID).inserted else { throw .inconsistent("slot ID") }
            slots.append(slot)
            offset += slot.length
        }
        guard offset == end else { throw .inconsistent("number of slots") }
    }

    /// The keybag's bytes, with the MACs unchanged.
    package func serialized() -> [UInt8] {
        var result = [UInt8](repeating: 0, count: length)
        let end = result.count
        var bytes = result.mutableSpan
        bytes.copyText("PFSKBAG1", to: 0)
        bytes.storeLittleEndian(FormatVersion.current, at: 8)
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
        bytes.storeLittleEndian(readOnlyFeatures, at: 104)
        bytes.storeLittleEndian(UInt32(truncatingIfNeeded: extensions.length), at: 108)
        var offset = Self.headerLength
        for slot in slots {
            slot.store(into: &bytes, at: offset)
            offset += slot.length
        }
        extensions.store(into: &bytes, at: offset)
        bytes.copy(deviceMAC.span, to: end - 64)
        bytes.copy(unlockMAC.span, to: end - 32)
        return result
    }
}
