// Has the kernel write back what programs have written to a file: for files of the own mount.

internal import CLinuxShim
internal import Glibc
public import HostSystem

extension HostFile {
    /// Returns when all pages that were dirty have been written; takes no lock of the inode, unlike fsync(2) and close(2).
    public func writeBack() throws(Errno) {
        _ = try retryingShim { pfs_write_back(host.number) }
    }
}

extension HostDirectory {
    /// Opens the file at `path` below for nothing but `writeBack`, following no symlink.
    ///
    /// Unlike `openFile` it never widens a mode for the moment: changing a mode takes the inode's lock.
    /// - Throws: ESTALE where another object than `inode` is there.
    public func openForWriteBack(_ path: [[UInt8]], inode: UInt64) throws(Errno) -> HostFile {
        guard !path.isEmpty, path.allSatisfy({ EntryName($0) != nil }) else { throw .EINVAL }
        let joined = Array(path.joined(separator: [UInt8(ascii: "/")])) + [0]
        let flags = pfs_O_PATH | pfs_O_NOFOLLOW | O_CLOEXEC
        let number = try retryingShim {
            unsafe joined.withUnsafeBytes { bytes in
                // Ends with the only zero byte: a name has none.
                guard let start = bytes.baseAddress else { return -EINVAL }
                return unsafe pfs_open_beneath(
                    host.number, start.assumingMemoryBound(to: CChar.self), flags, 0)
            }
        }
        let found = HostObject(taking: number, isPath: true)
        let status = try found.status()
        try checkIsFile(status.kind)
        guard status.inode == inode else { throw .ESTALE }
        return HostFile(
            HostObject(taking: try retrying { unsafe Glibc.open(found.magicPath, FileAccess.readOnly.flags) }))
    }
}
