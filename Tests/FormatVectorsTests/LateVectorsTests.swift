// The vectors of late files, through the code that an unlock runs.

import BackingStore
@testable import MemoryStore
import KeyFiles
import SodiumKit
import Testing
import VolumeFormat

@testable import Keybag
@testable import ProtectedVolume

@Suite struct LateVectorsTests {
    let vectors: Vectors

    init() throws {
        vectors = try Vectors()
    }

    /// The result of reading a late file.
    private struct Found {
        var number: UInt64
        /// The number of records that verify.
        var count: Int
        /// Those of kind `done` among them.
        var done: Int
        /// Records of data that wait for their files.
        var waiting: [(header: LateRecordHeader, data: [UInt8])] = []
        var hasRest: Bool
    }

    private func keys(_ vector: Vector) throws -> HeldKeys {
        let (uuid, complete, unlessOpen) = (vector.hex("uuid"), vector.hex("classKeyA"), vector.hex("privateKeyB"))
        let volume = VolumeID(uuid.span)
        let generation = UInt16(vector.number("generation"))
        let sealGeneration = UInt16(vector.number("generationB"))
        let generations = [0, generation, sealGeneration, 0, 0, 0, 0, 0]
        let privateKey = try SecretKey(copying: unlessOpen.span)
        var keys = HeldKeys(
            states: VolumeStates(.unlocked), volumeID: volume, publicKey: X25519.publicKey(of: privateKey),
            generations: generations, reads: ReadCount(), inactiveReads: ReadCount(),
            isPublicKeyProven: true)
        var bytes = try SecretBytes(byteCount: 2 * BundleEntry.length)
        bytes.withMutableBytes { raw in
            for (index, key) in [complete, unlessOpen].enumerated() {
                let type = BundleEntry.KeyType(number: UInt8(index + 1))
                let entry = BundleEntry(type: type, generation: type.generation(in: generations))
                entry.store(into: &raw, at: index * BundleEntry.length)
                raw.copy(key.span, to: index * BundleEntry.length + BundleEntry.keyOffset)
            }
        }
        guard let bundle = KeyBundle.parse(bytes, needed: [], generations: []),
            let classA = try ClassKeys.make(.complete, from: bundle, generation: generation, volumeID: volume),
            let classB = try ClassKeys.make(
                .completeUnlessOpen, from: bundle, generation: sealGeneration, volumeID: volume)
        else { throw VolumeError.invalid }
        keys.complete = .present(classA)
        keys.unlessOpen = .present(classB)
        return keys
    }

    private func read(_ vector: Vector) throws -> Found {
        let bytes = vector.hex("file")
        let store = MemoryStore()
        let file = try store.root.createFile(#require(EntryName("late")), mode: 0o600)
        try file.write(bytes.span, at: 0)
        guard let header = try LateFiles.header(of: file) else { throw VolumeError.invalid }
        #expect(filled(LateFileHeader.length) { header.store(into: &$0) } == Array(bytes[..<LateFileHeader.length]))
        let keys = try keys(vector)
        let key: LateKey
        do throws(KeyError) { key = try keys.openLateKey(header) } catch {
            throw error == .newer ? VolumeError.newer(.late) : .damaged(.late)
        }
        let content = try LateFileContent(reading: file, key)
        if content.isNewer { throw VolumeError.newer(.late) }
        var found = Found(
            number: header.number, count: Int(content.next), done: Int(content.done), hasRest: content.hasRest)
        for entry in content.entries {
            let start = Int(entry.position)
            let record = Array(bytes[start..<start + entry.header.recordLength])
            #expect(
                filled(LateRecordHeader.length) { entry.header.store(into: &$0) }
                    == Array(record[..<LateRecordHeader.length]))
            var isOpen = false
            let data = try filled(entry.header.dataLength) { output in
                isOpen = try keys.openLate(
                    record.span.extracting(entry.header.sealedRange), entry.header,
                    of: header, into: &output)
            }
            guard isOpen else {
                // A file is not served then: nothing from there on is used.
                found.count = Int(entry.header.index)
                found.hasRest = true
                break
            }
            found.waiting.append((entry.header, data))
        }
        return found
    }

    @Test func files() throws {
        let entries = vectors.entries("late")
        #expect(entries.count > 100)
        for vector in entries {
            let found: Found
            do {
                found = try read(vector)
            } catch VolumeError.newer {
                #expect(vector.isNewer, "\(vector.comment)")
                continue
            } catch {
                #expect(vector.isRefused, "\(vector.comment): \(error)")
                continue
            }
            #expect(!vector.isRefused && !vector.isNewer, "\(vector.comment)")
            let records = vector.expected.list("records")
            #expect(found.number == vector.expected.number("number"), "\(vector.comment)")
            #expect(found.count == records.count, "\(vector.comment)")
            #expect(found.hasRest == vector.expected.has("after"), "\(vector.comment)")
            if found.hasRest { #expect(vector.expected.number("after") == records.count, "\(vector.comment)") }
            check(found, records, vector.comment)
        }
    }

    /// Records of data without a done record behind them wait, in order; the others are counted.
    private func check(_ found: Found, _ records: [Vector], _ comment: String) {
        var waiting: [Vector] = []
        for record in records {
            if record.number("kind") == 2 {
                waiting.removeAll { $0.text("fileID") == record.text("fileID") }
            } else {
                waiting.append(record)
            }
        }
        if !records.isEmpty { #expect(found.done == records.count { $0.number("kind") == 2 }, "\(comment)") }
        #expect(found.waiting.count == waiting.count, "\(comment)")
        for ((header, data), record) in zip(found.waiting, waiting) {
            #expect(header.kind == .data && header.index == record.number("number"), "\(comment)")
            let file = record.hex("fileID")
            #expect(header.fileID == ObjectID(file.span), "\(comment)")
            #expect(header.offset == record.number("offset"), "\(comment)")
            #expect(header.seconds == record.signed("seconds"), "\(comment)")
            #expect(UInt64(header.nanoseconds) == record.number("nanoseconds"), "\(comment)")
            #expect(data == record.hex("data"), "\(comment)")
        }
    }
}
