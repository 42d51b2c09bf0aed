// Late files that a newer version has made: they are kept, and class A stays closed.

import BackingStore
import HostSystem
@testable import Keybag
@testable import MemoryStore
import KeyFiles
import SodiumKit
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume
@testable import VolumeCheck

@Suite struct NewerLateTests {
    /// A volume whose late file has one durable record of class A file `f`, after a crash while it was locked.
    private func scene() throws -> (store: MemoryStore, it: TestVolume, name: EntryName) {
        let scene = try LateScene()
        try scene.it.write("c", "class C")
        try scene.it.volume.synchronizeDirectory(scene.it.volume.root)
        scene.it.lock()
        try scene.late("new")
        try scene.it.volume.synchronize(scene.node, dataOnly: true)
        let name = try #require(scene.lateFiles.first)
        let again = try scene.it.mountAgain(scene.store.root, unlocked: false)
        return (scene.store, again, try #require(EntryName(name)))
    }

    private func read(_ store: MemoryStore, _ name: EntryName) throws -> [UInt8] {
        let file = try store.root.openFile(name, .readOnly)
        var bytes = [UInt8](repeating: 0, count: Int(try file.status().size))
        var raw = bytes.mutableSpan
        _ = try file.read(into: &raw, at: 0)
        return bytes
    }

    private func write(_ bytes: [UInt8], _ store: MemoryStore, _ name: EntryName) throws {
        try store.root.openFile(name, .readWrite).write(bytes.span, at: 0)
    }

    /// The MAC key of the late file, which needs class key A.
    private func key(_ it: TestVolume, _ bytes: [UInt8]) throws -> LateKey {
        let header = try LateFileHeader(parsing: bytes.span)
        let ring = try it.keys.ring()
        try it.keys.unlock(ring)
        return try ring.withState { held throws(KeyError) in try held.openLateKey(header) }
    }

    /// The file with another record, whose MAC is right.
    private func appending(_ change: (inout [UInt8]) -> Void, to bytes: [UInt8], _ it: TestVolume) throws -> [UInt8] {
        let key = try key(it, bytes)
        var record = [UInt8](repeating: 0, count: LateRecordHeader.length + 52)
        var raw = record.mutableSpan
        LateRecordHeader(
            dataLength: 4, index: 1, fileID: ObjectID(InlineArray(repeating: 1)), offset: 0, seconds: 0, nanoseconds: 0
        ).store(into: &raw)
        change(&record)
        let last: InlineArray<32, UInt8> = bytes.span.inline(at: bytes.count - 32)
        let mac = key.mac(after: last, record.span)
        return bytes + record + mac.span.copiedBytes()
    }

    /// The file with a changed header, which class key A opens, and without records.
    private func signed(_ change: (inout [UInt8]) -> Void, _ bytes: [UInt8], _ it: TestVolume) throws -> [UInt8] {
        var header = Array(bytes.prefix(LateFileHeader.length))
        change(&header)
        let number: UInt64 = header.span.littleEndian(at: 32)
        let ring = try it.keys.ring()
        try it.keys.unlock(ring)
        let context = AssociatedData.lateContext(volume: ring.volumeID, number: number)
        let wrapKey = try ring.withState { (held: borrowing HeldKeys) throws(KeyError) -> SecretKey in
            let generation = held.generation(of: .complete)
            switch held.complete {
            case .absent: throw .locked(.complete)
            case .present(let keys):
                let classKey = try keys.key(generation)
                return try keyMemory { () throws(SodiumError) in
                    try deriveKey(from: classKey, label: KeyLabel.late, context: context.span)
                }
            }
        }
        let nonce = [UInt8](repeating: 3, count: 24)
        var sealed = [UInt8](repeating: 0, count: 48)
        var raw = sealed.mutableSpan
        let secret = [UInt8](repeating: 4, count: 32)
        XChaCha.seal(
            secret.span, key: wrapKey, nonce: nonce.span,
            associatedData: header.span.extracting(LateFileHeader.authenticated), into: &raw)
        header.replaceSubrange(48..<120, with: nonce + sealed)
        return header
    }

    /// The late file stays as it is, class A is closed, and other classes work.
    private func expectKept(_ it: TestVolume, _ store: MemoryStore, _ name: EntryName, _ what: String) throws {
        let bytes = try read(store, name)
        try it.unlock()
        for _ in 0..<2 {
            try it.refuses(.late, what) { () throws(VolumeError) in _ = try it.read("f") }
            #expect(try it.read("c") == "class C")
            try it.write("new", "other")
            try it.unlink("new")
            #expect(it.notices.withLock { $0.filter { $0.contains("newer") } }.count == 1, "\(what)")
            it.lock()
            try it.unlock()
        }
        #expect(try read(store, name) == bytes, "\(what)")
        #expect(try LateScene.openLocks(it.states, it).count == 1, "\(what)")
        try it.volume.close()
        var options = VolumeOptions()
        options.isReadOnly = true
        let reader = try it.mountAgain(it.directory, options: options)
        try reader.refuses(.late, what) { () throws(VolumeError) in _ = try reader.read("f") }
        #expect(try reader.read("c") == "class C")
        // A check drops no records, and leaves the file.
        _ = try? TamperMatrix.check(it.keys, it.directory, it.states)
        #expect(try read(store, name) == bytes, "\(what)")
    }

    @Test func recordsOfAnotherKind() throws {
        let changes: [(String, (inout [UInt8]) -> Void)] = [
            ("kind 3", { $0[4] = 3 }), ("kind 0", { $0[4] = 0 }), ("reserved", { $0[5] = 1 }),
            ("reserved", { $0[55] = 1 }),
        ]
        for (what, change) in changes {
            let (store, it, name) = try scene()
            try write(try appending(change, to: try read(store, name), it), store, name)
            try expectKept(it, store, name, what)
        }
    }

    @Test func headersOfAnotherVersion() throws {
        let changes: [(String, (inout [UInt8]) -> Void)] = [
            ("version 3", { $0[8] = 3 }), ("generation of B", { $0[12] = 9 }), ("reserved", { $0[14] = 1 }),
            ("reserved", { $0[47] = 1 }),
        ]
        for (what, change) in changes {
            let (store, it, name) = try scene()
            let file = try read(store, name)
            try write(try signed(change, file, it) + file.dropFirst(128), store, name)
            try expectKept(it, store, name, what)
        }
    }

    /// What class key A or the chain does not prove is damage, as before.
    @Test func whatDoesNotVerifyIsNotNewer() throws {
        let (store, it, name) = try scene()
        var file = try appending({ $0[4] = 3 }, to: try read(store, name), it)
        file[file.count - 1] ^= 1
        try write(file, store, name)
        try it.unlock()
        #expect(try it.read("f") == "new old old")
        let (other, that, second) = try scene()
        var header = try read(other, second)
        header[8] = 3
        try write(header, other, second)
        try that.unlock()
        #expect(try that.read("f") == "old old old")
    }

    /// A volume that has no number left for the late records of a lock is locked all the same, and takes none.
    @Test func aLockThatCanTakeNoRecords() throws {
        let (store, former, name) = try scene()
        let largest = (0..<8).map { UInt8(truncatingIfNeeded: LateFileName.largest >> (8 * $0)) }
        let header = try signed({ $0.replaceSubrange(32..<40, with: largest) }, try read(store, name), former)
        let lastName = try #require(EntryName(LateFileName.bytes(of: LateFileName.largest)))
        let last = try store.root.createFile(lastName, mode: 0o600)
        try last.write(header.span, at: 0)
        try StateFileStore(directory: former.states.root, volumeID: former.volume.keys.volumeID).update { state in
            state?.layout.openLocks.append(.init(number: LateFileName.largest))
        }
        let it = try former.mountAgain(store.root, unlocked: false)
        try it.unlock()
        #expect(try it.read("f").hasPrefix("new"))
        #expect(!it.volume.lockUnmounted())
        #expect(it.volume.keys.state == .locked)
        #expect(throws: VolumeError.locked(.complete)) { try it.read("f") }
        try it.unlock()
        #expect(try it.read("f").hasPrefix("new"))
    }
}
