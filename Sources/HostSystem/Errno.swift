// The error number of a system call, as a typed Swift error.

import Glibc

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
    public static let EPERM = Errno(rawValue: Glibc.EPERM)
    /// No such file or directory.
    public static let ENOENT = Errno(rawValue: Glibc.ENOENT)
    /// Interrupted.
    public static let EINTR = Errno(rawValue: Glibc.EINTR)
    /// Input/output error.
    public static let EIO = Errno(rawValue: Glibc.EIO)
    /// No such device or address. Also when a FIFO, socket or device is opened as a file.
    public static let ENXIO = Errno(rawValue: Glibc.ENXIO)
    /// Bad descriptor.
    public static let EBADF = Errno(rawValue: Glibc.EBADF)
    /// The call would block, for instance because another process holds a lock.
    public static let EAGAIN = Errno(rawValue: Glibc.EAGAIN)
    /// Out of memory.
    public static let ENOMEM = Errno(rawValue: Glibc.ENOMEM)
    /// Permission denied.
    public static let EACCES = Errno(rawValue: Glibc.EACCES)
    /// Busy.
    public static let EBUSY = Errno(rawValue: Glibc.EBUSY)
    /// Exists already.
    public static let EEXIST = Errno(rawValue: Glibc.EEXIST)
    /// Link across file systems.
    public static let EXDEV = Errno(rawValue: Glibc.EXDEV)
    /// Not a directory.
    public static let ENOTDIR = Errno(rawValue: Glibc.ENOTDIR)
    /// Is a directory.
    public static let EISDIR = Errno(rawValue: Glibc.EISDIR)
    /// Invalid argument.
    public static let EINVAL = Errno(rawValue: Glibc.EINVAL)
    /// Too many open files in the process.
    public static let EMFILE = Errno(rawValue: Glibc.EMFILE)
    /// Too many open files in the system. Also when the store's quota of descriptors is used up.
    public static let ENFILE = Errno(rawValue: Glibc.ENFILE)
    /// File too large.
    public static let EFBIG = Errno(rawValue: Glibc.EFBIG)
    /// Argument list, or value of an attribute, too long.
    public static let E2BIG = Errno(rawValue: Glibc.E2BIG)
    /// No space left.
    public static let ENOSPC = Errno(rawValue: Glibc.ENOSPC)
    /// Read-only file system.
    public static let EROFS = Errno(rawValue: Glibc.EROFS)
    /// Too many links.
    public static let EMLINK = Errno(rawValue: Glibc.EMLINK)
    /// Out of range.
    public static let ERANGE = Errno(rawValue: Glibc.ERANGE)
    /// Name too long.
    public static let ENAMETOOLONG = Errno(rawValue: Glibc.ENAMETOOLONG)
    /// Not implemented.
    public static let ENOSYS = Errno(rawValue: Glibc.ENOSYS)
    /// Directory not empty.
    public static let ENOTEMPTY = Errno(rawValue: Glibc.ENOTEMPTY)
    /// A symbolic link that may not be followed, or too many of them.
    public static let ELOOP = Errno(rawValue: Glibc.ELOOP)
    /// No such attribute.
    public static let ENODATA = Errno(rawValue: Glibc.ENODATA)
    /// Too big to represent.
    public static let EOVERFLOW = Errno(rawValue: Glibc.EOVERFLOW)
    /// Not a request that the object knows.
    public static let ENOTTY = Errno(rawValue: Glibc.ENOTTY)
    /// Not supported.
    public static let EOPNOTSUPP = Errno(rawValue: Glibc.EOPNOTSUPP)
    /// No locks available.
    public static let ENOLCK = Errno(rawValue: Glibc.ENOLCK)
    /// Waited too long.
    public static let ETIMEDOUT = Errno(rawValue: Glibc.ETIMEDOUT)
    /// Stale handle.
    public static let ESTALE = Errno(rawValue: Glibc.ESTALE)
    /// Over quota.
    public static let EDQUOT = Errno(rawValue: Glibc.EDQUOT)
}
