// The state file's bytes: what this machine has seen of a volume, and the epochs that are open.

/// The file `UUID.state` beside the device key. Nothing in it is secret; it is believed because it lies outside the volume.
public struct StateFileLayout: Sendable {
    /// Bytes before the epochs.
    public static let fixedLength = 104
    /// The most epochs that are kept; more set `toleratesEverything`.
    public static let maximumEpochs = 4096
    /// The version that this program reads and writes.
    public static let version: UInt16 = 1
    /// Flag bit 0: crash damage is tolerated in every file until a complete `fsck`.
    public static let tolerateEverything: UInt32 = 1

    /// The volume.
    public var volumeID: VolumeID
    /// Highest serial of the keybag seen.
    public var serial: UInt64
    /// Class B's public key.
    public var publicKey: InlineArray<32, UInt8>
    /// The keybag's unlock MAC at that serial.
    public var unlockMAC: InlineArray<32, UInt8>
    /// Whether crash damage is tolerated in every file: the state file was missing before, or had too many epochs.
    public var toleratesEverything: Bool
    /// Epochs that are open: one of a living mount, others of mounts that ended badly.
    public var openEpochs: [UInt32]

    /// A state with no open epochs.
    public init(
        volumeID: VolumeID, serial: UInt64, publicKey: InlineArray<32, UInt8>, unlockMAC: InlineArray<32, UInt8>,
        toleratesEverything: Bool
    ) {
        self.volumeID = volumeID
        self.serial = serial
        self.publicKey = publicKey
        self.unlockMAC = unlockMAC
        self.toleratesEverything = toleratesEverything
        openEpochs = []
    }

    /// Understands a whole state file; every byte is checked, so that `serialized` gives the same bytes again.
    public init(parsing bytes: RawSpan) throws(FormatError) {
        guard bytes.hasText("PFSSTAT1") else { throw .magic }
        guard bytes.byteCount >= Self.fixedLength else { throw .length }
        let version: UInt16 = bytes.littleEndian(at: 8)
        guard version == Self.version else { throw .version(version) }
        let count = Int(bytes.littleEndian(at: 10, as: UInt16.self))
        guard count <= Self.maximumEpochs, bytes.byteCount == Self.fixedLength + 4 * count else { throw .length }
        let flags: UInt32 = bytes.littleEndian(at: 12)
        guard flags & ~Self.tolerateEverything == 0 else { throw .unsupported("state flags") }
        self.init(
            volumeID: VolumeID(bytes, at: 16), serial: bytes.littleEndian(at: 32), publicKey: bytes.inline(at: 40),
            unlockMAC: bytes.inline(at: 72), toleratesEverything: flags & Self.tolerateEverything != 0)
        for index in 0..<count { openEpochs.append(bytes.littleEndian(at: Self.fixedLength + 4 * index)) }
    }

    /// The state file's bytes; epochs above `maximumEpochs` are left out and `toleratesEverything` is set instead.
    public func serialized() -> [UInt8] {
        let kept = openEpochs.suffix(Self.maximumEpochs)
        let tolerates = toleratesEverything || kept.count < openEpochs.count
        var result = [UInt8](repeating: 0, count: Self.fixedLength + 4 * kept.count)
        var span = result.mutableSpan
        var bytes = unsafe span.mutableBytes
        bytes.copyText("PFSSTAT1", to: 0)
        bytes.storeLittleEndian(Self.version, at: 8)
        bytes.storeLittleEndian(UInt16(kept.count), at: 10)
        bytes.storeLittleEndian(tolerates ? Self.tolerateEverything : 0, at: 12)
        volumeID.store(into: &bytes, at: 16)
        bytes.storeLittleEndian(serial, at: 32)
        bytes.copy(unsafe publicKey.span.bytes, to: 40)
        bytes.copy(unsafe unlockMAC.span.bytes, to: 72)
        for (index, epoch) in kept.enumerated() {
            bytes.storeLittleEndian(epoch, at: Self.fixedLength + 4 * index)
        }
        return result
    }
}
