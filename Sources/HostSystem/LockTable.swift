// The kernel's table of file locks, /proc/locks (proc_locks(5)).

import CLibrary

/// Lookups in the table of file locks.
package enum LockTable {
    /// Whether a file with this inode number has a lease, on any file system.
    package static func hasLease(inode: UInt64) -> Bool {
        entries().contains { $0.kind.elementsEqual("LEASE".utf8) && $0.isOn(inode: inode) }
    }

    /// The process that holds a flock(2) of the file or directory at `path`; nil if there is none, or it is not visible.
    package static func holder(of path: HostPath) -> Int32? {
        guard let inode = try? FileStatus.read(path).st_ino else { return nil }
        return entries().first { entry in
            entry.kind.elementsEqual("FLOCK".utf8) && entry.isOn(inode: UInt64(inode)) && entry.process > 0
        }?.process
    }

    private struct Entry {
        let kind: ArraySlice<UInt8>
        let process: Int32
        /// MAJOR:MINOR:INODE.
        let object: ArraySlice<UInt8>

        func isOn(inode: UInt64) -> Bool {
            let ending = Array(":\(inode)".utf8)
            return object.suffix(ending.count) == ending[...]
        }
    }

    private static func entries() -> [Entry] {
        guard let table = try? readFile(HostPath("/proc/locks"), limit: 64 << 20) else { return [] }
        return table.split(separator: UInt8(ascii: "\n")).compactMap { line in
            // A waiting one has `->` in front of its kind.
            let fields = line.split(separator: UInt8(ascii: " "), maxSplits: 6)
            guard fields.count > 5, !fields[1].elementsEqual("->".utf8) else { return nil }
            return Entry(
                kind: fields[1], process: Int32(String(decoding: fields[4], as: UTF8.self)) ?? 0, object: fields[5])
        }
    }
}
