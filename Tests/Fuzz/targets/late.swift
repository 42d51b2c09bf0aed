// Late files: header, records, names; what parses is written as the same bytes. And a whole file behind a header whose key is known.

import BackingStore
@testable import MemoryStore
import SodiumKit
import VolumeFormat

@testable import Keybag
@testable import ProtectedVolume

private let volume = VolumeID(InlineArray(repeating: 7))
private let key: LateKey = {
    let secret = pattern(32)
    guard let key = try? SecretKey(copying: secret.span) else { fatalError("no memory for a key") }
    let publicKey = X25519.publicKey(of: key)
    return LateKey(
        header: LateFileHeader(generation: 1, publicKeyGeneration: 1, volumeID: volume, number: 5), key: key,
        publicKey: publicKey)
}()
private let fileID = ObjectID(InlineArray(repeating: 6))
private let name = EntryName("late")

enum LateTarget: FuzzTarget {
    static func fuzz(_ bytes: Span<UInt8>) {
        if let header = try? LateFileHeader(parsing: bytes) {
            let written = header.bytes
            check(
                written.span.hasSameBytes(as: bytes.extracting(0..<LateFileHeader.length)),
                "a header is written as other bytes")
        }
        if let header = try? LateRecordHeader(parsing: bytes) {
            check(
                stored(header) == bytes.extracting(0..<LateRecordHeader.length).copiedBytes(),
                "a record's header is written as other bytes")
            check(header.recordLength <= LateRecordHeader.maximumData + 136, "a record is too long")
            check((header.kind == .done) == header.sealedRange.isEmpty, "a record has data, and says that it has none")
            check(header.sealedRange.upperBound == header.authenticatedLength, "a part of a record has no MAC")
        }
        if let number = LateFileName.number(of: bytes) {
            check(LateFileName.bytes(of: number) == bytes.copiedBytes(), "two names give one number")
            check(ReservedName.kind(of: bytes) == .late, "a late file's name is not reserved")
        }
        readFile(bytes.copiedBytes())
    }

    static func seeds() -> [[UInt8]] {
        let data = LateRecordHeader(
            dataLength: 5, index: 0, fileID: fileID, offset: 4096, seconds: -1, nanoseconds: 999_999_999)
        let last = LateRecordHeader(
            dataLength: 1, index: 0, fileID: fileID, offset: LateRecordHeader.endOfOffsets - 1, seconds: 1,
            nanoseconds: 2)
        let done = LateRecordHeader(doneWith: fileID, index: 1)
        let header = key.header.bytes
        return [
            header.span.copiedBytes(), chain([data]), chain([data, done]), chain([data, done]) + stored(data),
            chain([last]), chain([done]), chain([data, data]), LateFileName.bytes(of: 0), LateFileName.bytes(of: .max),
            LateFileName.bytes(of: 1_700_000_000_000_000), Array(".protectfs.late.0123456789ABCDEF".utf8),
        ]
    }
}

/// The part of a file that verifies is the same if the file ends there.
private func readFile(_ records: [UInt8]) {
    let header = key.header.bytes
    let file = header.span.copiedBytes() + records
    guard let found = read(file) else { fatalError("a file in memory cannot be read") }
    let end = Int(found.end)
    check(end >= LateFileHeader.length && end <= file.count, "records end outside of their file")
    check(found.hasRest == (end < file.count), "what stands behind the last record is not told")
    check(UInt64(found.done) + UInt64(found.entries.count) <= found.next, "more records than there are")
    for entry in found.entries {
        check(entry.position + UInt64(entry.header.recordLength) <= found.end, "a record ends behind the last one")
    }
    guard found.hasRest else { return }
    guard let again = read(Array(file[..<end])) else { fatalError("a file in memory cannot be read") }
    check(!again.hasRest && again.next == found.next && again.end == found.end, "what verified does not")
}

private func read(_ bytes: [UInt8]) -> LateFileContent? {
    guard let name, let file = try? MemoryStore().root.createFile(name, mode: 0o600) else { return nil }
    try? file.write(bytes.span, at: 0)
    return try? LateFileContent(reading: file, key)
}

private func stored(_ header: LateRecordHeader) -> [UInt8] {
    var result = [UInt8](repeating: 0, count: LateRecordHeader.length)
    var bytes = result.mutableSpan
    header.store(into: &bytes)
    return result
}

/// Records whose MACs are right, behind each other.
private func chain(_ headers: [LateRecordHeader]) -> [UInt8] {
    var last = key.firstMAC
    var result: [UInt8] = []
    for header in headers {
        let record = stored(header) + pattern(header.sealedRange.count)
        last = key.mac(after: last, record.span)
        result += record + (last.span.copiedBytes())
    }
    return result
}
