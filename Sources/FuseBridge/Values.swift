// The plain values in requests and replies.

internal import CFuse3
internal import CLibrary

/// The kernel's number for an inode of this mount. 1 is the root.
public typealias NodeID = UInt64

/// The root's number.
public let rootNodeID: NodeID = 1

/// A point in time since 1970, as `struct timespec`.
public struct Timestamp: Sendable, Equatable {
    /// Whole seconds. Negative before 1970.
    public var seconds: Int64
    /// 0..<1,000,000,000.
    public var nanoseconds: Int64

    /// Makes a value from its fields.
    public init(seconds: Int64, nanoseconds: Int64) {
        self.seconds = seconds
        self.nanoseconds = nanoseconds
    }
}

/// An inode's facts for stat(2).
public struct Attributes: Sendable {
    /// The inode number that programs see.
    public var inode: UInt64 = 0
    /// Type and permission bits.
    public var mode: UInt32 = 0
    /// Hard links.
    public var links: UInt64 = 1
    /// User.
    public var owner: UInt32 = 0
    /// The number of the group.
    public var group: UInt32 = 0
    /// For a device file, its number.
    public var device: UInt64 = 0
    /// In bytes.
    public var size: Int64 = 0
    /// In units of 512 bytes.
    public var blocks: Int64 = 0
    /// Preferred size of I/O, in bytes.
    public var blockSize = Int(FileSystemStatus.preferredBlockSize)
    /// Last access.
    public var accessed = Timestamp(seconds: 0, nanoseconds: 0)
    /// Last change of content.
    public var modified = Timestamp(seconds: 0, nanoseconds: 0)
    /// Last change of anything.
    public var changed = Timestamp(seconds: 0, nanoseconds: 0)

    /// Makes a value from its fields.
    public init() {}

    var stat: stat {
        var result = CLibrary.stat()
        result.st_ino = ino_t(inode)
        result.st_mode = mode
        result.st_nlink = nlink_t(truncatingIfNeeded: links)
        result.st_uid = owner
        result.st_gid = group
        result.st_rdev = dev_t(device)
        result.st_size = off_t(size)
        result.st_blocks = blkcnt_t(blocks)
        result.st_blksize = blksize_t(blockSize)
        result.st_atim = timespec(accessed)
        result.st_mtim = timespec(modified)
        result.st_ctim = timespec(changed)
        return result
    }
}

extension timespec {
    fileprivate init(_ time: Timestamp) {
        self.init(tv_sec: Int(time.seconds), tv_nsec: Int(time.nanoseconds))
    }
}

/// The object that a name leads to, and how long the kernel may believe it.
public struct Entry: Sendable {
    /// 0 means that the name does not exist, for `entryTimeout`.
    public var node: NodeID
    /// Differs whenever a number is used again.
    public var generation: UInt64
    /// The attributes for stat(2).
    public var attributes: Attributes
    /// In seconds.
    public var attributeTimeout: Double
    /// In seconds.
    public var entryTimeout: Double

    /// Makes a value from its fields.
    public init(
        node: NodeID, generation: UInt64, attributes: Attributes, attributeTimeout: Double, entryTimeout: Double
    ) {
        self.node = node
        self.generation = generation
        self.attributes = attributes
        self.attributeTimeout = attributeTimeout
        self.entryTimeout = entryTimeout
    }

    var parameters: fuse_entry_param {
        var result = fuse_entry_param()
        result.ino = node
        result.generation = generation
        result.attr = attributes.stat
        result.attr_timeout = attributeTimeout
        result.entry_timeout = entryTimeout
        return result
    }
}

/// The open file of a request.
public struct HandleInfo: Sendable {
    /// The number from the reply to OPEN.
    public var handle: UInt64
    /// The flags of open(2).
    public var flags: Int32
    /// WRITE only: the data comes from the page cache. Handle and caller may then be any of the inode's.
    public var isWritePage: Bool
    /// The owner of the program's locks: a process, or for flock(2) an open file. 0 if the kernel names none.
    public var lockOwner: UInt64
    /// READ only: the data is for the page cache. A READ past the cache names the owner of the program's locks.
    public var isReadPage: Bool { lockOwner == 0 }
}

/// How a file is opened: the answer to OPEN and CREATE.
public struct OpenReply: Sendable {
    /// The number for later requests.
    public var handle: UInt64
    /// Data does not go through the page cache.
    public var directIO: Bool
    /// Cached pages stay valid.
    public var keepCache: Bool

    /// Makes a value from its fields.
    public init(handle: UInt64, directIO: Bool, keepCache: Bool) {
        self.handle = handle
        self.directIO = directIO
        self.keepCache = keepCache
    }
}

/// The changes that SETATTR asks for. Nil means no change.
public struct AttributeChanges: Sendable {
    /// A time to set.
    public enum Time: Sendable, Equatable {
        case now
        case at(Timestamp)
    }

    /// Permission bits (and type).
    public var mode: UInt32?
    /// User.
    public var owner: UInt32?
    /// The number of the group.
    public var group: UInt32?
    /// In bytes.
    public var size: Int64?
    /// Last access.
    public var accessed: Time?
    /// Last change of content.
    public var modified: Time?
    /// Sent by the kernel under write-back caching.
    public var changed: Timestamp?

    /// Makes a value from its fields.
    public init() {}

    init(_ attributes: stat, _ mask: Int32) {
        if mask & FUSE_SET_ATTR_MODE != 0 { mode = attributes.st_mode }
        if mask & FUSE_SET_ATTR_UID != 0 { owner = attributes.st_uid }
        if mask & FUSE_SET_ATTR_GID != 0 { group = attributes.st_gid }
        if mask & FUSE_SET_ATTR_SIZE != 0 { size = Int64(attributes.st_size) }
        if mask & FUSE_SET_ATTR_ATIME_NOW != 0 {
            accessed = .now
        } else if mask & FUSE_SET_ATTR_ATIME != 0 {
            accessed = .at(Timestamp(attributes.st_atim))
        }
        if mask & FUSE_SET_ATTR_MTIME_NOW != 0 {
            modified = .now
        } else if mask & FUSE_SET_ATTR_MTIME != 0 {
            modified = .at(Timestamp(attributes.st_mtim))
        }
        if mask & FUSE_SET_ATTR_CTIME != 0 { changed = Timestamp(attributes.st_ctim) }
    }
}

extension Timestamp {
    fileprivate init(_ time: timespec) {
        self.init(seconds: Int64(time.tv_sec), nanoseconds: Int64(time.tv_nsec))
    }
}

/// The facts for statfs(2).
public struct FileSystemStatus: Sendable {
    /// The default of the preferred size of I/O, in bytes.
    public static let preferredBlockSize: UInt64 = 4096
    /// Preferred size of I/O, in bytes.
    public var blockSize = FileSystemStatus.preferredBlockSize
    /// Of `blockSize` bytes.
    public var blocks: UInt64 = 0
    /// Free for root.
    public var freeBlocks: UInt64 = 0
    /// Free for everyone.
    public var availableBlocks: UInt64 = 0
    /// Inodes.
    public var files: UInt64 = 0
    /// Free inodes.
    public var freeFiles: UInt64 = 0
    /// Longest name, in bytes.
    public var nameLimit: UInt64 = 255

    /// Makes a value from its fields.
    public init() {}

    var statvfs: statvfs {
        var result = CLibrary.statvfs()
        result.f_bsize = UInt(blockSize)
        result.f_frsize = UInt(blockSize)
        result.f_blocks = fsblkcnt_t(blocks)
        result.f_bfree = fsblkcnt_t(freeBlocks)
        result.f_bavail = fsblkcnt_t(availableBlocks)
        result.f_files = fsfilcnt_t(files)
        result.f_ffree = fsfilcnt_t(freeFiles)
        result.f_favail = fsfilcnt_t(freeFiles)
        result.f_namemax = UInt(nameLimit)
        return result
    }
}
