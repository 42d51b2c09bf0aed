// The identity of a directory, which distinguishes it from a copy.

import CLinuxShim
public import HostSystem

/// The identity of a directory of the host, as far as its file system provides one.
public struct DirectoryIdentity: Hashable, Sendable {
    /// `st_ino`.
    public var inode: UInt64
    /// When the directory was made (statx(2)); zero if the file system does not say.
    public var born: Timestamp
    /// The file system's ID (statfs(2)) if it is stored on the disk, else 0.
    public var fileSystem: UInt64
}

extension HostDirectory {
    /// The directory's identity. It remains the same when the directory is moved, or unmounted and mounted again. A
    /// copy made by `cp -a` has another identity.
    public func identity() throws(Errno) -> DirectoryIdentity {
        let status = try status()
        // ext2–4, Btrfs (with the subvolume), F2FS, bcachefs and ZFS. On others the ID depends on the device number.
        let stored: [Int64] = [0xEF53, 0x9123_683E, 0xF2F5_2010, 0xCA45_1A4E, 0x2FC1_2FC1]
        let isStored = stored.contains(pfs_filesystem_type(host.number))
        return DirectoryIdentity(
            inode: status.inode, born: status.born ?? Timestamp(seconds: 0, nanoseconds: 0),
            fileSystem: isStored ? pfs_filesystem_number(host.number) : 0)
    }
}
