// Finds the blocks of a file on the disk, to decide whether overwriting the file destroys its old content.

import CLibrary
import CLinuxShim
import HostSystem

/// The reason why a disk may still have the old bytes of an overwritten file.
public struct OverwriteDoubt: Sendable, Hashable {
    /// The reason. The raw values are part of the interface.
    public enum Reason: String, Sendable, CaseIterable {
        /// The file system writes changed data to other blocks (Btrfs, ZFS, bcachefs, F2FS, NILFS2).
        case copyOnWrite = "copy-on-write"
        /// Another file system or a program chooses the blocks (overlayfs, FUSE, eCryptfs).
        case layered
        /// Another machine chooses the blocks (NFS, SMB, Ceph, 9P).
        case network
        /// The file system is in memory, which may be swapped out.
        case memory
        /// The journal has copies of the content (ext4 with data=journal).
        case journal
        /// The content was in the inode, and the journal has copies of inodes (ext4 with inline_data).
        case inline
        /// A snapshot or a clone shares the blocks.
        case shared
        /// The new bytes were written to other blocks.
        case moved
        /// The bytes read back may have come from memory.
        case cache
        /// The file is too long to be overwritten to its end.
        case length
        /// It is unknown how this file system overwrites.
        case unknown
    }

    /// The file system's name.
    public let fileSystem: String
    /// Why nothing proves that it overwrites in place.
    public let reason: Reason

    /// Names a file system and a reason.
    public init(_ fileSystem: String, _ reason: Reason) {
        self.fileSystem = fileSystem
        self.reason = reason
    }
}

/// The places of a file's bytes on the disk, as its file system reports them.
struct Placement {
    /// The reason why overwriting the file gives no certainty; nil if there is none.
    let doubt: OverwriteDoubt?
    /// Offsets on the disk by offsets in the file, for every 512 bytes.
    let places: [UInt64: UInt64]
    /// The file system's name.
    let fileSystem: String

    /// File systems that are known to overwrite in place, by `f_type` (statfs(2)). All others are doubted.
    private static let inPlace: [Int64: String] = [0xEF53: "ext4", 0x5846_5342: "XFS"]
    /// File systems that are known not to overwrite in place, by `f_type` (statfs(2)).
    private static let doubtful: [Int64: (String, OverwriteDoubt.Reason)] = [
        0x9123_683E: ("Btrfs", .copyOnWrite), 0x2FC1_2FC1: ("ZFS", .copyOnWrite),
        0xCA45_1A4E: ("bcachefs", .copyOnWrite), 0xF2F5_2010: ("F2FS", .copyOnWrite), 0x3434: ("NILFS2", .copyOnWrite),
        0x794C_7630: ("overlayfs", .layered), 0x6573_5546: ("FUSE", .layered), 0xF15F: ("eCryptfs", .layered),
        0x6969: ("NFS", .network), 0xFF53_4D42: ("SMB", .network), 0xFE53_4D42: ("SMB", .network),
        0x00C3_6400: ("Ceph", .network), 0x0102_1997: ("9P", .network), 0x0102_1994: ("tmpfs", .memory),
        0x8584_58F6: ("ramfs", .memory),
    ]

    static func of(_ host: HostObject) -> Placement {
        let type = pfs_filesystem_type(host.number)
        guard let name = inPlace[type] else {
            let known = doubtful[type] ?? ("a file system of type 0x\(String(type, radix: 16))", .unknown)
            return doubted(known.0, known.1)
        }
        if name == "ext4", let reason = journalled(host) { return doubted(name, reason) }
        guard let extents = extents(of: host) else { return doubted(name, .unknown) }
        var places: [UInt64: UInt64] = [:]
        for extent in extents {
            if extent.flags & pfs_EXTENT_INLINE != 0 { return doubted(name, .inline) }
            if extent.flags & pfs_EXTENT_SHARED != 0 { return doubted(name, .shared) }
            if extent.flags & pfs_EXTENT_VAGUE != 0 { return doubted(name, .unknown) }
            // The length is limited, because an unwritten extent can be long.
            for offset in stride(from: UInt64(0), to: min(extent.length, 2 << 20), by: 512) {
                places[extent.logical + offset] = extent.physical + offset
            }
        }
        return Placement(doubt: nil, places: places, fileSystem: name)
    }

    private static func doubted(_ fileSystem: String, _ reason: OverwriteDoubt.Reason) -> Placement {
        Placement(doubt: OverwriteDoubt(fileSystem, reason), places: [:], fileSystem: fileSystem)
    }

    /// Whether every byte that was on the disk is still at the same place.
    func isKept(in other: Placement) -> Bool { places.allSatisfy { other.places[$0.key] == $0.value } }

    private static func extents(of host: HostObject) -> [pfs_extent]? {
        var extents = [pfs_extent](repeating: pfs_extent(), count: 256)
        // The call writes at most `extents.count` elements.
        let count = unsafe pfs_extents(host.number, &extents, UInt32(extents.count))
        // A file that fills the array may have more extents.
        return (0..<extents.count).contains(Int(count)) ? Array(extents.prefix(Int(count))) : nil
    }

    // MARK: ext4

    /// The reason if ext4 may have copies of this file's content elsewhere.
    private static func journalled(_ host: HostObject) -> OverwriteDoubt.Reason? {
        let flags = pfs_inode_flags(host.number)
        guard flags >= 0 else { return .unknown }
        if flags & pfs_INODE_INLINE != 0 { return .inline }
        if flags & pfs_INODE_JOURNALLED != 0 { return .journal }
        guard let device = try? host.status().device, let options = options(ofDevice: device) else {
            return .unknown
        }
        return options.split(separator: "\n").contains("data=journal") ? .journal : nil
    }

    /// All options of a mounted ext4 file system. The mount table lacks those that the superblock sets.
    private static func options(ofDevice device: UInt64) -> String? {
        var target = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let link = "/sys/dev/block/\(pfs_major(device)):\(pfs_minor(device))"
        let length = unsafe target.withUnsafeMutableBytes { bytes in
            // The call writes no more than the buffer's length.
            unsafe bytes.baseAddress.map { unsafe readlink(link, $0.assumingMemoryBound(to: CChar.self), bytes.count) }
                ?? 0
        }
        guard length > 0 else { return nil }
        let name = String(decoding: target.prefix(length), as: UTF8.self).split(separator: "/").last ?? ""
        guard let text = try? readFile(HostPath("/proc/fs/ext4/\(name)/options")) else { return nil }
        return String(decoding: text, as: UTF8.self)
    }
}
