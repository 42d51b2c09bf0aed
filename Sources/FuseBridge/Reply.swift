// The answer to a request: a value that must be consumed exactly once.

internal import CFuse3
internal import CLibrary
internal import HostSystem

/// An answer that has not been sent. One of its methods consumes it. If it is dropped, it sends EIO and writes a line to
/// stderr.
///
/// libfuse takes an answer from any thread. The request has its own memory, outside the worker's buffer.
@safe package struct Reply: ~Copyable, @unchecked Sendable {
    let request: fuse_req_t

    init(_ request: fuse_req_t) {
        unsafe self.request = request
    }

    deinit {
        unsafe fuse_reply_err(request, EIO)
        warn("a request was dropped unanswered; answered EIO")
    }

    /// Fails with `errno`, or succeeds without data if it is 0.
    package consuming func error(_ errno: Int32) {
        unsafe fuse_reply_err(request, errno)
        discard self
    }

    /// Succeeds without data.
    package consuming func success() {
        unsafe fuse_reply_err(request, 0)
        discard self
    }

    /// Ends a request that wants no answer (FORGET).
    consuming func none() {
        unsafe fuse_reply_none(request)
        discard self
    }

    /// Answers LOOKUP, MKNOD, MKDIR, SYMLINK, LINK. False if the kernel did not take the answer; it then counts no lookup.
    package consuming func entry(_ entry: Entry) -> Bool {
        var parameters = entry.parameters
        let result = unsafe fuse_reply_entry(request, &parameters)
        discard self
        return result == 0
    }

    /// Answers CREATE. False if the kernel did not take the answer; neither lookup nor handle then counts.
    package consuming func created(_ entry: Entry, _ open: OpenReply) -> Bool {
        var parameters = entry.parameters
        var info = fuse_file_info(open)
        let result = unsafe fuse_reply_create(request, &parameters, &info)
        discard self
        return result == 0
    }

    /// Answers GETATTR and SETATTR.
    package consuming func attributes(_ attributes: Attributes, timeout: Double) {
        var stat = attributes.stat
        unsafe fuse_reply_attr(request, &stat, timeout)
        discard self
    }

    /// Answers OPEN and OPENDIR. False if the kernel did not take the answer; it then sends no RELEASE.
    package consuming func opened(_ open: OpenReply) -> Bool {
        var info = fuse_file_info(open)
        let result = unsafe fuse_reply_open(request, &info)
        discard self
        return result == 0
    }

    /// Answers WRITE and COPY_FILE_RANGE with the number of bytes.
    package consuming func written(_ count: Int) {
        unsafe fuse_reply_write(request, count)
        discard self
    }

    /// Answers READ, READDIR, READLINK, GETXATTR and LISTXATTR with bytes.
    package consuming func data(_ bytes: Span<UInt8>) {
        let request = unsafe self.request
        unsafe bytes.withUnsafeBytes { buffer in
            // libfuse has copied or sent the bytes when it returns.
            _ = unsafe fuse_reply_buf(request, buffer.baseAddress?.assumingMemoryBound(to: CChar.self), buffer.count)
        }
        discard self
    }

    /// The same with an array.
    package consuming func data(_ bytes: [UInt8]) {
        let request = unsafe self.request
        unsafe bytes.withUnsafeBytes { buffer in
            _ = unsafe fuse_reply_buf(request, buffer.baseAddress?.assumingMemoryBound(to: CChar.self), buffer.count)
        }
        discard self
    }

    /// Answers GETXATTR and LISTXATTR of size 0 with the required size.
    package consuming func attributeSize(_ size: Int) {
        unsafe fuse_reply_xattr(request, size)
        discard self
    }

    /// Answers IOCTL.
    package consuming func ioctl(_ bytes: Span<UInt8>) {
        let request = unsafe self.request
        unsafe bytes.withUnsafeBytes { buffer in
            _ = unsafe fuse_reply_ioctl(request, 0, buffer.baseAddress, buffer.count)
        }
        discard self
    }

    /// Answers GETLK.
    package consuming func lock(_ found: LockedBytes) {
        var lock = found.lock
        unsafe fuse_reply_lock(request, &lock)
        discard self
    }

    /// Answers STATFS.
    package consuming func status(_ status: FileSystemStatus) {
        var buffer = status.statvfs
        unsafe fuse_reply_statfs(request, &buffer)
        discard self
    }

    /// Answers LSEEK.
    package consuming func offset(_ offset: Int64) {
        unsafe fuse_reply_lseek(request, off_t(offset))
        discard self
    }

    /// Answers READDIR and READDIRPLUS. False if the kernel did not take the answer; it then counts no lookup.
    package consuming func directory(_ buffer: borrowing DirectoryBuffer) -> Bool {
        let result = unsafe fuse_reply_buf(
            request, buffer.base.assumingMemoryBound(to: CChar.self), buffer.used)
        discard self
        return result == 0
    }
}

/// An answer that another thread gives later, so that no worker waits for it.
package final class ParkedReply: Sendable {
    private let reply: Lock<Reply?>

    /// Takes the reply over. The reply must be taken out and answered before the session is closed.
    package init(_ reply: consuming Reply) {
        self.reply = Lock(reply)
    }

    /// The reply. Only the first caller gets it.
    package func take() -> Reply? { reply.withLock { $0.take() } }
}

extension fuse_file_info {
    fileprivate init(_ open: OpenReply) {
        self.init()
        fh = open.handle
        direct_io = open.directIO ? 1 : 0
        keep_cache = open.keepCache ? 1 : 0
    }
}

/// Writes one line to stderr.
func warn(_ message: String) {
    let line = "protectfs: " + message + "\n"
    // If stderr fails, nothing can report it.
    _ = unsafe line.utf8CString.withUnsafeBytes { unsafe write(2, $0.baseAddress, $0.count - 1) }
}
