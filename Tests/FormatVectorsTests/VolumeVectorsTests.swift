// The vectors of names, records, links, attributes and whole backing files, through the code that a mount runs.

import BackingStore
@testable import MemoryStore
import KeyFiles
import SodiumKit
import Testing
import VolumeFormat

@testable import Keybag
@testable import FileContents
@testable import ProtectedVolume

@Suite struct VolumeVectorsTests {
    let vectors: Vectors

    init() throws {
        vectors = try Vectors()
    }

    private func ring(_ suite: Int) throws -> KeyRing {
        for vector in vectors.entries("keybag") where vector.has("recovery_code") && vector.isAccepted {
            let bag = try Keybag(parsing: vector.hex("keybag"))
            guard Int(bag.suite.rawValue) == suite else { continue }
            let code = try SecretBytes(copying: vector.ascii("recovery_code").span)
            return try KeyRing(bag, keys: bag.unlock(.recoveryCode(code)))
        }
        throw VolumeError.invalid
    }

    private func object(_ vector: Vector, _ name: String) -> ObjectID {
        let bytes = vector.hex(name)
        return ObjectID(bytes.span)
    }

    @Test func names() throws {
        let cipher = NameCipher(keys: try ring(1).metadata)
        for vector in vectors.entries("name") {
            let encoded = try cipher.encode(vector.hex("name"), in: object(vector, "directory"))
            #expect(Array(encoded.entry.bytes) == vector.expected.ascii("backing"), "\(vector.comment)")
            #expect((encoded.companion?.target ?? []) == vector.expected.ascii("companion"), "\(vector.comment)")
        }
        for vector in vectors.entries("name_decoding") {
            let name = cipher.decode(vector.ascii("backing"), in: object(vector, "directory"))
            #expect((name.map { hex($0) } ?? "refuse") == vector.expectedText, "\(vector.comment)")
        }
    }

    @Test func metadataKeys() throws {
        for vector in vectors.entries("metadata_keys") {
            let (metadata, uuid) = (vector.hex("M"), vector.hex("UUID"))
            let keys = try MetadataKeys(
                metadataKey: SecretKey(copying: metadata.span), volumeID: VolumeID(uuid.span))
            #expect(keys.header.withBytes { hex($0.copiedBytes()) } == vector.expected.text("header"))
            #expect(keys.rootID == object(vector.expected, "root_id"))
        }
    }

    @Test func records() throws {
        let cipher = NameCipher(keys: try ring(1).metadata)
        for vector in vectors.entries("record") {
            let record = cipher.record(target: vector.ascii("target"))
            #expect((record == nil) == vector.isRefused, "\(vector.comment)")
            guard let record else { continue }
            let expected = vector.isNewer ? vector : vector.expected
            #expect(record.directoryID == object(expected, "directory"), "\(vector.comment)")
            guard !vector.isNewer else {
                #expect(record.known == .names && record.defaultClass == nil, "\(vector.comment)")
                continue
            }
            let isReadOnly = expected.isTrue("read_only")
            #expect(record.known == (isReadOnly ? .classAndNames : .all), "\(vector.comment)")
            #expect(UInt64(record.defaultClass?.rawValue ?? 0) == expected.number("default_class"), "\(vector.comment)")
            #expect(isReadOnly || cipher.recordTarget(record) == vector.ascii("target"), "\(vector.comment)")
        }
    }

    @Test func linksAndAttributes() throws {
        let cipher = NameCipher(keys: try ring(1).metadata)
        for vector in vectors.entries("symlink") {
            let stored = vector.ascii("stored")
            if let reference = cipher.openLongTarget(stored) {
                #expect(reference.id == object(vector.expected, "overflow"), "\(vector.comment)")
                #expect(UInt64(reference.contentLength) == vector.expected.number("length"), "\(vector.comment)")
                #expect(cipher.openTarget(stored) == nil && !cipher.isNewerTarget(stored), "\(vector.comment)")
                continue
            }
            let other = cipher.isNewerTarget(stored) ? "newer" : "refuse"
            #expect((cipher.openTarget(stored).map { hex($0) } ?? other) == vector.expectedText, "\(vector.comment)")
        }
        for vector in vectors.entries("xattr") {
            let owner = object(vector, "owner")
            let name = cipher.decodeAttribute(vector.ascii("backing"), of: owner)
            let stored = vector.hex("stored")
            let value = name.flatMap { cipher.openValue(stored, name: $0, of: owner) }
            let isNewer = name.map { cipher.isNewerValue(stored, name: $0, of: owner) } ?? false
            #expect(
                (value.map { hex($0) } ?? (isNewer ? "newer" : "refuse")) == vector.expectedText, "\(vector.comment)")
        }
    }

    @Test func attributeRecords() throws {
        let cipher = NameCipher(keys: try ring(1).metadata)
        for vector in vectors.entries("xattr_record") {
            let owner = object(vector, "owner")
            #expect(cipher.recordName(of: owner) == vector.ascii("backing"), "\(vector.comment)")
            let stored = vector.hex("stored")
            switch try cipher.openRecord(stored, of: owner) {
            case .damaged: #expect(vector.isRefused, "\(vector.comment)")
            case .newer: #expect(vector.isNewer, "\(vector.comment)")
            case .overflow(let reference):
                #expect(reference.id == object(vector.expected, "overflow"), "\(vector.comment)")
                #expect(UInt64(reference.contentLength) == vector.expected.number("length"), "\(vector.comment)")
            case .inline(let record):
                let expected = vector.expected.member("attributes").texts ?? [:]
                let names = record.names
                #expect(Set(names.map { hex($0) }) == Set(expected.keys), "\(vector.comment)")
                for name in names {
                    #expect(record.value(of: name).map { hex($0) } == expected[hex(name)], "\(vector.comment)")
                }
            }
        }
    }

    @Test func overflowObjects() throws {
        let keys = try ring(1).metadata
        for vector in vectors.entries("overflow") {
            let store = MemoryStore()
            let id = object(vector, "overflow")
            try store.root.createDirectory(BackingName.overflow, mode: 0o700)
            let directory = try store.root.openDirectory(BackingName.overflow)
            let file = try directory.createFile(OverflowObjects.name(of: id), mode: 0o600)
            try file.write(vector.hex("stored").span, at: 0)
            let found: String
            do throws(VolumeError) {
                let reference = OverflowReference(id: id, contentLength: Int(vector.number("length")))
                found = hex(try OverflowObjects(root: store.root, keys: keys).content(of: reference, owner: .symlink))
            } catch {
                found = error == .newer(.symlink) ? "newer" : error == .damaged(.symlink) ? "refuse" : "\(error)"
            }
            #expect(found == vector.expectedText, "\(vector.comment)")
        }
    }

    @Test func files() throws {
        let pages = vectors.pages
        let rings = [1: try ring(1), 2: try ring(2)]
        for vector in vectors.entries("file") {
            var data: [UInt8] = []
            for number in vector.numbers("backing") {
                data += number < 0 ? [UInt8](repeating: 0, count: -number) : pages[number]
            }
            if vector.has("flip") { data[Int(vector.number("flip"))] ^= 1 }
            let keys = try #require(rings[Int(vector.number("suite"))])
            do {
                let (contents, isReadOnly) = try read(data, keys, badEpochs: vector.numbers("bad_epochs"))
                let comment = "\(keys.suite): \(vector.comment)"
                #expect(!vector.isRefused && !vector.isNewer, "\(comment)")
                #expect(contents.count == vector.expected.number("length"), "\(comment)")
                let hash = hash256(contents.span)
                #expect(hex((0..<32).map { hash[$0] }) == vector.expected.text("hash"), "\(comment)")
                #expect(isReadOnly == vector.expected.isTrue("read_only"), "\(comment)")
            } catch VolumeError.newer {
                #expect(vector.isNewer, "\(keys.suite): \(vector.comment)")
            } catch {
                #expect(vector.isRefused, "\(keys.suite): \(vector.comment): \(error)")
            }
        }
    }

    /// The file's whole contents, as a mount with these open epochs gives them, and whether the file is readable only.
    private func read(_ data: [UInt8], _ keys: KeyRing, badEpochs: [Int]) throws -> ([UInt8], Bool) {
        let store = MemoryStore()
        let name = try #require(EntryName("file"))
        let backing = try store.root.createFile(name, mode: 0o600)
        if !data.isEmpty { try backing.write(data.span, at: 0) }
        let epochs = EpochLog(endedBadly: badEpochs.map { UInt32($0) }, tolerance: .byEpoch, record: .none())
        var options = VolumeOptions()
        options.isReadOnly = true
        let context = ContentContext(keys: keys, epochs: epochs, options: options)
        let content = try FileContent.open(
            in: context, backing: backing, inheritedClass: .completeUntilFirstUserAuthentication)
        let size = Int(content.size)
        var result: [UInt8] = []
        while result.count < size {
            let count = min(size - result.count, 1 << 16)
            var buffer = [UInt8](repeating: 0, count: FileContent.bufferLength(count: count))
            var bytes = buffer.mutableSpan
            let part = try content.read(into: &bytes, at: UInt64(result.count), count: count)
            let range = part.range
            part.finish()
            guard !range.isEmpty else { throw VolumeError.invalid }
            result += buffer[range]
        }
        let isReadOnly = (try? content.requireChangeable()) == nil
        return (result, isReadOnly)
    }
}
