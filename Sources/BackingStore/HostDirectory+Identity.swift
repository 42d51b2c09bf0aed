// What tells a directory from a copy of it.

import CLinuxShim
public import HostSystem

/// A directory of the host, as far as its file system can tell it from every other.
public struct DirectoryIdentity: Hashable, Sendable {
    /// `st_ino`.
    public var inode: UInt64
    /// When it was made (statx(2)); zero where the file system does not tell.
    public var born: Timestamp
    /// The file system's number (statfs(2)) where it comes from what is stored, else 0.
    public var fileSystem: UInt64
}

extension HostDirectory {
    /// The directory's identity: the same after it has been moved, unmounted and mounted again, and another one for what
    /// `cp -a` makes of it.
    public func identity() throws(Errno) -> DirectoryIdentity {
        var seconds: Int64 = 0
        var nanoseconds: UInt32 = 0
        unsafe pfs_born(host.number, &seconds, &nanoseconds)
        // ext2–4, Btrfs (with the subvolume), F2FS, bcachefs, ZFS: of others it depends on the device's number.
        let stored: [Int64] = [0xEF53, 0x9123_683E, 0xF2F5_2010, 0xCA45_1A4E, 0x2FC1_2FC1]
        let isStored = stored.contains(pfs_filesystem_type(host.number))
        return DirectoryIdentity(
            inode: try status().inode, born: Timestamp(seconds: seconds, nanoseconds: Int64(nanoseconds)),
            fileSystem: isStored ? pfs_filesystem_number(host.number) : 0)
    }
}
