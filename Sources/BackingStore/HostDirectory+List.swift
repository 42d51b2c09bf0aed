// Lists a directory of the host with getdents64(2), in one buffer and without DIR.

import CLibrary
import CLinuxShim
package import HostSystem

extension HostDirectory {
    /// Whether the directory has a name that no entry can have here: NTFS and exFAT allow more than 255 bytes. Listings leave such
    /// names out.
    package func hasUnusableNames() throws(Errno) -> Bool {
        guard let listing = try reopen() as? HostDirectory else { return false }
        var isFound = false
        try Self.list(listing.host, from: 0, unusable: { isFound = true }, { _, _ in true })
        return isFound
    }

    static func list(
        _ listing: HostObject, from cookie: UInt64, unusable: () -> Void = {},
        _ body: (ListedObject, UInt64) -> Bool
    ) throws(Errno) {
        let number = listing.number
        let end = lseek(number, 0, SEEK_END)
        let positions = ListingPositions(isHashed: end > 0 && UInt64(end) == ListingPositions.hashedEnd)
        var position = positions.stored(cookie)
        // Not every file system allows this at the start, where a new descriptor is already.
        if cookie != 0 || end > 0 {
            _ = try retrying { lseek(number, off_t(truncatingIfNeeded: position), SEEK_SET) }
        }
        var buffer = [UInt8](repeating: 0, count: 32768)
        while true {
            let filled = try retryingShim {
                unsafe buffer.withUnsafeMutableBytes { bytes in
                    unsafe pfs_getdents64(number, bytes.baseAddress, UInt64(bytes.count))
                }
            }
            if filled == 0 { return }
            let isWanted = Self.parse(buffer.span.extracting(0..<Int(filled)), unusable) { object, next in
                defer { position = next }
                return body(object, positions.shown(next, after: position))
            }
            if !isWanted { return }
        }
    }

    /// Calls `body` with each linux_dirent64 (inode u64, offset i64, length u16, type u8, name with NUL). Returns false
    /// when `body` does.
    private static func parse(
        _ records: Span<UInt8>, _ unusable: () -> Void, _ body: (ListedObject, UInt64) -> Bool
    ) -> Bool {
        var start = 0
        while start + 20 <= records.count {
            let length = Int(unsafe records.bytes.unsafeLoadUnaligned(fromByteOffset: start + 16, as: UInt16.self))
            guard length >= 20, start + length <= records.count else { return true }
            let inode = unsafe records.bytes.unsafeLoadUnaligned(fromByteOffset: start, as: UInt64.self)
            let next = unsafe records.bytes.unsafeLoadUnaligned(fromByteOffset: start + 8, as: UInt64.self)
            let kind = records[start + 18]
            var end = start + 19
            while end < start + length, records[end] != 0 { end += 1 }
            let name = records.extracting((start + 19)..<end)
            if let object = object(name, inode, FileKind(rawValue: kind) ?? .unknown) {
                if !body(object, next) { return false }
            } else {
                unusable()
            }
            start += length
        }
        return true
    }

    /// The meaning of a name; nil if a store lists one that no entry can have.
    private static func object(_ name: Span<UInt8>, _ inode: UInt64, _ kind: FileKind) -> ListedObject? {
        let dot = UInt8(ascii: ".")
        if name.count == 1, name[0] == dot { return .itself }
        if name.count == 2, name[0] == dot, name[1] == dot { return .parent }
        return EntryName(name).map { .entry(DirectoryEntry(name: $0, inode: inode, kind: kind)) }
    }
}
