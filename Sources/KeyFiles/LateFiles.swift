// Finds the files that have writes from after a lock. The state file lists them.

package import BackingStore
package import HostSystem
package import VolumeFormat

/// The late files in a volume's root.
package enum LateFiles {
    /// The number of entries of the root that a mount searches for unknown late files. A check searches all.
    package static let mostEntries = 65536

    /// Their numbers, in ascending order.
    package static func numbers(in root: BackingDirectory, atMost limit: Int = .max) -> [UInt64] {
        var numbers: [UInt64] = []
        var seen = 0
        try? root.forEachEntry { entry in
            if let number = LateFileName.number(of: entry.name.bytes.span) { numbers.append(number) }
            seen += 1
            return seen < limit
        }
        return numbers.sorted()
    }

    /// Reads the header of one; nil if the file is not a late file.
    package static func header(of file: BackingFile) throws(Errno) -> LateFileHeader? {
        var bytes = InlineArray<128, UInt8>(repeating: 0)
        var raw = bytes.mutableSpan
        guard try file.read(into: &raw, at: 0) == LateFileHeader.length else { return nil }
        return try? LateFileHeader(parsing: bytes.span)
    }

    /// Those that a new state file lists: all of the volume's own, because it is not known which were used.
    package static func openLocks(of volume: VolumeID, in root: BackingDirectory) -> [StateFileLayout.OpenLock] {
        let own = numbers(in: root).filter { number in
            guard let file = try? root.openFile(BackingName.known(LateFileName.bytes(of: number)), .readOnly),
                let header = try? header(of: file)
            else { return false }
            return header.volumeID == volume && header.number == number
        }
        return own.suffix(StateFileLayout.maximumLocks).map { .init(number: $0) }
    }
}
