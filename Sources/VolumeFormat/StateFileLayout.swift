// The state file's bytes: this machine's record of a volume, and the open epochs.

/// The file `UUID.state` beside the device key. None of it is secret. It is trusted because it is outside the volume.
package struct StateFileLayout: Sendable {
    /// Bytes before the epochs.
    package static let fixedLength = 104
    /// The largest number of kept epochs. More than these set `toleratesEverything`.
    package static let maximumEpochs = 4096
    /// The version that this program reads and writes.
    package static let version: UInt16 = 1
    /// Flag bit 0: crash damage is tolerated in every file until a complete `fsck`.
    package static let tolerateEverything: UInt32 = 1
    /// Flag bit 1: open locks follow the epochs.
    package static let hasOpenLocks: UInt32 = 2
    /// Flag bit 2: no keybag has been verified here yet. Serial, public key and MAC are zero and have no meaning.
    package static let hasNothingPinned: UInt32 = 4
    /// Flag bit 3: the state file's store follows the open locks.
    package static let hasStore: UInt32 = 8
    /// The largest number of kept locks.
    package static let maximumLocks = 64
    /// The longest state file.
    package static let maximumLength =
        fixedLength + 4 * maximumEpochs + 4 + OpenLock.length * maximumLocks + Store.fixedLength + Store.maximumPath

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
    /// Whether crash damage is tolerated in every file: the state file was missing before, or had too many epochs.
    package var toleratesEverything: Bool
    /// The open epochs: one of a running mount, and those of mounts that ended badly.
    package var openEpochs: [UInt32]
    /// Locks with late records that are not in their files yet, in ascending order of their numbers.
    package var openLocks: [OpenLock]
    /// The store of this state file. Nil if it is not known.
    package var store: Store?

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
    package init(unpinned volumeID: VolumeID, toleratesEverything: Bool) {
        self.init(
            volumeID: volumeID, serial: 0, publicKey: InlineArray(repeating: 0), unlockMAC: InlineArray(repeating: 0),
            toleratesEverything: toleratesEverything)
        isPinned = false
    }

    /// Parses a whole state file. Every byte is checked, so that `serialized` gives the same bytes again.
    package init(parsing bytes: Span<UInt8>) throws(FormatError) {
        guard bytes.hasText("PFSSTAT1") else { throw .magic }
        guard bytes.count >= Self.fixedLength else { throw .length }
        let version: UInt16 = bytes.littleEndian(at: 8)
        guard version == Self.version else { throw .version(version) }
        let count = Int(bytes.littleEndian(at: 10, as: UInt16.self))
        let end = Self.fixedLength + 4 * count
        let flags: UInt32 = bytes.littleEndian(at: 12)
        let known = Self.tolerateEverything | Self.hasOpenLocks | Self.hasNothingPinned | Self.hasStore
        guard flags & ~known == 0 else { throw .unsupported("state flags") }
        guard count <= Self.maximumEpochs else { throw .length }
        self.init(
            volumeID: VolumeID(bytes, at: 16), serial: bytes.littleEndian(at: 32), publicKey: bytes.inline(at: 40),
            unlockMAC: bytes.inline(at: 72), toleratesEverything: flags & Self.tolerateEverything != 0)
        isPinned = flags & Self.hasNothingPinned == 0
        guard isPinned || bytes.extracting(32..<Self.fixedLength).isAllZero else { throw .inconsistent("pins") }
        var rest = end
        if flags & Self.hasOpenLocks != 0 {
            openLocks = try Self.locks(in: bytes, at: end)
            rest += 4 + OpenLock.length * openLocks.count
        }
        if flags & Self.hasStore != 0 {
            let found = try Store(bytes, at: rest)
            rest += found.length
            store = found
        }
        guard bytes.count == rest else { throw .length }
        for index in 0..<count { openEpochs.append(bytes.littleEndian(at: Self.fixedLength + 4 * index)) }
    }

    private static func locks(in bytes: Span<UInt8>, at offset: Int) throws(FormatError) -> [OpenLock] {
        guard bytes.count >= offset + 4 else { throw .length }
        let count = Int(bytes.littleEndian(at: offset, as: UInt32.self))
        guard (1...maximumLocks).contains(count), bytes.count >= offset + 4 + OpenLock.length * count else {
            throw .length
        }
        var result: [OpenLock] = []
        for index in 0..<count {
            let start = offset + 4 + OpenLock.length * index
            let number: UInt64 = bytes.littleEndian(at: start)
            guard bytes.littleEndian(at: start + 12, as: UInt32.self) == 0 else { throw .unsupported("reserved bytes") }
            if let last = result.last, number <= last.number { throw .unsupported("order of locks") }
            result.append(OpenLock(number: number, done: bytes.littleEndian(at: start + 8)))
        }
        return result
    }

    /// The state file's bytes. Epochs above `maximumEpochs` are left out and `toleratesEverything` is set instead. The caller
    /// keeps the locks in order, and below `maximumLocks`.
    package func serialized() -> [UInt8] {
        let kept = openEpochs.suffix(Self.maximumEpochs)
        let tolerates = toleratesEverything || kept.count < openEpochs.count
        let end = Self.fixedLength + 4 * kept.count
        let locks = openLocks.isEmpty ? 0 : 4 + OpenLock.length * openLocks.count
        var result = [UInt8](repeating: 0, count: end + locks + (store?.length ?? 0))
        var bytes = result.mutableSpan
        bytes.copyText("PFSSTAT1", to: 0)
        bytes.storeLittleEndian(Self.version, at: 8)
        bytes.storeLittleEndian(UInt16(kept.count), at: 10)
        let flags =
            (tolerates ? Self.tolerateEverything : 0) | (openLocks.isEmpty ? 0 : Self.hasOpenLocks)
            | (isPinned ? 0 : Self.hasNothingPinned) | (store == nil ? 0 : Self.hasStore)
        bytes.storeLittleEndian(flags, at: 12)
        volumeID.store(into: &bytes, at: 16)
        if isPinned {
            bytes.storeLittleEndian(serial, at: 32)
            bytes.copy(publicKey.span, to: 40)
            bytes.copy(unlockMAC.span, to: 72)
        }
        for (index, epoch) in kept.enumerated() {
            bytes.storeLittleEndian(epoch, at: Self.fixedLength + 4 * index)
        }
        if !openLocks.isEmpty { bytes.storeLittleEndian(UInt32(openLocks.count), at: end) }
        for (index, lock) in openLocks.enumerated() {
            let start = end + 4 + OpenLock.length * index
            bytes.storeLittleEndian(lock.number, at: start)
            bytes.storeLittleEndian(lock.done, at: start + 8)
        }
        store?.store(into: &bytes, at: end + locks)
        return result
    }
}
