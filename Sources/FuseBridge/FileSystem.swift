// The operations of a file system.

/// One method for each request of the kernel. libfuse answers all others with ENOSYS.
///
/// Called by several worker threads at once. A method must consume its reply, may keep none of its spans, and must hold
/// no lock while replying that a request needs.
package protocol FileSystem: AnyObject, Sendable {
    /// The wishes to ask of the kernel.
    var connection: RequestedCapabilities { get }

    func lookup(_ request: borrowing Request, parent: NodeID, name: Span<UInt8>, _ reply: consuming Reply)
    /// The kernel releases `count` lookups of `node`. It wants no answer.
    func forget(_ node: NodeID, count: UInt64)
    /// `handle` is given only if the program named an open file, or writes through the page cache.
    func getAttributes(
        _ request: borrowing Request, node: NodeID, handle: HandleInfo?, _ reply: consuming Reply
    )
    func setAttributes(
        _ request: borrowing Request, node: NodeID, _ changes: AttributeChanges, handle: HandleInfo?,
        _ reply: consuming Reply
    )
    func readlink(_ request: borrowing Request, node: NodeID, _ reply: consuming Reply)
    func mknod(
        _ request: borrowing Request, parent: NodeID, name: Span<UInt8>, mode: UInt32, device: UInt64,
        _ reply: consuming Reply
    )
    func mkdir(
        _ request: borrowing Request, parent: NodeID, name: Span<UInt8>, mode: UInt32, _ reply: consuming Reply
    )
    func unlink(_ request: borrowing Request, parent: NodeID, name: Span<UInt8>, _ reply: consuming Reply)
    func rmdir(_ request: borrowing Request, parent: NodeID, name: Span<UInt8>, _ reply: consuming Reply)
    func symlink(
        _ request: borrowing Request, target: Span<UInt8>, parent: NodeID, name: Span<UInt8>, _ reply: consuming Reply
    )
    /// `flags` are those of renameat2(2).
    func rename(
        _ request: borrowing Request, parent: NodeID, name: Span<UInt8>, newParent: NodeID, newName: Span<UInt8>,
        flags: UInt32, _ reply: consuming Reply
    )
    func link(
        _ request: borrowing Request, node: NodeID, newParent: NodeID, newName: Span<UInt8>, _ reply: consuming Reply
    )
    func open(_ request: borrowing Request, node: NodeID, flags: Int32, _ reply: consuming Reply)
    /// The name is `Session.noName` for a file without a name (O_TMPFILE).
    func create(
        _ request: borrowing Request, parent: NodeID, name: Span<UInt8>, mode: UInt32, flags: Int32,
        _ reply: consuming Reply
    )
    /// `buffer` is page-aligned, belongs to the worker and has room for `maximumWrite` and 16 KiB more. The reply may be any
    /// part of it, of at most `count` bytes.
    func read(
        _ request: borrowing Request, node: NodeID, handle: HandleInfo, offset: UInt64, count: Int,
        buffer: inout MutableSpan<UInt8>, _ reply: consuming Reply
    )
    func write(
        _ request: borrowing Request, node: NodeID, handle: HandleInfo, offset: UInt64, data: Span<UInt8>,
        _ reply: consuming Reply
    )
    func flush(_ request: borrowing Request, node: NodeID, handle: HandleInfo, _ reply: consuming Reply)
    func release(_ request: borrowing Request, node: NodeID, handle: HandleInfo, _ reply: consuming Reply)
    func fsync(
        _ request: borrowing Request, node: NodeID, handle: HandleInfo, dataOnly: Bool, _ reply: consuming Reply
    )
    /// After ENOSYS the kernel does not ask again, if it agreed to that (NO_OPENDIR_SUPPORT).
    func opendir(_ request: borrowing Request, node: NodeID, flags: Int32, _ reply: consuming Reply)
    func readdir(
        _ request: borrowing Request, node: NodeID, handle: UInt64, offset: Int64,
        buffer: inout DirectoryBuffer, _ reply: consuming Reply
    )
    func releasedir(_ request: borrowing Request, node: NodeID, handle: UInt64, _ reply: consuming Reply)
    func fsyncdir(
        _ request: borrowing Request, node: NodeID, handle: UInt64, dataOnly: Bool, _ reply: consuming Reply
    )
    func statfs(_ request: borrowing Request, node: NodeID, _ reply: consuming Reply)
    /// `flags` are those of setxattr(2).
    func setXattr(
        _ request: borrowing Request, node: NodeID, name: Span<UInt8>, value: Span<UInt8>, flags: Int32,
        _ reply: consuming Reply
    )
    /// `size` 0 asks for the size alone. `buffer` as for `read`.
    func getXattr(
        _ request: borrowing Request, node: NodeID, name: Span<UInt8>, size: Int, buffer: inout MutableSpan<UInt8>,
        _ reply: consuming Reply
    )
    /// `size` 0 asks for the size alone.
    func listXattr(_ request: borrowing Request, node: NodeID, size: Int, _ reply: consuming Reply)
    func removeXattr(_ request: borrowing Request, node: NodeID, name: Span<UInt8>, _ reply: consuming Reply)
    /// `input` is the argument, and the answer has `room` bytes.
    func ioctl(
        _ request: borrowing Request, node: NodeID, command: UInt32, input: Span<UInt8>, room: Int,
        _ reply: consuming Reply
    )
    func fallocate(
        _ request: borrowing Request, node: NodeID, handle: HandleInfo, mode: Int32, offset: UInt64,
        length: UInt64, _ reply: consuming Reply
    )
    /// A lock that conflicts with `bytes`, for F_GETLK. Without the wish for remote locks the kernel asks for none.
    func getLock(
        _ request: borrowing Request, node: NodeID, handle: HandleInfo, _ bytes: LockedBytes, _ reply: consuming Reply
    )
    /// Takes or ends a lock with fcntl(2). EAGAIN if it conflicts; with `waits` the answer comes when it does not any more.
    func setLock(
        _ request: borrowing Request, node: NodeID, handle: HandleInfo, _ bytes: LockedBytes, waits: Bool,
        _ reply: consuming Reply
    )
    /// The same with flock(2).
    func lockFile(
        _ request: borrowing Request, node: NodeID, handle: HandleInfo, _ kind: LockKind, waits: Bool,
        _ reply: consuming Reply
    )
    /// `whence` is SEEK_END, SEEK_DATA or SEEK_HOLE. The kernel does the others itself.
    func lseek(
        _ request: borrowing Request, node: NodeID, handle: HandleInfo, offset: Int64, whence: Int32,
        _ reply: consuming Reply
    )
    func copyFileRange(
        _ request: borrowing Request, from node: NodeID, handle: HandleInfo, offset: UInt64,
        to target: NodeID, targetHandle: HandleInfo, targetOffset: UInt64, length: UInt64, flags: Int32,
        _ reply: consuming Reply
    )
}

/// The capabilities that a mount asks of the kernel. Those that the kernel does not offer are dropped.
package struct RequestedCapabilities: Sendable {
    /// Writes are collected in the page cache, and the kernel owns size and mtime.
    package var writeBackCache = true
    /// The kernel sends several direct requests of one file at the same time, for a program that does not wait for each. After
    /// such a write it does not drop the pages that were read meanwhile.
    package var asynchronousDirectIO = true
    /// The kernel drops cached pages only when it is told to. If off, it also drops them when size or mtime changed below.
    package var explicitInvalidation = true
    /// Listings come as READDIRPLUS, whose entries may have attributes. If off, as READDIR.
    package var listedAttributes = true
    /// The kernel chooses between the two itself (FUSE_READDIRPLUS_AUTO).
    package var choosesListing = false
    /// The kernel reads symlinks once.
    package var cacheSymlinks = true
    /// The kernel checks and keeps POSIX ACLs. The file system then applies the umask.
    package var accessControlLists = true
    /// OPENDIR may be answered ENOSYS.
    package var noOpendir = true
    /// Locks of programs come as requests. If off, the kernel keeps them.
    package var remoteLocks = false
    /// The most bytes of one READ or WRITE: 64 KiB to 1 MiB.
    package var maximumWrite: UInt32 = 1 << 20
    /// Requests that the kernel may send ahead (readahead, write-back).
    package var maximumBackground: UInt32 = 64

    /// The wishes of an exclusive mount.
    package init() {}
}
