// Where a file lies on the disk, and so whether overwriting it destroys what was in it.

import CLinuxShim
import Glibc
import HostSystem

/// Why a disk may hold the former bytes of a file that was overwritten.
public struct OverwriteDoubt: Sendable, Hashable {
    /// The reason; raw values are words of the interface.
    public enum Reason: String, Sendable, CaseIterable {
        /// The file system writes changed data to another place: Btrfs, ZFS, bcachefs, F2FS, NILFS2.
        case copyOnWrite = "copy-on-write"
        /// Another file system, or a program, decides where the bytes go: overlayfs, FUSE, eCryptfs.
        case layered
        /// Another machine does: NFS, SMB, Ceph, 9P.
        case network
        /// The file system lies in memory, which may be swapped out.
        case memory
        /// Contents go through the journal, which keeps them: ext4 with data=journal.
        case journal
        /// The file lay in its inode, of which the journal keeps copies: ext4 with inline_data.
        case inline
        /// A snapshot or a clone shares the blocks.
        case shared
        /// What was written went to other blocks.
        case moved
        /// What was read back may have come from memory.
        case cache
        /// Nobody knows how this file system overwrites.
        case unknown
    }

    /// The file system's name.
    public let fileSystem: String
    /// The reason.
    public let reason: Reason

    /// Names a file system and a reason.
    public init(_ fileSystem: String, _ reason: Reason) {
        self.fileSystem = fileSystem
        self.reason = reason
    }
}

/// Where a file's bytes lie, as its file system tells.
struct Placement {
    /// Why overwriting the file proves nothing; nil where it does not matter.
    let doubt: OverwriteDoubt?
    /// Places on the disk by places in the file, for every 512 bytes.
    let places: [UInt64: UInt64]
    /// The file system's name.
    let fileSystem: String

    /// What overwriting in place is known of: everything else is doubted.
    private static let inPlace: [Int64: String] = [0xEF53: "ext4", 0x5846_5342: "XFS"]
    /// By `f_type` (statfs(2)).
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
            // Bounded, as an extent that is not written to can be long.
            for offset in stride(from: UInt64(0), to: min(extent.length, 2 << 20), by: 512) {
                places[extent.logical + offset] = extent.physical + offset
            }
        }
        return Placement(doubt: nil, places: places, fileSystem: name)
    }

    private static func doubted(_ fileSystem: String, _ reason: OverwriteDoubt.Reason) -> Placement {
        Placement(doubt: OverwriteDoubt(fileSystem, reason), places: [:], fileSystem: fileSystem)
    }

    /// Whether everything that was somewhere on the disk is in the same place still.
    func isKept(in other: Placement) -> Bool { places.allSatisfy { other.places[$0.key] == $0.value } }

    private static func extents(of host: HostObject) -> [pfs_extent]? {
        var extents = [pfs_extent](repeating: pfs_extent(), count: 256)
        // No more are written than there is room for.
        let count = unsafe pfs_extents(host.number, &extents, UInt32(extents.count))
        // A file with as many as there is room for may have more.
        return (0..<extents.count).contains(Int(count)) ? Array(extents.prefix(Int(count))) : nil
    }

    // MARK: ext4

    /// Whether ext4 keeps contents of this file elsewhere too.
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

    /// Bytes that are read of a file system's options: more than ext4 has.
    private static let longestOptions = 16_384

    /// All options of a mounted ext4 file system; the mount table leaves out those that its superblock asks for.
    private static func options(ofDevice device: UInt64) -> String? {
        var target = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let link = "/sys/dev/block/\(pfs_major(device)):\(pfs_minor(device))"
        let length = unsafe target.withUnsafeMutableBytes { bytes in
            // Writes no more than the buffer takes.
            unsafe bytes.baseAddress.map { unsafe readlink(link, $0.assumingMemoryBound(to: CChar.self), bytes.count) }
                ?? 0
        }
        guard length > 0 else { return nil }
        let name = String(decoding: target.prefix(length), as: UTF8.self).split(separator: "/").last ?? ""
        guard let text = try? readFile(HostPath("/proc/fs/ext4/\(name)/options")) else { return nil }
        return String(decoding: text, as: UTF8.self)
    }
}
