// The objects of a backing store as abstract classes: one virtual call per request, no generics, no existentials.
//
// The host's directory tree (`HostDirectory`) and the tests' store in memory that can lose power (`MemoryStore`) subclass them.

public import HostSystem

/// How a file is opened. Backing files are never opened write-only or for append: write-back needs reads, and every
/// write says its offset.
public enum FileAccess: Sendable {
    /// Reads only.
    case readOnly
    /// Reads and writes.
    case readWrite
}

/// Whether `setAttribute` may create, replace, or both (setxattr(2)).
public enum AttributeMode: Sendable {
    /// Creates or replaces.
    case set
    /// EEXIST when the attribute is there.
    case create
    /// ENODATA when the attribute is missing.
    case replace
}

/// What a rename does when the new name exists (renameat2(2)).
public enum RenameMode: Sendable {
    /// Replaces it atomically.
    case replace
    /// Fails with EEXIST.
    case noReplace
    /// Exchanges the two; ENOENT when the new name is missing.
    case exchange
}

/// The calls that objects of every kind have. A store subclasses it once, for all the handles that it gives. Thread-safe.
open class BackingObject: @unchecked Sendable {
    /// For subclasses.
    public init() {}

    /// The object's status; works for every kind, and after unlinking.
    open func status() throws(Errno) -> Status { throw .ENOSYS }
    /// Sets the permission bits (12 bits).
    open func setMode(_ mode: UInt32) throws(Errno) { throw .ENOSYS }
    /// Sets owner and group; nil leaves one alone.
    open func setOwner(_ owner: UInt32?, group: UInt32?) throws(Errno) { throw .ENOSYS }
    /// Sets access and modification time.
    open func setTimes(accessed: TimeChange, modified: TimeChange) throws(Errno) { throw .ENOSYS }

    /// The value of an extended attribute; ENODATA when there is none of that name.
    open func attribute(_ name: [UInt8]) throws(Errno) -> [UInt8] { throw .ENOSYS }
    /// Sets an extended attribute.
    open func setAttribute(_ name: [UInt8], _ value: [UInt8], mode: AttributeMode) throws(Errno) { throw .ENOSYS }
    /// Removes an extended attribute; ENODATA when there is none of that name.
    open func removeAttribute(_ name: [UInt8]) throws(Errno) { throw .ENOSYS }
    /// The names of all extended attributes.
    open func attributeNames() throws(Errno) -> [[UInt8]] { throw .ENOSYS }

    /// A file handle on the object, also after unlinking: EISDIR, ELOOP (symlink) or ENXIO (FIFO, socket, device) for
    /// another kind.
    open func openFile(_ access: FileAccess) throws(Errno) -> BackingFile { throw .ENOSYS }
}

/// A handle on an object of any kind, which survives renames and unlinking. Thread-safe.
open class BackingNode: @unchecked Sendable {
    /// What it is a handle on.
    private let object: BackingObject

    /// A handle on `object`.
    public init(_ object: BackingObject) { self.object = object }

    /// `BackingObject.status`.
    public final func status() throws(Errno) -> Status { try object.status() }
    /// `BackingObject.setMode`.
    public final func setMode(_ mode: UInt32) throws(Errno) { try object.setMode(mode) }
    /// `BackingObject.setOwner`.
    public final func setOwner(_ owner: UInt32?, group: UInt32?) throws(Errno) {
        try object.setOwner(owner, group: group)
    }
    /// `BackingObject.setTimes`.
    public final func setTimes(accessed: TimeChange, modified: TimeChange) throws(Errno) {
        try object.setTimes(accessed: accessed, modified: modified)
    }
    /// `BackingObject.attribute`.
    public final func attribute(_ name: [UInt8]) throws(Errno) -> [UInt8] { try object.attribute(name) }
    /// `BackingObject.setAttribute`.
    public final func setAttribute(_ name: [UInt8], _ value: [UInt8], mode: AttributeMode = .set) throws(Errno) {
        try object.setAttribute(name, value, mode: mode)
    }
    /// `BackingObject.removeAttribute`.
    public final func removeAttribute(_ name: [UInt8]) throws(Errno) { try object.removeAttribute(name) }
    /// `BackingObject.attributeNames`.
    public final func attributeNames() throws(Errno) -> [[UInt8]] { try object.attributeNames() }
    /// `BackingObject.openFile`.
    public final func openFile(_ access: FileAccess) throws(Errno) -> BackingFile { try object.openFile(access) }
}

/// An open regular file. Thread-safe: offsets are given with every call. The handle closes with the last reference.
open class BackingFile: BackingNode, @unchecked Sendable {
    /// What is read through this handle from now on leaves the access time alone, where the store allows it.
    open func leaveAccessTime() {}
    /// Reads into the whole of `buffer` from `offset`; goes on after short reads and EINTR.
    /// - Returns: the number of bytes read; less than asked for only at the end of the file.
    open func read(into buffer: inout MutableSpan<UInt8>, at offset: UInt64) throws(Errno) -> Int { throw .ENOSYS }
    /// Writes all of `bytes` at `offset`, going on after short writes and EINTR. After an error a first part may have
    /// been written.
    open func write(_ bytes: Span<UInt8>, at offset: UInt64) throws(Errno) { throw .ENOSYS }
    /// Overwrites the file from its start with `noise`, makes that durable and reads it back.
    ///
    /// - Returns: why the disk may hold the former bytes all the same; nil where it does not.
    /// - Throws: EIO where something else is read back.
    open func overwrite(with noise: [UInt8]) throws(Errno) -> OverwriteDoubt? {
        // The array owns the bytes for the length of the call.
        try write(noise.span, at: 0)
        try synchronize(dataOnly: false)
        var found = [UInt8](repeating: 0, count: noise.count)
        var span = found.mutableSpan
        guard try read(into: &span, at: 0) == noise.count, found == noise else { throw .EIO }
        return nil
    }
    /// Sets the length in bytes (ftruncate(2)).
    open func truncate(to length: UInt64) throws(Errno) { throw .ENOSYS }
    /// Makes the file durable: fdatasync(2) when `dataOnly`, else fsync(2).
    open func synchronize(dataOnly: Bool) throws(Errno) { throw .ENOSYS }
    /// Reserves space without changing length or content (fallocate(2), KEEP_SIZE). EOPNOTSUPP where the store cannot.
    open func allocate(at offset: UInt64, length: UInt64) throws(Errno) { throw .ENOSYS }
    /// Turns a range into a hole without changing the length (PUNCH_HOLE).
    open func punchHole(at offset: UInt64, length: UInt64) throws(Errno) { throw .ENOSYS }
    /// The first offset at or after `offset` that holds data (SEEK_DATA); ENXIO when there is none.
    open func nextData(from offset: UInt64) throws(Errno) -> UInt64 { throw .ENOSYS }
    /// The first offset at or after `offset` in a hole, or the end of the file (SEEK_HOLE); ENXIO past the end.
    open func nextHole(from offset: UInt64) throws(Errno) -> UInt64 { throw .ENOSYS }
    /// flock(2) on this handle; waits while someone else holds it. Held until the handle closes.
    open func lock(exclusive: Bool) throws(Errno) { throw .ENOSYS }
}

/// An open directory; all operations are relative to it and take one name. Symlinks are never followed. Thread-safe.
open class BackingDirectory: BackingNode, @unchecked Sendable {
    /// True where cutting a file and writing it anew reach the disk in order (a local file system); false on network
    /// and FUSE file systems, where every cut needs an fdatasync.
    open var keepsOrder: Bool { true }

    /// True where a new symlink reaches the disk, with its target, before what is done to names after it; where it is false
    /// a sync of its directory does that. F2FS leaves empty ones after a crash.
    open var keepsNewLinks: Bool { keepsOrder }

    /// Sets what gives up descriptors that are kept for speed, for when they are short.
    open func whenShort(_ reclaim: @escaping @Sendable () -> Void) {}
    /// The same directory for files of the volume's own, for which descriptors are kept.
    open func reserved() throws(Errno) -> BackingDirectory { self }
    /// Whether no further file can be opened for want of descriptors.
    open var isShort: Bool { false }

    /// Another handle on the same directory.
    open func reopen() throws(Errno) -> BackingDirectory { throw .ENOSYS }
    /// Opens a subdirectory: ENOTDIR or ELOOP for another kind.
    open func openDirectory(_ name: EntryName) throws(Errno) -> BackingDirectory { throw .ENOSYS }
    /// Opens a regular file: EISDIR, ELOOP (symlink) or ENXIO (FIFO, socket, device) for another kind.
    open func openFile(_ name: EntryName, _ access: FileAccess) throws(Errno) -> BackingFile { throw .ENOSYS }
    /// Creates a regular file, open for reading and writing; EEXIST when the name is taken. The umask applies.
    open func createFile(_ name: EntryName, mode: UInt32) throws(Errno) -> BackingFile { throw .ENOSYS }
    /// A handle on any object, without opening it (O_PATH, never through a symlink): status, mode, owner, times,
    /// extended attributes.
    open func node(_ name: EntryName) throws(Errno) -> BackingNode { throw .ENOSYS }

    /// The status of an entry, symlinks not followed.
    open func status(of name: EntryName) throws(Errno) -> Status { try node(name).status() }

    /// Calls `body` with every entry but `.` and `..` after `cookie`, in the store's order, and with the cookie from
    /// which a later call goes on behind that entry, until it gives false. Entries that come or go meanwhile may be
    /// missed or seen; the others are seen once.
    /// - Parameter cookie: 0 for the start, or one that an earlier call gave.
    open func forEachEntry(
        from cookie: UInt64, _ body: (_ entry: DirectoryEntry, _ next: UInt64) -> Bool
    ) throws(Errno) { throw .ENOSYS }
    /// Calls `body` with every entry but `.` and `..` until it gives false.
    open func forEachEntry(_ body: (DirectoryEntry) -> Bool) throws(Errno) {
        try forEachEntry(from: 0) { entry, _ in body(entry) }
    }
    /// All entries.
    open func entries() throws(Errno) -> [DirectoryEntry] {
        var all: [DirectoryEntry] = []
        try forEachEntry { entry in
            all.append(entry)
            return true
        }
        return all
    }

    /// mkdir(2). The umask applies.
    open func createDirectory(_ name: EntryName, mode: UInt32) throws(Errno) { throw .ENOSYS }
    /// symlink(2); the target is any bytes without NUL.
    open func createSymlink(_ name: EntryName, target: [UInt8]) throws(Errno) { throw .ENOSYS }
    /// The target of a symlink; EINVAL when it is none.
    open func readSymlink(_ name: EntryName) throws(Errno) -> [UInt8] { throw .ENOSYS }
    /// mknod(2): FIFO, socket, device or empty regular file; `mode` with type bits. The umask applies.
    open func createSpecial(_ name: EntryName, mode: UInt32, device: UInt64) throws(Errno) { throw .ENOSYS }
    /// Renames an entry of this directory into `directory` of the same store.
    open func rename(
        _ name: EntryName, to directory: BackingDirectory, _ newName: EntryName, mode: RenameMode = .replace
    ) throws(Errno) { throw .ENOSYS }
    /// Makes `newName` in `directory` a hard link to an entry of this one; symlinks are linked, not followed.
    open func link(_ name: EntryName, to directory: BackingDirectory, _ newName: EntryName) throws(Errno) {
        throw .ENOSYS
    }
    /// unlink(2): any kind but directories.
    open func unlink(_ name: EntryName) throws(Errno) { throw .ENOSYS }
    /// rmdir(2).
    open func removeDirectory(_ name: EntryName) throws(Errno) { throw .ENOSYS }

    /// Makes the directory's entries durable (fsync(2)).
    open func synchronize() throws(Errno) { throw .ENOSYS }
    /// Makes the whole file system durable (syncfs(2)); one that stands read-only cannot promise that: `EROFS`.
    open func synchronizeStore() throws(Errno) { throw .ENOSYS }
    /// Space and limits of the file system.
    open func statistics() throws(Errno) -> StoreStatistics { throw .ENOSYS }
    /// flock(2) on this handle, without waiting: EAGAIN when someone else holds it. Held until the handle closes.
    open func lock(exclusive: Bool) throws(Errno) { throw .ENOSYS }
}
