// What an interrupted check has done, so that a later one can continue: the file `UUID.check` beside the state file.
//
// It has no names in plaintext: the position is a backing path, and files with findings are inode numbers.

internal import BackingStore
package import HostSystem
internal import KeyFiles
internal import ProtectedVolume
internal import SodiumKit
internal import VolumeFormat

/// How far a check has come. Everything before the position has been read, and its findings were reported.
struct CheckRecord: Equatable, Sendable {
    /// The limit of files with findings. Once there are more, the record does not advance.
    static let mostFindings = 65536
    /// The longest position. A record does not advance to a longer one.
    static let longestPosition = 1 << 16
    static let mostBytes = headerLength + longestPosition + 8 * mostFindings + hashLength
    private static let headerLength = 96
    private static let hashLength = 32
    /// Records of version 1 had hashes of paths for inode numbers.
    private static let version: UInt32 = 2

    var volumeID: VolumeID
    /// What both runs must have in common.
    var terms: CheckTerms
    /// Seconds since 1970, before the first content was read.
    var started: Int64
    /// Seconds since 1970 when the record was written.
    var written: Int64
    /// Everything before this place in the order of the walk is done.
    var position: WalkPlace
    /// The inodes of the files in whose content something was found: they are read again.
    var findings: Set<UInt64>

    init(_ volumeID: VolumeID, _ terms: CheckTerms, started: Int64) {
        self.volumeID = volumeID
        self.terms = terms
        self.started = started
        written = started
        position = .start
        findings = []
    }

    /// Nil for any other bytes than a whole record of this version.
    init?(parsing bytes: Span<UInt8>) {
        let end = bytes.count - Self.hashLength
        guard end >= Self.headerLength, bytes.count <= Self.mostBytes, bytes.hasText("PFSCHECK"),
            bytes.littleEndian(at: 8, as: UInt32.self) == Self.version
        else { return nil }
        let hash = hash256(bytes.extracting(0..<end))
        let place = Int(bytes.littleEndian(at: 80, as: UInt32.self))
        let count = Int(bytes.littleEndian(at: 84, as: UInt32.self))
        guard (0..<Self.hashLength).allSatisfy({ hash[$0] == bytes[end + $0] }),
            end == Self.headerLength + place + 8 * count
        else { return nil }
        volumeID = VolumeID(bytes, at: 16)
        terms = CheckTerms(
            options: bytes.littleEndian(at: 12), keys: bytes.littleEndian(at: 88),
            store: bytes.littleEndian(at: 48), state: bytes.littleEndian(at: 56))
        started = bytes.littleEndian(at: 32)
        written = bytes.littleEndian(at: 40)
        position = WalkPlace(path: (0..<place).map { bytes[Self.headerLength + $0] })
        findings = Set((0..<count).map { bytes.littleEndian(at: Self.headerLength + place + 8 * $0) })
    }

    func serialized() -> [UInt8] {
        let end = Self.headerLength + position.path.count + 8 * findings.count
        var result = [UInt8](repeating: 0, count: end + Self.hashLength)
        var bytes = result.mutableSpan
        bytes.copyText("PFSCHECK", to: 0)
        bytes.storeLittleEndian(Self.version, at: 8)
        bytes.storeLittleEndian(terms.options, at: 12)
        volumeID.store(into: &bytes, at: 16)
        bytes.storeLittleEndian(started, at: 32)
        bytes.storeLittleEndian(written, at: 40)
        bytes.storeLittleEndian(terms.store, at: 48)
        bytes.storeLittleEndian(terms.state, at: 56)
        bytes.storeLittleEndian(UInt32(position.path.count), at: 80)
        bytes.storeLittleEndian(UInt32(findings.count), at: 84)
        bytes.storeLittleEndian(terms.keys, at: 88)
        bytes.copy(position.path.span, to: Self.headerLength)
        for (index, inode) in findings.enumerated() {
            bytes.storeLittleEndian(inode, at: Self.headerLength + position.path.count + 8 * index)
        }
        let hash = hash256(bytes.span.extracting(0..<end))
        bytes.copy(hash.span, to: end)
        return result
    }
}

/// What two runs must have in common so that one can continue the other.
struct CheckTerms: Equatable, Sendable {
    /// What the run may change.
    var options: UInt32
    /// Which classes are open.
    var keys: UInt32
    /// The store: a hash.
    var store: UInt64
    /// The epochs in this machine's state file, and whether all crash damage is tolerated: a hash.
    var state: UInt64

    /// The first eight bytes of a hash.
    static func hash(_ bytes: [UInt8]) -> UInt64 {
        let hash = hash256(bytes.span)
        return hash.span.littleEndian(at: 0)
    }
}

/// A place in the order of the walk: a directory comes before its entries, and these are in the order of their bytes.
struct WalkPlace: Equatable, Sendable {
    /// Backing names, joined by `/`. A zero byte at the end means: behind everything below.
    let path: [UInt8]

    static let start = WalkPlace(path: [])
    /// Behind every name, because these have at most 255 bytes.
    static let end = WalkPlace(path: [UInt8](repeating: 0xFF, count: 256))

    /// The place behind an object and everything below it.
    static func behind(_ path: [UInt8]) -> WalkPlace { WalkPlace(path: path + [0]) }

    static func precedes(_ one: some Sequence<UInt8>, _ other: some Sequence<UInt8>) -> Bool {
        one.lexicographicallyPrecedes(other) { rank($0) < rank($1) }
    }

    func isBehind(_ other: WalkPlace) -> Bool { Self.precedes(other.path, path) }

    /// The end of a component comes before every byte of a name.
    private static func rank(_ byte: UInt8) -> Int { byte == UInt8(ascii: "/") ? 0 : Int(byte) + 1 }
}

/// What an interrupted check has done below a directory.
enum WalkedPart: Sendable {
    case none, all
    /// What precedes a place, given as names from this directory on.
    case before(ArraySlice<UInt8>)

    /// Whether it has done a file of this directory.
    func has(_ name: some Collection<UInt8>) -> Bool {
        switch self {
        case .none: false
        case .all: true
        case .before(let place): WalkPlace.precedes(name, place)
        }
    }

    /// What it has done below a directory of this one.
    func part(in name: some Collection<UInt8>) -> WalkedPart {
        guard case .before(let place) = self else { return self }
        let rest = place.dropFirst(name.count)
        guard rest.first == UInt8(ascii: "/"), place.starts(with: name) else { return has(name) ? .all : .none }
        return .before(rest.dropFirst())
    }
}

/// Why a check that was asked to continue an earlier one reads everything.
package enum CheckRestart: Error, Equatable, Sendable {
    /// There is no record of an interrupted check.
    case noRecord
    /// The record is damaged, or another version wrote it.
    case damaged
    /// The earlier check had other options.
    case otherOptions
    /// Other classes were open.
    case otherKeys
    /// The volume was mounted and written since then, or another check has ended.
    case changed
    /// It was another directory.
    case otherStore
    /// The clock is behind the time of the record.
    case clock
    /// This check cannot be recorded either.
    case unrecorded(CheckUnrecorded)
}

/// Why a check cannot be continued after an interruption.
package enum CheckUnrecorded: Error, Equatable, Sendable {
    /// This machine has no state file for the volume.
    case noState
    /// The store's type is not known to note every change of a file with this machine's clock.
    case store
    /// The clock went back during the check.
    case clock
    /// The record cannot be read or written.
    case file(Errno)
    /// A quick check is short, and is begun again.
    case quick
    /// What was read could not be made durable.
    case sync(Errno)
}

/// The file `UUID.check`, or `UUID.N.check` for the state file `UUID.N.state`.
struct CheckRecordFile: Sendable {
    private let directory: BackingDirectory
    private let name: EntryName

    init(_ states: StateFileStore) {
        directory = states.directory
        name = BackingName.known(Array("\(states.name.dropLast(".state".count)).check".utf8))
    }

    /// The bytes; nil if there is no file.
    func load() throws(Errno) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: CheckRecord.mostBytes + 1)
        do throws(Errno) {
            let file = try directory.openFile(name, .readOnly)
            var raw = bytes.mutableSpan
            let count = try file.read(into: &raw, at: 0)
            bytes.removeLast(bytes.count - count)
            return bytes
        } catch {
            if error == .ENOENT { return nil }
            throw error
        }
    }

    /// Replaces the file, durably.
    func save(_ bytes: [UInt8]) throws(Errno) {
        let temporary = BackingName.temporary()
        do throws(Errno) {
            let file = try directory.createFile(temporary, mode: 0o600)
            try file.write(bytes.span, at: 0)
            try file.synchronize(dataOnly: false)
            try directory.rename(temporary, to: directory, name)
        } catch {
            try? directory.unlink(temporary)
            throw error
        }
        try directory.synchronize()
    }

    func remove() { try? directory.unlink(name) }
}
