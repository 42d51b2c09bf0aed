// Uses, crashes and damages a volume in memory as an input says, and checks the conditions that must always hold.
//
// Every file's bytes are its tag or zero; tags belong to file IDs. So a wrong plaintext shows in the bytes themselves.

import BackingStore
import FileContents
import HostSystem
@testable import MemoryStore
import KeyFiles
import Keybag
import SodiumKit
import VolumeCheck
import VolumeFormat

@testable import ProtectedVolume

/// The bytes of an input, taken one after the other.
struct Program {
    private let bytes: [UInt8]
    private var place = 0

    init(_ bytes: Span<UInt8>) { self.bytes = bytes.copiedBytes() }

    var isAtEnd: Bool { place >= bytes.count }

    mutating func byte() -> Int {
        guard place < bytes.count else { return 0 }
        place += 1
        return Int(bytes[place - 1])
    }

    mutating func word() -> Int { byte() << 8 | byte() }
}

final class VolumeDriver {
    /// A file as programs have made it.
    final class Kept {
        var bytes: [UInt8] = []
    }

    private(set) var store = MemoryStore()
    private var states = MemoryStore()
    private var ring: KeyRing
    private(set) var volume: Volume
    /// Files by path, as far as nothing but the mount has changed them.
    var known: [Int: Kept] = [:]
    /// Programs alone have changed the volume: everything reads as the model says.
    var isExact = true
    /// Someone has changed the store: anything may be refused.
    var isDamaged = false {
        didSet { if isDamaged { isExact = false } }
    }
    var isLocked = false
    var tags: [ObjectID: UInt8] = [:]
    private var older: MemoryStore?

    static let slots = 24
    static let caller = Caller(user: 0, group: 0, mask: 0o022)
    private static let directories = ["", "a", "b"]
    private static let names = [
        "one", "two", "three", "four", String(repeating: "l", count: 176), String(repeating: "m", count: 255), "link",
        "x",
    ].map { Array($0.utf8) }

    init() {
        ring = fixedRing()
        store.clearRecords(recording: false)
        states.clearRecords(recording: false)
        do {
            try NewVolume.writeRootRecord(in: store.root, keys: ring.metadata)
            try StateFileStore(directory: states.root, volumeID: ring.volumeID).update { state in
                state = StateFile(pinning: fixedKeybag, toleratesEverything: false)
            }
            volume = try Self.mount(store, states, ring)
            for name in Self.directories.dropFirst() {
                _ = try volume.mkdir(Array(name.utf8), in: volume.root, mode: 0o755, caller: Self.caller)
            }
        } catch { fatalError("no volume: \(error)") }
        store.makeDurable()
    }

    // MARK: mounting

    private static func mount(_ store: MemoryStore, _ states: MemoryStore, _ ring: KeyRing) throws -> Volume {
        try Volume(
            directory: store.root.reopen(), keys: ring,
            state: StateFileStore(directory: states.root, volumeID: ring.volumeID), options: VolumeOptions()
        ) { _ in }
    }

    private func mountAgain() {
        ring = fixedRing()
        isLocked = false
        do { volume = try Self.mount(store, states, ring) } catch { fatalError("no mount: \(error)") }
    }

    func remount() {
        allow { () throws(VolumeError) in try volume.close() }
        mountAgain()
    }

    /// Loses power: what was not synced may be gone, but everything can be read.
    func crash(_ seed: Int) {
        store = store.crash(seed: UInt64(seed))
        states.makeDurable()
        states = states.crash(seed: 0)
        store.clearRecords(recording: false)
        states.clearRecords(recording: false)
        mountAgain()
        guard !isDamaged else { return }
        isExact = false
        var found: [Int: Kept] = [:]
        for slot in 0..<Self.slots {
            guard let bytes = read(slot) else { continue }
            let kept = Kept()
            kept.bytes = bytes
            // Names of one file share what is known of it.
            found[slot] = found.first { isSameFile($0.key, slot) }?.value ?? kept
        }
        known = found
        isExact = true
    }

    func lockOrUnlock() {
        if isLocked {
            let fresh = fixedVolumeKeys()
            guard (try? volume.unlock(with: fresh)) != nil else { fatalError("cannot be unlocked") }
        } else {
            guard ring.state == .unlocked else { return }
            check(volume.lockUnmounted(), "cannot be locked")
        }
        isLocked.toggle()
    }

    /// Remembers the store as it is, and later puts back parts of it.
    func remember() {
        store.makeDurable()
        older = store.crash(index: 0)
    }

    var olderRoot: BackingDirectory? { older?.root }

    func checkVolume(_ how: Int) {
        allow { () throws(VolumeError) in try volume.close() }
        ring = fixedRing()
        isLocked = false
        var options = CheckOptions()
        options.threads = 1
        options.mends = how & 1 == 0
        options.repairs = how & 2 != 0
        options.quarantines = how & 6 == 6
        let wasExact = isExact
        allow { () throws(VolumeError) in
            let states = StateFileStore(directory: states.root, volumeID: ring.volumeID)
            let summary = try Check.run(directory: store.root, keys: ring, states: states, options: options) {
                finding in
                check(!wasExact || finding.severity != .error, "fsck finds an error where nothing was damaged")
            }
            check(!wasExact || summary.errors == 0, "fsck counts an error where nothing was damaged")
        }
        mountAgain()
    }

    // MARK: errors

    /// Runs an operation that may fail. If nothing was damaged, it must not fail with an error of damage.
    @discardableResult
    func allow<Result>(_ body: () throws(VolumeError) -> Result) -> Result? {
        do throws(VolumeError) {
            return try body()
        } catch {
            if case .damaged = error, !isDamaged { fatalError("nobody has touched it: \(error)") }
            return nil
        }
    }

    /// Runs an operation that must succeed if nothing was damaged and nothing is locked.
    @discardableResult
    func demand<Result>(_ message: StaticString, _ body: () throws(VolumeError) -> Result) -> Result? {
        allow { () throws(VolumeError) in
            do throws(VolumeError) {
                return try body()
            } catch {
                if isExact, !isLocked { fatalError("\(message): \(error)") }
                throw error
            }
        }
    }

    // MARK: files

    func directory(_ slot: Int) throws(VolumeError) -> Node {
        let name = Self.directories[slot / 8 % 3]
        return name.isEmpty ? volume.root : try volume.lookup(Array(name.utf8), in: volume.root).node
    }

    func name(_ slot: Int) -> [UInt8] { Self.names[slot % 8] }

    func node(_ slot: Int) throws(VolumeError) -> Node {
        try volume.lookup(name(slot), in: directory(slot)).node
    }

    private func isSameFile(_ one: Int, _ other: Int) -> Bool {
        guard let first = allow({ () throws(VolumeError) in try node(one) }),
            let second = allow({ () throws(VolumeError) in try node(other) })
        else { return false }
        return first.inode == second.inode
    }

    /// The tag of an open file: known by its ID, else what it holds, else a new one.
    func tag(_ content: FileContent, _ bytes: [UInt8] = []) -> UInt8 {
        if let known = tags[content.fileID] { return known }
        let tag = bytes.first { $0 != 0 } ?? UInt8(tags.count % 255 + 1)
        tags[content.fileID] = tag
        return tag
    }

    func open<Result>(
        _ slot: Int, writable: Bool, _ body: (FileContent) throws(VolumeError) -> Result
    ) throws(VolumeError) -> Result {
        let content: FileContent
        var opened = try node(slot)
        do throws(VolumeError) {
            content = try volume.open(opened, writable: writable)
        } catch {
            // As the kernel does: the name is looked up again.
            guard case .refused(.ESTALE) = error else { throw error }
            opened = try node(slot)
            content = try volume.open(opened, writable: writable)
        }
        defer { volume.release(opened, writable: writable) }
        return try body(content)
    }

    func all(_ content: FileContent) throws(VolumeError) -> [UInt8] {
        var result: [UInt8] = []
        let count = 40_000
        while true {
            var buffer = [UInt8](repeating: 0, count: FileContent.bufferLength(count: count))
            var raw = buffer.mutableSpan
            let part = try content.read(into: &raw, at: UInt64(result.count), count: count)
            let range = part.range
            part.finish()
            let bytes = buffer[range]
            if bytes.isEmpty { return result }
            result += bytes
        }
    }

    /// Reads a file, and holds it against its tag and the model.
    @discardableResult
    func read(_ slot: Int) -> [UInt8]? {
        let found = allow { () throws(VolumeError) -> [UInt8] in
            try open(slot, writable: false) { (content) throws(VolumeError) in
                let bytes = try all(content)
                let tag = tag(content, bytes)
                check(bytes.allSatisfy { $0 == 0 || $0 == tag }, "a file gives another's plaintext")
                return bytes
            }
        }
        guard isExact, !isLocked else { return found }
        check(found == known[slot]?.bytes, "a file does not read as it was written")
        return found
    }

    func readAll() {
        for slot in 0..<Self.slots { read(slot) }
        for path in Self.directories.indices {
            allow { () throws(VolumeError) in
                let node = try directory(path * 8)
                try volume.list(node, from: 0, attributes: .all) { entry in
                    if let found = entry.entry {
                        _ = try? volume.readlink(found.node)
                        _ = try? volume.listXattr(found.node)
                        volume.forget(found.node, count: 1)
                    }
                    return true
                }
            }
        }
    }
}
