// The table of seen versions: any bytes are read, what was read is written anew as a whole table, and the file is written on.

import BackingStore
import HostSystem
import MemoryStore
import VolumeFormat

@testable import KeyFiles

enum SeenTarget: FuzzTarget {
    private static let volume = VolumeID(InlineArray(repeating: 7))

    /// The first byte says whether the others are bytes of the file after its header, or rows of 13 bytes: of which each is an entry,
    /// and with an odd first byte a damaged one. So checks need not be guessed.
    static func fuzz(_ bytes: Span<UInt8>) {
        guard bytes.count > 0 else { return }
        var file = SeenTable.header(of: volume)
        var expected: [UInt64: UInt32]?
        if bytes[0] & 1 == 0 {
            file += bytes.extracting(1...).copiedBytes()
        } else {
            var rows: [UInt64: UInt32] = [:]
            for index in 0..<(bytes.count - 1) / 13 {
                let start = 1 + 13 * index
                let (key, version): (UInt64, UInt32) = (
                    bytes.littleEndian(at: start + 1), bytes.littleEndian(at: start + 9)
                )
                SeenTable.append(key, version, index: index, to: &file)
                if bytes[start] & 1 == 1 {
                    file[file.count - 1] ^= 0x80
                } else {
                    rows[key] = version == 0 ? nil : version
                }
            }
            expected = rows
        }
        do throws(Errno) { try open(file, expected) } catch { fatalError("the store in memory fails") }
    }

    private static func open(_ bytes: [UInt8], _ expected: [UInt64: UInt32]?) throws(Errno) {
        let states = MemoryStore()
        let store = StateFileStore(directory: states.root, volumeID: volume)
        let name = BackingName.known(Array("\(volume).seen".utf8))
        try states.root.createFile(name, mode: 0o600).write(bytes.span, at: 0)
        var table = SeenTable()
        table.take(bytes.span.extracting(SeenTable.headerLength...))
        var known: [UInt64: UInt32] = [:]
        table.versions.forEach { known[$0] = $1 }
        check(known.count == table.versions.count, "the table counts its files wrongly")
        if let expected { check(known == expected, "whole entries are not what is known") }
        for (key, version) in known {
            check(table.versions[key] == version && version > 0, "a version is found in two ways")
        }
        // Something is appended, or the file is written anew; then no part of it is damaged or torn.
        let added = ObjectID(InlineArray(repeating: 9))
        let seen = store.seenVersions(isWritable: true, isExpected: true)
        let before = seen.version(of: added) ?? 0
        seen.wrote(added, max(before, 5))
        seen.settle()
        known[SeenTable.key(of: added)] = max(before, 5)
        let again = store.seenVersions(isWritable: true, isExpected: true) { _ in
            fatalError("a table that was written is taken for a faulty one")
        }
        for (key, version) in known {
            let file = ObjectID(InlineArray { $0 < 8 ? UInt8(truncatingIfNeeded: key >> (8 * UInt64($0))) : 0 })
            check(again.version(of: file) == version, "what was known is not in the file that was written")
        }
    }

    static func seeds() -> [[UInt8]] {
        var entries: [UInt8] = [0]
        for index in 0..<3 {
            SeenTable.append(UInt64(5 - index) << 40, UInt32(index), index: index, to: &entries)
        }
        return [[0], entries, Array(entries.dropLast(5)), [1] + pattern(39, from: 2), [1] + pattern(130, from: 0)]
    }
}
