// The results of stat(2) and statvfs(3) as Swift values.

/// The type of an object of the backing store. The raw values are those of `d_type` (readdir(3)).
public enum FileKind: UInt8, Sendable {
    /// The file system does not say. Use `status(of:)`.
    case unknown = 0
    case fifo = 1
    case characterDevice = 2
    case directory = 4
    case blockDevice = 6
    /// A regular file.
    case regular = 8
    /// A symbolic link.
    case symlink = 10
    case socket = 12

    /// The kind in the type bits of an `st_mode`.
    public init(mode: UInt32) {
        self = FileKind(rawValue: UInt8((mode >> 12) & 15)) ?? .unknown
    }

    /// The type bits of an `st_mode`.
    public var modeBits: UInt32 { UInt32(rawValue) << 12 }
}

/// A time of the backing store, since 1970-01-01 UTC.
public struct Timestamp: Hashable, Sendable {
    /// Whole seconds.
    public var seconds: Int64
    /// Nanoseconds, 0–999,999,999.
    public var nanoseconds: Int64

    /// Makes a time from its parts.
    public init(seconds: Int64, nanoseconds: Int64) {
        self.seconds = seconds
        self.nanoseconds = nanoseconds
    }

    /// The whole time in nanoseconds, as far as the number can hold it (1677 to 2262).
    package var nanosecondsSince1970: Int64 {
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, isAbove) = product.addingReportingOverflow(nanoseconds)
        return overflow || isAbove ? (seconds < 0 ? .min : .max) : sum
    }
}

/// How `setTimes` changes a time (utimensat(2)).
public enum TimeChange: Hashable, Sendable {
    /// Leaves it unchanged.
    case keep
    /// Sets the store's current time.
    case now
    /// Sets this time.
    case set(Timestamp)
}

/// The status of an object (statx(2)).
public struct Status: Hashable, Sendable {
    /// `st_dev`.
    public var device: UInt64
    /// `st_ino`.
    public var inode: UInt64
    /// `st_mode`: type and permission bits.
    public var mode: UInt32
    /// Number of hard links.
    public var links: UInt64
    /// `st_uid`.
    public var owner: UInt32
    /// `st_gid`.
    public var group: UInt32
    /// Device number of a device file.
    public var specialDevice: UInt64
    /// Length in bytes, of the backing object.
    public var size: UInt64
    /// Space used, in units of 512 bytes.
    public var blocks: UInt64
    /// Preferred unit of input and output, in bytes.
    public var blockSize: UInt64
    /// Last access.
    public var accessed: Timestamp
    /// Last change of the content, as programs are shown it.
    public var modified: Timestamp
    /// The modification time that the store has and backups see (`StoredTime`).
    public let stored: Timestamp
    /// Last change of the inode.
    public var changed: Timestamp
    /// When the object was made; nil if the file system does not say. With the inode number it tells an object from later
    /// ones that get its number.
    public var born: Timestamp?

    /// Makes a status from its values.
    package init(
        device: UInt64, inode: UInt64, mode: UInt32, links: UInt64, owner: UInt32, group: UInt32,
        specialDevice: UInt64, size: UInt64, blocks: UInt64, blockSize: UInt64, accessed: Timestamp,
        modified: Timestamp, changed: Timestamp, born: Timestamp? = nil
    ) {
        self.device = device
        self.inode = inode
        self.mode = mode
        self.links = links
        self.owner = owner
        self.group = group
        self.specialDevice = specialDevice
        self.size = size
        self.blocks = blocks
        self.blockSize = blockSize
        self.accessed = accessed
        self.modified = modified
        stored = modified
        self.changed = changed
        self.born = born
    }

    /// The object's type.
    public var kind: FileKind { FileKind(mode: mode) }
}

/// Space and limits of the backing file system (statvfs(3)).
public struct StoreStatistics: Hashable, Sendable {
    /// Preferred block size in bytes.
    public var blockSize: UInt64
    /// Unit of the block counts, in bytes.
    public var fragmentSize: UInt64
    /// Blocks of the file system, used or not.
    public var blocks: UInt64
    /// Free blocks.
    public var blocksFree: UInt64
    /// Free blocks for ordinary users.
    public var blocksAvailable: UInt64
    /// All inodes.
    public var files: UInt64
    /// Free inodes.
    public var filesFree: UInt64
    /// Longest name, in bytes.
    public var nameLength: UInt64

    /// Makes statistics from their values.
    package init(
        blockSize: UInt64, fragmentSize: UInt64, blocks: UInt64, blocksFree: UInt64, blocksAvailable: UInt64,
        files: UInt64, filesFree: UInt64, nameLength: UInt64
    ) {
        self.blockSize = blockSize
        self.fragmentSize = fragmentSize
        self.blocks = blocks
        self.blocksFree = blocksFree
        self.blocksAvailable = blocksAvailable
        self.files = files
        self.filesFree = filesFree
        self.nameLength = nameLength
    }
}

/// One entry of a listing.
public struct DirectoryEntry: Hashable, Sendable {
    /// Its name; never `.` or `..`.
    public var name: EntryName
    /// Its inode number.
    public var inode: UInt64
    /// Its type; `.unknown` if the file system does not say.
    public var kind: FileKind

    /// Makes an entry from its values.
    package init(name: EntryName, inode: UInt64, kind: FileKind) {
        self.name = name
        self.inode = inode
        self.kind = kind
    }
}

/// What a directory's listing has. A store may list `.` and `..` anywhere, or not at all.
public enum ListedObject: Hashable, Sendable {
    /// `.`
    case itself
    /// `..`
    case parent
    /// Every other entry.
    case entry(DirectoryEntry)
}

extension Status {
    /// Whether an access moves the access time under `relatime`: nothing was read since the last change, or for a day.
    public func accessTimeIsDue(at now: Int64) -> Bool {
        !(modified < accessed) || !(changed < accessed) || accessed.seconds <= now &- 86_400
    }
}

extension Timestamp: Comparable {
    /// Whether the left time is earlier.
    public static func < (one: Timestamp, other: Timestamp) -> Bool {
        (one.seconds, one.nanoseconds) < (other.seconds, other.nanoseconds)
    }
}
