// A volume's contents in a store in memory, for the tests of file contents.

import BackingStore
@testable import MemoryStore
import Keybag
import HostSystem
import SodiumKit
import Testing
import VolumeFormat

@testable import FileContents
@testable import KeyFiles
@testable import ProtectedVolume

/// Keys and state file of a test volume; survives "mounts" and power cuts.
final class ContentKeys: Sendable {
    let ring: KeyRing
    let keys: Lock<VolumeKeys>
    let openEpochs = Lock<[UInt32]>([])
    let highestEpoch = Lock<UInt32>(0)

    init(_ suite: CipherSuite) throws {
        let text = Array("p".utf8)
        let device = try SecretKey.random()
        let new = try Keybag.create(
            suite: suite, passphrase: try SecretBytes(copying: text.span), deviceKey: device,
            cost: Argon2Parameters(passes: 1, memory: 8 << 20))
        ring = try KeyRing(
            new.bag, device: try new.bag.open(deviceKey: device), isPublicKeyProven: true)
        _ = try ring.unlock(with: try new.keys.copy())
        keys = Lock(try new.keys.copy())
    }

    func unlock() throws {
        let copy = try keys.withLock { keys throws(SodiumError) in try keys.copy() }
        _ = try ring.unlock(with: copy)
    }

    /// Locks, wiping `contents`.
    func lock(_ contents: [FileContent] = []) {
        #expect(ring.beginLocking())
        #expect(ring.waitForReads(until: monotonicNanoseconds() + 120_000_000_000))
        #expect(
            ring.finishLocking {
                for content in contents where content.protectionClass == .complete { content.wipeKeys() }
            })
    }

    /// Closes class 7 after a lock, wiping `contents`.
    func closeInactive(_ contents: [FileContent] = []) {
        let seven = ProtectionClass.completeWhenUserInactive
        #expect(ring.beginLocking(seven))
        #expect(ring.waitForReads(of: seven, until: monotonicNanoseconds() + 120_000_000_000))
        #expect(
            ring.finishLocking(seven) {
                for content in contents where content.protectionClass == seven { content.wipeKeys() }
            })
    }

    /// One mount of the volume.
    ///
    /// - Parameter seen: where the table of seen versions is, and whether it is written. An older version is refused then.
    func mount(
        _ tolerance: CrashTolerance = .byEpoch, isReadOnly: Bool = false, isShared: Bool = false,
        epochLimit: UInt64 = EpochLog.limit, mendAtOnce: UInt64 = 256, mendStep: UInt64 = 128,
        mostSealedHoles: UInt64 = 4096, seen: (MemoryStore, isWritable: Bool)? = nil
    ) -> ContentContext {
        let log = EpochLog(
            endedBadly: openEpochs.withLock { $0 }, tolerance: tolerance, limit: epochLimit,
            record: EpochRecord { [self] (highest) throws(VolumeError) in
                let drawn = highestEpoch.withLock { known in
                    known = max(known, highest) + 1
                    return known
                }
                openEpochs.withLock { $0.append(drawn) }
                return drawn
            } close: { [self] epochs in
                openEpochs.withLock { $0.removeAll { epochs.contains($0) } }
            })
        var options = VolumeOptions()
        options.isReadOnly = isReadOnly
        options.isShared = isShared
        options.refusesOlder = true
        let table = seen.map {
            StateFileStore(directory: $0.0.root, volumeID: ring.volumeID)
                .seenVersions(isWritable: $0.isWritable, isExpected: false)
        }
        return ContentContext(
            keys: ring, epochs: log, options: options, mendAtOnce: mendAtOnce,
            mendStep: mendStep, mostSealedHoles: mostSealedHoles, seen: table
        ) { [self] found in
            evidence.withLock { $0.append(found) }
        }
    }

    let evidence = Lock<[CrashEvidence]>([])
}

extension MemoryStore {
    /// Creates the file `name` with its content.
    func create(
        _ name: String = "f", in context: ContentContext,
        class protectionClass: ProtectionClass = .completeUntilFirstUserAuthentication
    ) throws -> FileContent {
        let file = try FileContent.prepare(in: context, class: protectionClass, explicit: false)
        let backing = try root.createFile(try #require(EntryName(name)), mode: 0o600)
        return try FileContent.create(file, in: context, backing: backing).0
    }

    func open(_ name: String = "f", in context: ContentContext) throws -> FileContent {
        try FileContent.open(in: context, backing: try backing(name))
    }

    func backing(_ name: String = "f") throws -> BackingFile {
        try root.openFile(try #require(EntryName(name)), .readWrite)
    }
}

extension FileContent {
    func put(_ bytes: [UInt8], at offset: Int, _ access: Operation = .write) throws(VolumeError) {
        try write(bytes.span, at: UInt64(offset), access: access)
    }

    func get(_ range: Range<Int>) throws(VolumeError) -> [UInt8] {
        var all: [UInt8] = []
        while all.count < range.count {
            let count = min(range.count - all.count, FileContent.largestRequest)
            let part = try getOnce(at: range.lowerBound + all.count, count)
            if part.isEmpty { break }
            all += part
        }
        return all
    }

    private func getOnce(at offset: Int, _ count: Int) throws(VolumeError) -> [UInt8] {
        let length = FileContent.bufferLength(count: count)
        var buffer = try Self.largeBuffer(length, in: context)
        return try buffer.withMutableBytes(count: length) { (bytes: inout MutableSpan<UInt8>) throws(VolumeError) in
            let result = try read(into: &bytes, at: UInt64(offset), count: count)
            let plain = bytes.span.extracting(result.range).copiedBytes()
            result.finish()
            return plain
        }
    }

    func getAll() throws(VolumeError) -> [UInt8] {
        try get(0..<Int(size) + 100)
    }
}

/// A small fast generator with a seed, so that failures can be repeated.
struct SeededGenerator: RandomNumberGenerator {
    var state: UInt64

    init(_ seed: UInt64) { state = seed &+ 0x9E37_79B9_7F4A_7C15 }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }

    mutating func bytes(_ count: Int) -> [UInt8] {
        let start = UInt8(truncatingIfNeeded: next())
        let step = UInt8(truncatingIfNeeded: next() | 1)
        return (0..<count).map { start &+ UInt8(truncatingIfNeeded: $0) &* step | 1 }
    }
}
