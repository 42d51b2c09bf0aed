// Small volumes for the tamper matrix: each with the objects of some kinds, their partners, and an older version of all.

import KeyFiles
import TestSupport
import BackingStore
@testable import MemoryStore
import Keybag
import HostSystem
import SodiumKit
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume

/// One kind of object in a scene: which bytes, which fields, and what they can be exchanged with.
struct TamperKind: Sendable {
    let name: String
    let place: String
    /// An object of the same kind in the same volume.
    let partner: String
    let fields: @Sendable ([UInt8]) -> [LayoutField]
    /// Where the fields begin and end together: the row `whole`; nil: no such row.
    var whole: (@Sendable ([UInt8]) -> Range<Int>)?

    /// The same without its fields; nil where nothing is left.
    var pagesAlone: TamperKind? {
        guard let whole else { return nil }
        return TamperKind(name: name, place: place, partner: partner, fields: { _ in [] }, whole: whole)
    }
}

/// A volume at three times: older, now, and another volume made in the same way.
struct TamperScene: Sendable {
    let kinds: [TamperKind]
    let now: MemoryStore
    let older: MemoryStore
    let foreign: MemoryStore
    let places: [String: TamperPlace]
    let olderPlaces: [String: TamperPlace]
    let foreignPlaces: [String: TamperPlace]
    let keys: TestKeys
    let states: MemoryStore
    let reading: TamperReading
    let olderReading: TamperReading

    /// Builds a volume. It is called with the first mount, then with a second one for the changes.
    typealias Step = @Sendable (TestVolume) throws -> Void
    typealias Places = @Sendable (TestVolume) throws -> [String: TamperPlace]

    init(
        _ suite: CipherSuite, _ kinds: [TamperKind], build: Step, change: Step, after: Step = { _ in }, places: Places
    ) throws {
        self.kinds = kinds
        let (keys, others) = try Self.keys(suite)
        self.keys = keys
        states = MemoryStore()
        let first = MemoryStore()
        try Self.begin(keys, first, states)
        try Self.mount(keys, first, states, build)
        (older, olderPlaces) = try Self.finish(keys, first, states, after, places)
        try Self.mount(keys, first, states, change)
        (now, self.places) = try Self.finish(keys, first, states, after, places)
        states.makeDurable()
        reading = try Self.read(keys, now, states)
        olderReading = try Self.read(keys, older, states)
        let otherStates = MemoryStore()
        let other = MemoryStore()
        try Self.begin(others, other, otherStates)
        // So that the two volumes never have the same epochs, as they begin in the same second or not.
        let otherID = try others.ring().volumeID
        try StateFileStore(directory: otherStates.root, volumeID: otherID).update {
            // The highest epoch stays when the list is empty again.
            $0?.layout.openEpochs = [1 << 31]
            $0?.layout.openEpochs = []
        }
        try Self.mount(others, other, otherStates, build)
        try Self.mount(others, other, otherStates, change)
        (foreign, foreignPlaces) = try Self.finish(others, other, otherStates, after, places)
    }

    /// The same volume on a machine that tolerates what a crash may have left: its state file was lost.
    func afterACrash() throws -> TamperScene {
        let copy = self
        let volume = try keys.ring().volumeID
        try StateFileStore(directory: copy.states.root, volumeID: volume).update {
            $0?.layout.toleratesEverything = true
        }
        copy.states.makeDurable()
        return copy
    }

    private static let cache = Lock<[CipherSuite: (TestKeys, TestKeys)]>([:])

    /// Two volumes' keys for each suite: the password hash is what takes time.
    private static func keys(_ suite: CipherSuite) throws -> (TestKeys, TestKeys) {
        if let known = cache.withLock({ $0[suite] }) { return known }
        let made = (try TestKeys(suite), try TestKeys(suite))
        cache.withLock { $0[suite] = made }
        return made
    }

    private static func begin(_ keys: TestKeys, _ store: MemoryStore, _ states: MemoryStore) throws {
        let ring = try keys.ring()
        try NewVolume.writeRootRecord(in: store.root, keys: ring.metadata)
        try StateFileStore(directory: states.root, volumeID: ring.volumeID).update { state in
            state = StateFile(pinning: keys.bag, toleratesEverything: false)
        }
    }

    private static func mount(
        _ keys: TestKeys, _ store: MemoryStore, _ states: MemoryStore, _ body: Step
    ) throws {
        let it = try TestVolume(keys, store.root, states)
        try body(it)
        try it.volume.close()
    }

    /// A copy of the store, changed by `after`, and the positions of objects in it.
    private static func finish(
        _ keys: TestKeys, _ store: MemoryStore, _ states: MemoryStore, _ after: Step, _ places: Places
    ) throws -> (MemoryStore, [String: TamperPlace]) {
        store.makeDurable()
        let copy = store.crash(index: 0)
        copy.clearRecords(recording: false)
        let found = try places(TestVolume(keys, copy.root, states))
        try mount(keys, copy, states, after)
        copy.makeDurable()
        return (copy, found)
    }

    private static func read(_ keys: TestKeys, _ store: MemoryStore, _ states: MemoryStore) throws -> TamperReading {
        try TamperReading(TestVolume(keys, store.crash(index: 0).root, states.crash(index: 0)))
    }
}

extension TestVolume {
    /// Bytes of any length.
    func fill(_ path: String, _ bytes: [UInt8]) throws(VolumeError) {
        do throws(VolumeError) {
            return try put(path, bytes, at: 0)
        } catch {
            guard error == .noEntry else { throw error }
        }
        let (parent, name) = try parent(path)
        let (entry, content) = try volume.create(name, in: parent, mode: 0o644, caller: Self.caller)
        defer { volume.release(entry.node, writable: true) }
        try content.put(bytes, at: 0)
    }

    func extend(_ path: String, to size: UInt64) throws(VolumeError) {
        let node = try node(path)
        let content = try volume.open(node, writable: true)
        defer { volume.release(node, writable: true) }
        try content.truncate(to: size, access: .handleSize)
    }

    func link(_ path: String, _ target: String) throws(VolumeError) {
        let (parent, name) = try parent(path)
        _ = try volume.symlink(name, in: parent, target: Array(target.utf8), caller: Self.caller)
    }

    func attribute(_ path: String, _ name: String, _ value: String) throws(VolumeError) {
        try volume.setXattr(node(path), Array(name.utf8), value: Array(value.utf8), mode: .set)
    }

    /// Backing names of the directories of a path.
    func backingPath(_ path: String) throws -> [EntryName] {
        let parts = path.split(separator: "/").map(String.init)
        return try (0..<parts.count).map { try backing(parts[0...$0].joined(separator: "/")).1 }
    }

    /// The place of an object's bytes: `content`, `target`, `name`, …, of the object at `path`.
    func place(
        _ path: String, _ make: ([EntryName], EntryName) throws -> TamperPlace
    ) throws -> TamperPlace {
        let all = try backingPath(path)
        return try make(Array(all.dropLast()), try #require(all.last))
    }

    func attributeBackingName(_ path: String, _ name: String) throws -> [UInt8] {
        try volume.names.encodeAttribute(Array(name.utf8), of: volume.objectID(of: node(path)))
    }
}
