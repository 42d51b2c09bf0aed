// What is known of file systems by their type.

import CLinuxShim

/// A type of file system, by its `f_type` (statfs(2)).
struct StoreType {
    let number: Int64

    /// Local file systems whose changes reach the disk in order: ext2–4, XFS, Btrfs, F2FS, bcachefs, ZFS, overlayfs,
    /// tmpfs and ramfs.
    private static let ordered: Set<Int64> = [
        0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0xCA45_1A4E, 0x2FC1_2FC1, 0x794C_7630, 0x0102_1994, 0x8584_58F6,
    ]

    /// Further local file systems whose syncfs(2) writes everything to the disk: FAT, exFAT, NTFS of the kernel, NILFS2,
    /// JFS, HFS+ and UBIFS.
    private static let otherLocal: Set<Int64> = [
        0x4D44, 0x2011_BAB0, 0x7366_746E, 0x3434, 0x3153_464A, 0x482B, 0x2405_1905,
    ]

    private static let f2fs: Int64 = 0xF2F5_2010

    private static let overlay: Int64 = 0x794C_7630

    init(number: Int64) { self.number = number }

    init(of host: HostObject) { number = pfs_filesystem_type(host.number) }

    /// Whether truncations and writes of one file reach the disk in the order of the calls. Types that are not known
    /// count as not keeping it.
    var keepsOrder: Bool { Self.ordered.contains(number) }

    /// Whether a new symlink reaches the disk, with its target, before later changes of names. F2FS leaves empty
    /// symlinks after a crash.
    var keepsNewLinks: Bool { keepsOrder && number != Self.f2fs }

    /// Whether syncfs(2) makes everything durable. FUSE does not pass it on, eCryptfs does not sync what is below, and a
    /// network file system does what its client and server have agreed on. So types that are not known are not trusted.
    var syncsWhole: Bool { keepsOrder || Self.otherLocal.contains(number) }

    /// Whether an object keeps its inode number, and has its time of making on the disk as soon as it is there. On overlayfs
    /// a first write can change the number. Types that are not known are not trusted.
    var keepsIdentity: Bool { keepsOrder && number != Self.overlay }
}
