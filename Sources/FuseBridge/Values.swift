// The plain values in requests and replies.

internal import CFuse3
internal import CLibrary

/// The kernel's number for an inode of this mount. 1 is the root.
package typealias NodeID = UInt64

/// The root's number.
package let rootNodeID: NodeID = 1

/// A point in time since 1970, as `struct timespec`.
package struct Timestamp: Sendable, Equatable {
    /// Whole seconds. Negative before 1970.
    package var seconds: Int64
    /// 0..<1,000,000,000.
    package var nanoseconds: Int64

    /// Makes a value from its fields.
    package init(seconds: Int64, nanoseconds: Int64) {
        self.seconds = seconds
        self.nanoseconds = nanoseconds
    }
}

/// An inode's facts for stat(2).
package struct Attributes: Sendable {
    /// The inode number that programs see.
    package var inode: UInt64 = 0
    /// Type and permission bits.
    package var mode: UInt32 = 0
    /// Hard links.
    package var links: UInt64 = 1
    /// User.
    package var owner: UInt32 = 0
    /// The number of the group.
    package var group: UInt32 = 0
    /// For a device file, its number.
    package var device: UInt64 = 0
    /// In bytes.
    package var size: Int64 = 0
    /// In units of 512 bytes.
    package var blocks: Int64 = 0
    /// Preferred size of I/O, in bytes.
    package var blockSize = Int(FileSystemStatus.preferredBlockSize)
    /// Last access.
    package var accessed = Timestamp(seconds: 0, nanoseconds: 0)
    /// Last change of content.
    package var modified = Timestamp(seconds: 0, nanoseconds: 0)
    /// Last change of anything.
    package var changed = Timestamp(seconds: 0, nanoseconds: 0)

    /// Makes a value from its fields.
    package init() {}

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
package struct Entry: Sendable {
    /// 0 means that the name does not exist, for `entryTimeout`.
    package var node: NodeID
    /// Differs whenever a number is used again.
    package var generation: UInt64
    /// The attributes for stat(2).
    package var attributes: Attributes
    /// In seconds.
    package var attributeTimeout: Double
    /// In seconds.
    package var entryTimeout: Double

    /// Makes a value from its fields.
    package init(
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
package struct HandleInfo: Sendable {
    /// The number from the reply to OPEN.
    package var handle: UInt64
    /// The flags of open(2).
    package var flags: Int32
    /// WRITE only: the data comes from the page cache. Handle and caller may then be any of the inode's.
    package var isWritePage: Bool
    /// The owner of the program's locks: a process, or for flock(2) an open file. 0 if the kernel names none.
    package var lockOwner: UInt64
    /// READ only: the data is for the page cache. A READ past the cache names the owner of the program's locks.
    package var isReadPage: Bool { lockOwner == 0 }
}

/// How a file is opened: the answer to OPEN and CREATE.
package struct OpenReply: Sendable {
    /// The number for later requests.
    package var handle: UInt64
    /// Data does not go through the page cache.
    package var directIO: Bool
    /// Cached pages stay valid.
    package var keepCache: Bool

    /// Makes a value from its fields.
    package init(handle: UInt64, directIO: Bool, keepCache: Bool) {
        self.handle = handle
        self.directIO = directIO
        self.keepCache = keepCache
    }
}

/// The changes that SETATTR asks for. Nil means no change.
package struct AttributeChanges: Sendable {
    /// A time to set.
    package enum Time: Sendable, Equatable {
        case now
        case at(Timestamp)
    }

    /// Permission bits (and type).
    package var mode: UInt32?
    /// User.
    package var owner: UInt32?
    /// The number of the group.
    package var group: UInt32?
    /// In bytes.
    package var size: Int64?
    /// Last access.
    package var accessed: Time?
    /// Last change of content.
    package var modified: Time?
    /// Sent by the kernel under write-back caching.
    package var changed: Timestamp?

    /// Makes a value from its fields.
    package init() {}

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
package struct FileSystemStatus: Sendable {
    /// The default of the preferred size of I/O, in bytes.
    package static let preferredBlockSize: UInt64 = 4096
    /// Preferred size of I/O, in bytes.
    package var blockSize = FileSystemStatus.preferredBlockSize
    /// Of `blockSize` bytes.
    package var blocks: UInt64 = 0
    /// Free for root.
    package var freeBlocks: UInt64 = 0
    /// Free for everyone.
    package var availableBlocks: UInt64 = 0
    /// Inodes.
    package var files: UInt64 = 0
    /// Free inodes.
    package var freeFiles: UInt64 = 0
    /// Longest name, in bytes.
    package var nameLimit: UInt64 = 255

    /// Makes a value from its fields.
    package init() {}

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
