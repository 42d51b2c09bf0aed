// Reads a late file: its header and the records whose MAC verifies.

internal import BackingStore
internal import HostSystem
internal import Keybag
internal import SodiumKit
internal import VolumeFormat

/// The part of a late file that verifies.
package struct LateFileContent: Sendable {
    /// Records of data whose file has no later done record.
    var entries: [LateEntry] = []
    /// Records of kind `done`.
    var done: UInt32 = 0
    var lastMAC: InlineArray<32, UInt8>
    /// The position of the next record.
    var end = UInt64(LateFileHeader.length)
    /// The running number of the next record.
    var next: UInt64 = 0
    /// Whether bytes follow the last record that is used.
    var hasRest = false
    /// Whether these bytes begin with a record that verifies, and a newer version has made it.
    var isNewer = false

    /// Reads the records up to the first one that is incomplete or does not verify.
    init(reading file: BackingFile, _ key: LateKey) throws(Errno) {
        lastMAC = key.firstMAC
        let length = try file.status().size
        var found: [LateEntry] = []
        while let header = try Self.recordHeader(in: file, at: end), header.index == next,
            end + UInt64(header.recordLength) <= length
        {
            let bytes = try Self.read(file, at: end, header.recordLength)
            let mac: InlineArray<32, UInt8> = bytes.span.inline(at: header.authenticatedLength)
            let entry = LateEntry(header: header, position: end, previous: lastMAC, mac: mac, bytes: nil)
            guard Self.isRecord(bytes.span, entry, key) else { break }
            switch header.kind {
            case .data: found.append(entry)
            case .done:
                found.removeAll { $0.header.fileID == header.fileID }
                done += 1
            }
            lastMAC = mac
            end += UInt64(header.recordLength)
            next += 1
        }
        entries = found
        hasRest = end < length
        if hasRest { isNewer = try Self.isNewer(in: file, at: end, length, after: lastMAC, key) }
    }

    /// Whether the record at `position`, which does not parse, verifies.
    private static func isNewer(
        in file: BackingFile, at position: UInt64, _ length: UInt64, after previous: InlineArray<32, UInt8>,
        _ key: LateKey
    ) throws(Errno) -> Bool {
        let head = try read(file, at: position, LateRecordHeader.length)
        guard let count = LateRecordHeader.recordLength(in: head.span), position + UInt64(count) <= length else {
            return false
        }
        let bytes = try read(file, at: position, count)
        do throws(FormatError) { _ = try LateRecordHeader(parsing: bytes.span) } catch {
            guard error.isNewer else { return false }
            let end = count - LateRecordHeader.macLength
            let mac = key.mac(after: previous, bytes.span.extracting(0..<end))
            return constantTimeEqual(mac.span, bytes.span.extracting(end..<count))
        }
        return false
    }

    /// Whether `bytes` are the record of `entry`, made with the lock's key.
    static func isRecord(_ bytes: Span<UInt8>, _ entry: LateEntry, _ key: LateKey) -> Bool {
        let length = entry.header.authenticatedLength
        guard bytes.count == entry.header.recordLength,
            (try? LateRecordHeader(parsing: bytes)) == entry.header
        else { return false }
        let mac = key.mac(after: entry.previous, bytes.extracting(0..<length))
        return constantTimeEqual(mac.span, bytes.extracting(length..<bytes.count))
            && constantTimeEqual(mac.span, entry.mac.span)
    }

    private static func recordHeader(in file: BackingFile, at position: UInt64) throws(Errno) -> LateRecordHeader? {
        let bytes = try read(file, at: position, LateRecordHeader.length)
        return try? LateRecordHeader(parsing: bytes.span)
    }

    private static func read(_ file: BackingFile, at position: UInt64, _ count: Int) throws(Errno) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        var span = bytes.mutableSpan
        _ = try file.read(into: &span, at: position)
        return bytes
    }
}
