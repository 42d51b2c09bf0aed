// The state file's bytes: this machine's record of a volume, and the open epochs (docs/judge/volume-format.md, section 4.1).

/// The file `UUID.state` beside the device key. None of it is secret. It is trusted because it is outside the volume.
///
/// The hash at the end is the caller's: this module has no cryptography.
package struct StateFileLayout: Sendable {
    /// Bytes of the header in this version. A newer program may have written more; these are kept.
    package static let headerLength = 128
    /// Bytes of the hash at the end.
    package static let hashLength = 32
    /// Bytes that every version has: magic, version, both lengths, UUID and hash.
    package static let leastLength = 64
    /// The longest state file.
    package static let maximumLength = 1 << 20
    /// The largest number of kept epochs. More than these set `toleratesEverything`.
    package static let maximumEpochs = 4096
    /// The largest number of kept locks.
    package static let maximumLocks = 64
    /// Flag bit 0: crash damage is tolerated in every file until a complete `fsck`.
    package static let tolerateEverything: UInt32 = 1
    /// Flag bit 1: no keybag has been verified here yet. Serial, public key and MAC are zero and have no meaning.
    package static let hasNothingPinned: UInt32 = 2

    /// The types of TLVs.
    package enum Value {
        /// The program that wrote the file last.
        package static let writer: UInt16 = 1
        /// Epochs of sessions that have not ended, or ended badly.
        package static let openEpochs: UInt16 = 2
        /// Locks whose late writes may not all be in their files yet.
        package static let openLocks: UInt16 = 3
        /// The directory in which this machine saw the volume.
        package static let store: UInt16 = 4
        /// The keys in use.
        package static let keys: UInt16 = 5
        static let all = [writer, openEpochs, openLocks, store, keys]
    }

    /// The keys that the pinned keybag has in use.
    package struct Keys: Sendable {
        /// Bytes of the value.
        package static let length = 16 + 32
        /// The generations that new wraps use, by class number.
        package var generations: InlineArray<8, UInt16>
        /// The Ed25519 public key that vouches for the next public key. Zeros if none does.
        package var voucher: InlineArray<32, UInt8>

        /// The keys of a keybag.
        package init(generations: InlineArray<8, UInt16>, voucher: InlineArray<32, UInt8>) {
            self.generations = generations
            self.voucher = voucher
        }
    }

    /// A lock with late records that are not in their files yet.
    package struct OpenLock: Sendable, Equatable {
        /// Bytes of an entry.
        package static let length = 16
        /// The lock's number.
        package var number: UInt64
        /// Used as the count if all records are used and the late file is being removed.
        package static let isUsed: UInt32 = .max
        /// Durable records of kind `done` in its late file, or `isUsed`.
        package var done: UInt32

        /// An entry.
        package init(number: UInt64, done: UInt32 = 0) {
            self.number = number
            self.done = done
        }
    }

    /// The volume.
    package var volumeID: VolumeID
    /// Whether a keybag has been verified here. If not, the next three fields have no meaning and are written as zero.
    package var isPinned: Bool
    /// Highest serial of the keybag seen.
    package var serial: UInt64
    /// Class B's public key.
    package var publicKey: InlineArray<32, UInt8>
    /// The keybag's unlock MAC at that serial.
    package var unlockMAC: InlineArray<32, UInt8>
    /// Read-only compatible features. This program knows none: with one of them, the file must not be written.
    package var readOnlyCompatible: UInt32 = 0
    /// Compatible features, which are kept.
    package var compatible: UInt32 = 0
    /// Whether crash damage is tolerated in every file: the state file was missing before, or had too many epochs.
    package var toleratesEverything: Bool
    /// The flags that this program does not know, which are kept.
    package var otherFlags: UInt32 = 0
    /// The highest epoch that was ever listed, or 0.
    package private(set) var highestEpoch: UInt32 = 0
    /// The header's bytes that this program does not know, which are kept.
    package var rest: [UInt8] = []
    /// The open epochs: one of a running mount, and those of mounts that ended badly.
    package var openEpochs: [UInt32] {
        didSet { highestEpoch = max(highestEpoch, openEpochs.max() ?? 0) }
    }
    /// Locks with late records that are not in their files yet, in ascending order of their numbers.
    package var openLocks: [OpenLock]
    /// The store of this state file. Nil if it is not known.
    package var store: Store?
    /// The keys of the pinned keybag. Nil if an older program has pinned it.
    package var keys: Keys?
    /// The program that wrote the bytes last. Nil if they do not say it as text; what they say instead is kept.
    package var writer: String?
    /// The hash over every byte before it.
    package var hash = InlineArray<32, UInt8>(repeating: 0)
    /// All TLVs as they were read: the unknown ones, and the places of the others.
    private var values = TypeLengthValues()

    /// A state with no open epochs.
    package init(
        volumeID: VolumeID, serial: UInt64, publicKey: InlineArray<32, UInt8>, unlockMAC: InlineArray<32, UInt8>,
        toleratesEverything: Bool
    ) {
        self.volumeID = volumeID
        isPinned = true
        self.serial = serial
        self.publicKey = publicKey
        self.unlockMAC = unlockMAC
        self.toleratesEverything = toleratesEverything
        openEpochs = []
        openLocks = []
    }

    /// A state that pins nothing, with no open epochs.
    ///
    /// - Parameter highestEpoch: the highest epoch that was drawn for another store of the volume; 0: none.
    package init(unpinned volumeID: VolumeID, toleratesEverything: Bool, highestEpoch: UInt32 = 0) {
        self.init(
            volumeID: volumeID, serial: 0, publicKey: InlineArray(repeating: 0), unlockMAC: InlineArray(repeating: 0),
            toleratesEverything: toleratesEverything)
        isPinned = false
        self.highestEpoch = highestEpoch
    }

    /// Parses a whole state file, whose hash the caller has verified. Every byte is checked or kept, so that `serialized` gives
    /// the same bytes again.
    package init(parsing bytes: Span<UInt8>) throws(FormatError) {
        guard bytes.hasText("PFSSTAT1") else { throw .magic }
        guard (Self.leastLength...Self.maximumLength).contains(bytes.count) else { throw .length }
        let version: UInt16 = bytes.littleEndian(at: 8)
        guard version == FormatVersion.current else { throw .version(version) }
        guard bytes.count >= Self.headerLength + Self.hashLength,
            bytes.littleEndian(at: 12, as: UInt32.self) == UInt32(bytes.count)
        else { throw .length }
        let (header, end) = (Int(bytes.littleEndian(at: 10, as: UInt16.self)), bytes.count - Self.hashLength)
        guard (Self.headerLength...end).contains(header) else { throw .inconsistent("length of the header") }
        guard bytes.littleEndian(at: 104, as: UInt32.self) == 0 else { throw .unsupported("incompatible features") }
        guard bytes.littleEndian(at: 124, as: UInt32.self) == 0 else { throw .unsupported("reserved bytes") }
        let flags: UInt32 = bytes.littleEndian(at: 116)
        self.init(
            volumeID: VolumeID(bytes, at: 16), serial: bytes.littleEndian(at: 32), publicKey: bytes.inline(at: 40),
            unlockMAC: bytes.inline(at: 72), toleratesEverything: flags & Self.tolerateEverything != 0)
        isPinned = flags & Self.hasNothingPinned == 0
        guard isPinned || bytes.extracting(32..<104).isAllZero else { throw .inconsistent("pins") }
        otherFlags = flags & ~(Self.tolerateEverything | Self.hasNothingPinned)
        readOnlyCompatible = bytes.littleEndian(at: 108)
        compatible = bytes.littleEndian(at: 112)
        rest = bytes.extracting(Self.headerLength..<header).copiedBytes()
        values = try TypeLengthValues(parsing: bytes.extracting(header..<end), known: Value.all)
        // A writer of another form is kept, and not shown.
        writer = WriterName.text(values[Value.writer])
        if let value = values[Value.openEpochs] { openEpochs = try Self.epochs(in: value.span) }
        if let value = values[Value.openLocks] { openLocks = try Self.locks(in: value.span) }
        if let value = values[Value.store] { store = try Store(value.span) }
        if let value = values[Value.keys] { keys = try Self.keys(in: value.span) }
        let highest: UInt32 = bytes.littleEndian(at: 120)
        guard highest >= openEpochs.max() ?? 0 else { throw .inconsistent("highest epoch") }
        highestEpoch = highest
        hash = bytes.inline(at: end)
    }

    /// The state file's bytes. Epochs above `maximumEpochs` are left out and `toleratesEverything` is set instead. The caller
    /// keeps the locks in order, and below `maximumLocks`, and sets the hash.
    package func serialized() -> [UInt8] {
        let kept = openEpochs.suffix(Self.maximumEpochs)
        let tolerates = toleratesEverything || kept.count < openEpochs.count
        var values = values
        if let writer { values[Value.writer] = Array(writer.utf8) }
        values[Value.openEpochs] = Self.bytes(of: kept)
        values[Value.openLocks] = Self.bytes(of: openLocks)
        values[Value.store] = store?.bytes
        values[Value.keys] = keys.map(Self.bytes)
        let header = Self.headerLength + rest.count
        let end = header + values.length
        var result = [UInt8](repeating: 0, count: end + Self.hashLength)
        var bytes = result.mutableSpan
        bytes.copyText("PFSSTAT1", to: 0)
        bytes.storeLittleEndian(FormatVersion.current, at: 8)
        bytes.storeLittleEndian(UInt16(header), at: 10)
        bytes.storeLittleEndian(UInt32(bytes.count), at: 12)
        volumeID.store(into: &bytes, at: 16)
        if isPinned {
            bytes.storeLittleEndian(serial, at: 32)
            bytes.copy(publicKey.span, to: 40)
            bytes.copy(unlockMAC.span, to: 72)
        }
        bytes.storeLittleEndian(readOnlyCompatible, at: 108)
        bytes.storeLittleEndian(compatible, at: 112)
        let flags = (tolerates ? Self.tolerateEverything : 0) | (isPinned ? 0 : Self.hasNothingPinned) | otherFlags
        bytes.storeLittleEndian(flags, at: 116)
        bytes.storeLittleEndian(highestEpoch, at: 120)
        bytes.copy(rest.span, to: Self.headerLength)
        values.store(into: &bytes, at: header)
        bytes.copy(hash.span, to: end)
        return result
    }

    /// The writer of a state file that cannot be parsed, because a newer program made it. Nil if it does not say that.
    package static func writer(ofNewer bytes: Span<UInt8>) -> String? {
        WriterName.text(value(of: Value.writer, ofNewer: bytes))
    }

    /// The store of such a state file. Nil if it does not say that.
    package static func store(ofNewer bytes: Span<UInt8>) -> Store? {
        value(of: Value.store, ofNewer: bytes).flatMap { try? Store($0.span) }
    }

    private static func value(of type: UInt16, ofNewer bytes: Span<UInt8>) -> [UInt8]? {
        guard bytes.count >= leastLength else { return nil }
        let (start, end) = (Int(bytes.littleEndian(at: 10, as: UInt16.self)), bytes.count - hashLength)
        guard start <= end else { return nil }
        return TypeLengthValues.value(of: type, in: bytes.extracting(start..<end))
    }
}
