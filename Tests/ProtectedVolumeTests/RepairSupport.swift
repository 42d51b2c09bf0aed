// A volume with every kind of damage that repair knows, and the test that nothing of it is lost.

@testable import MemoryStore
import BackingStore
import KeyFiles
import Keybag
import HostSystem
import Testing
import VolumeFormat

@testable import ProtectedVolume
@testable import VolumeCheck

/// The result of one check with repair.
struct RepairOutcome: Sendable {
    let summary: CheckSummary
    let findings: [Finding]
    let repairs: [Repair]
    var kinds: [String] { findings.map(\.kind.rawValue).sorted() }
    var actions: [String] { repairs.map(\.action.rawValue).sorted() }
}

extension TestVolume {
    /// Checks and repairs the volume in `directory`, or its own.
    func repair(
        in directory: BackingDirectory? = nil, repairs isRepairing: Bool = true, quarantines: Bool = false,
        threads: Int = 1, confirmed: [String] = [], mayGoOn: @escaping @Sendable () -> Bool = { true }
    ) throws -> RepairOutcome {
        let ring = try keys.ring()
        try keys.unlock(ring)
        let findings = Lock<[Finding]>([])
        let repairs = Lock<[Repair]>([])
        var options = CheckOptions()
        options.repairs = isRepairing
        options.quarantines = quarantines
        options.threads = threads
        let paths = Set(confirmed.map { Array($0.utf8) })
        options.isConfirmed = { paths.contains($0) }
        options.mayGoOn = mayGoOn
        let states = StateFileStore(directory: states.root, volumeID: ring.volumeID)
        let summary = try Check.run(
            directory: (directory ?? self.directory).reopen(), keys: ring, states: states, options: options,
            repaired: { repair in repairs.withLock { $0.append(repair) } },
            report: { finding in findings.withLock { $0.append(finding) } })
        return RepairOutcome(
            summary: summary, findings: findings.withLock { $0 }, repairs: repairs.withLock { $0 })
    }

    /// Changes bytes of a path's backing file.
    func damage(_ path: String, at offset: UInt64, _ bytes: [UInt8] = [7, 7, 7]) throws {
        let (directory, entry) = try backing(path)
        try directory.openFile(entry, .readWrite).write(bytes.span, at: offset)
    }

    /// Lays the 128 bytes of one file's header over another's.
    func layHeader(of source: String, over target: String) throws {
        let (directory, entry) = try backing(source)
        var bytes = [UInt8](repeating: 0, count: FileHeader.length)
        var raw = bytes.mutableSpan
        _ = try directory.openFile(entry, .readOnly).read(into: &raw, at: 0)
        try damage(target, at: 0, bytes)
    }

    /// Gives a path's backing entry another name of the right form.
    func scramble(_ path: String) throws {
        let (directory, entry) = try backing(path)
        var bytes = Array(entry.bytes)
        bytes[5] = bytes[5] == 65 ? 66 : 65
        try directory.rename(entry, to: directory, BackingName.known(bytes))
    }

    /// Changes bits of one byte of a directory's record.
    func damageRecord(_ path: String, byte: Int, with bits: UInt8 = 1) throws {
        let directory = try volume.directory(node(path))
        let target = try directory.readSymlink(BackingName.record)
        guard var record = Base64URL.decode(target.span) else { throw VolumeError.damaged(.record) }
        record[byte] ^= bits
        try directory.unlink(BackingName.record)
        try directory.createSymlink(BackingName.record, target: Base64URL.encode(record.span))
    }
}
