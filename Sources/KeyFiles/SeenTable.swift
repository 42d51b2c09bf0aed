// The bytes of a table of seen versions, beside the state file (docs/judge/volume-format.md, section 4.3).

internal import VolumeFormat

/// What a table says: for files, named by eight bytes of their IDs, the highest version that this machine has seen.
///
/// A header, then entries of 16 bytes. The last entry of a file counts; one of version 0 removes it. Each entry has a check that
/// is bound to its place, so that one that a power cut has torn or left out is passed over: the table then knows less.
struct SeenTable: Sendable {
    /// The most files that a table names. Further ones are not known.
    static let most = 1 << 21
    static let headerLength = 32
    static let entryLength = 16
    /// A table is written anew long before it has this length.
    static let greatestLength = headerLength + 4 * most * entryLength
    private static let magic = Array("PFSSEEN1".utf8)

    /// The versions by file.
    private(set) var versions = VersionMap()
    /// The number of entries in the file, those that are torn too.
    private(set) var entries = 0
    /// How many entries begin the file in ascending order, as one that was written anew has them.
    private var (ascending, last): (Int, UInt64) = (0, 0)
    /// Whether an entry before the last one is damaged. A power cut tears the last ones only.
    private(set) var isDamaged = false
    /// Whether the last entries are torn, so that the file must be written anew before something is appended.
    private(set) var isTorn = false

    /// A file's name in the table. IDs are random, so no two files of a volume have the same one.
    static func key(of file: ObjectID) -> UInt64 {
        let bytes = file.bytes
        return bytes.span.littleEndian(at: 0)
    }

    /// Whether so many entries, with `more`, come after the ascending ones that the file is to be written anew: it has become long,
    /// or slow to read.
    func isWasteful(with more: Int) -> Bool { entries - ascending + more > versions.count / 4 + 4096 }

    /// The first bytes of a table of `volume`.
    static func header(of volume: VolumeID) -> [UInt8] {
        var bytes = magic + [UInt8](repeating: 0, count: headerLength - magic.count)
        var raw = bytes.mutableSpan
        raw.storeLittleEndian(FormatVersion.current, at: 8)
        volume.store(into: &raw, at: 16)
        return bytes
    }

    /// Appends the bytes of an entry.
    static func append(_ key: UInt64, _ version: UInt32, index: Int, to bytes: inout [UInt8]) {
        let start = bytes.count
        bytes.append(contentsOf: repeatElement(0, count: entryLength))
        var raw = bytes.mutableSpan
        raw.storeLittleEndian(key, at: start)
        raw.storeLittleEndian(version, at: start + 8)
        raw.storeLittleEndian(check(key, version, index), at: start + 12)
    }

    /// Takes in the next bytes of a file, which are whole entries but for the last one of the file.
    mutating func take(_ bytes: Span<UInt8>) {
        var offset = 0
        while offset < bytes.count {
            defer {
                offset += Self.entryLength
                entries += 1
            }
            guard offset + Self.entryLength <= bytes.count else {
                isTorn = true
                return
            }
            let (key, version): (UInt64, UInt32) = (
                bytes.littleEndian(at: offset), bytes.littleEndian(at: offset + 8)
            )
            guard bytes.littleEndian(at: offset + 12) == Self.check(key, version, entries) else {
                isTorn = true
                continue
            }
            if isTorn { isDamaged = true }
            if ascending == entries, version != 0, key > last || entries == 0 { (ascending, last) = (entries + 1, key) }
            set(key, version)
        }
    }

    /// Sets a version; 0 removes it.
    /// - Returns: false if there is no room.
    @discardableResult
    mutating func set(_ key: UInt64, _ version: UInt32) -> Bool {
        guard version == 0 || versions.count < Self.most || versions[key] != 0 else { return false }
        versions[key] = version
        return true
    }

    /// Makes room for what a file of this length says.
    mutating func reserve(length: UInt64) { versions.reserve(min(Int(length) / Self.entryLength, Self.most)) }

    /// Entries were appended to the file.
    mutating func appended(_ count: Int) { entries += count }

    /// The file was written anew, in ascending order.
    mutating func wroteAnew() {
        (entries, ascending) = (versions.count, versions.count)
        (isDamaged, isTorn) = (false, false)
    }

    /// Notices what a crash leaves, and an accident. It proves nothing: the table is in the user's own directory.
    private static func check(_ key: UInt64, _ version: UInt32, _ index: Int) -> UInt32 {
        var mixed = key &+ (UInt64(version) << 32 | UInt64(UInt32(truncatingIfNeeded: index))) &* 0x9E37_79B9_7F4A_7C15
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        // An entry of zeros is none.
        return UInt32(truncatingIfNeeded: mixed ^ (mixed >> 31)) | 1
    }
}
