// The error number of a system call, as a typed Swift error.

import CLibrary

/// The `errno` of a failed system call (errno(3)).
///
/// It is public, unlike the rest of the module, because the abstract classes of BackingStore throw it and must be
/// `open`.
public struct Errno: RawRepresentable, Error, Hashable, Sendable, CustomStringConvertible {
    /// The positive number of `<errno.h>`.
    public let rawValue: Int32

    /// Takes a number of `<errno.h>`.
    public init(rawValue: Int32) {
        self.rawValue = rawValue
    }

    /// The error of this thread's last call.
    package static var last: Errno { Errno(rawValue: errno) }

    /// The text of strerror(3).
    public var description: String {
        unsafe strerror(rawValue).map { unsafe String(cString: $0) } ?? "error \(rawValue)"
    }
}

extension Errno {
    /// Operation not permitted.
    public static let EPERM = Errno(rawValue: CLibrary.EPERM)
    /// No such file or directory.
    public static let ENOENT = Errno(rawValue: CLibrary.ENOENT)
    /// Interrupted.
    public static let EINTR = Errno(rawValue: CLibrary.EINTR)
    /// Input/output error.
    public static let EIO = Errno(rawValue: CLibrary.EIO)
    /// No such device or address. Also when a FIFO, socket or device is opened as a file.
    public static let ENXIO = Errno(rawValue: CLibrary.ENXIO)
    /// Bad descriptor.
    public static let EBADF = Errno(rawValue: CLibrary.EBADF)
    /// The call would block, for instance because another process holds a lock.
    public static let EAGAIN = Errno(rawValue: CLibrary.EAGAIN)
    /// Out of memory.
    public static let ENOMEM = Errno(rawValue: CLibrary.ENOMEM)
    /// Permission denied.
    public static let EACCES = Errno(rawValue: CLibrary.EACCES)
    /// Busy.
    public static let EBUSY = Errno(rawValue: CLibrary.EBUSY)
    /// Exists already.
    public static let EEXIST = Errno(rawValue: CLibrary.EEXIST)
    /// Link across file systems.
    public static let EXDEV = Errno(rawValue: CLibrary.EXDEV)
    /// Not a directory.
    public static let ENOTDIR = Errno(rawValue: CLibrary.ENOTDIR)
    /// Is a directory.
    public static let EISDIR = Errno(rawValue: CLibrary.EISDIR)
    /// Invalid argument.
    public static let EINVAL = Errno(rawValue: CLibrary.EINVAL)
    /// Too many open files in the process.
    public static let EMFILE = Errno(rawValue: CLibrary.EMFILE)
    /// Too many open files in the system. Also when the store's quota of descriptors is used up.
    public static let ENFILE = Errno(rawValue: CLibrary.ENFILE)
    /// File too large.
    public static let EFBIG = Errno(rawValue: CLibrary.EFBIG)
    /// Argument list, or value of an attribute, too long.
    public static let E2BIG = Errno(rawValue: CLibrary.E2BIG)
    /// No space left.
    public static let ENOSPC = Errno(rawValue: CLibrary.ENOSPC)
    /// Read-only file system.
    public static let EROFS = Errno(rawValue: CLibrary.EROFS)
    /// Too many links.
    public static let EMLINK = Errno(rawValue: CLibrary.EMLINK)
    /// Out of range.
    public static let ERANGE = Errno(rawValue: CLibrary.ERANGE)
    /// Name too long.
    public static let ENAMETOOLONG = Errno(rawValue: CLibrary.ENAMETOOLONG)
    /// Not implemented.
    public static let ENOSYS = Errno(rawValue: CLibrary.ENOSYS)
    /// Directory not empty.
    public static let ENOTEMPTY = Errno(rawValue: CLibrary.ENOTEMPTY)
    /// A symbolic link that may not be followed, or too many of them.
    public static let ELOOP = Errno(rawValue: CLibrary.ELOOP)
    /// No such attribute.
    public static let ENODATA = Errno(rawValue: CLibrary.ENODATA)
    /// Too big to represent.
    public static let EOVERFLOW = Errno(rawValue: CLibrary.EOVERFLOW)
    /// Not a request that the object knows.
    public static let ENOTTY = Errno(rawValue: CLibrary.ENOTTY)
    /// Not supported.
    public static let EOPNOTSUPP = Errno(rawValue: CLibrary.EOPNOTSUPP)
    /// No locks available.
    public static let ENOLCK = Errno(rawValue: CLibrary.ENOLCK)
    /// Waited too long.
    public static let ETIMEDOUT = Errno(rawValue: CLibrary.ETIMEDOUT)
    /// Stale handle.
    public static let ESTALE = Errno(rawValue: CLibrary.ESTALE)
    /// Over quota.
    public static let EDQUOT = Errno(rawValue: CLibrary.EDQUOT)
}
