// The objects of a backing store, as abstract classes. A request costs one virtual call, without generics and
// existentials.
//
// The subclasses are the host's directory tree (`HostDirectory`) and the tests' store in memory, which simulates power
// failures (`MemoryStore`).

public import HostSystem

/// How to open a file. Backing files are never opened write-only, because write-back needs reads, nor for append,
/// because every write has an offset.
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
    /// Creates; EEXIST if the attribute exists.
    case create
    /// Replaces; ENODATA if the attribute is missing.
    case replace
}

/// How a rename treats an existing new name (renameat2(2)).
public enum RenameMode: Sendable {
    /// Replaces the target atomically.
    case replace
    /// Fails with EEXIST if the new name exists. Works on every store; `FreeName` says what is guaranteed where.
    case noReplace
    /// Exchanges the two entries; ENOENT if the new name is missing.
    case exchange
    /// As `replace`, and leaves a whiteout, a character device 0:0, at the old name. EINVAL if the store does not support it.
    case whiteout
    /// As `noReplace`, and leaves a whiteout.
    case whiteoutNoReplace

    /// Whether an object is left at the old name.
    public var leavesWhiteout: Bool { self == .whiteout || self == .whiteoutNoReplace }
}

/// The calls that objects of every kind have. A store has one subclass for all its handles. Thread-safe.
open class BackingObject: @unchecked Sendable {
    /// Makes an object. For subclasses.
    public init() {}

    /// The object's status, with its stored time. Works for every kind, also after unlinking.
    open func status() throws(Errno) -> Status { throw .ENOSYS }
    /// Sets the permission bits (12 bits).
    open func setMode(_ mode: UInt32) throws(Errno) { throw .ENOSYS }
    /// Sets owner and group. Nil leaves a value unchanged.
    open func setOwner(_ owner: UInt32?, group: UInt32?) throws(Errno) { throw .ENOSYS }
    /// Sets access time and stored time.
    open func setTimes(accessed: TimeChange, modified: TimeChange) throws(Errno) { throw .ENOSYS }

    /// The value of an extended attribute; ENODATA if it is missing.
    open func attribute(_ name: [UInt8]) throws(Errno) -> [UInt8] { throw .ENOSYS }
    /// Sets an extended attribute.
    open func setAttribute(_ name: [UInt8], _ value: [UInt8], mode: AttributeMode) throws(Errno) { throw .ENOSYS }
    /// Removes an extended attribute; ENODATA if it is missing.
    open func removeAttribute(_ name: [UInt8]) throws(Errno) { throw .ENOSYS }
    /// The names of all extended attributes.
    open func attributeNames() throws(Errno) -> [[UInt8]] { throw .ENOSYS }

    /// The flags of chattr(1), for a handle that is open; ENOTTY if the store has none.
    open func flags() throws(Errno) -> InodeFlags { throw .ENOTTY }
    /// Sets the flags. The others stay as they are.
    open func setFlags(_ flags: InodeFlags) throws(Errno) { throw .ENOTTY }

    /// A file handle on the object. Works also after unlinking.
    ///
    /// - Throws: EISDIR for a directory, ELOOP for a symlink, ENXIO for a FIFO, socket or device.
    open func openFile(_ access: FileAccess) throws(Errno) -> BackingFile { throw .ENOSYS }
}

/// A handle on an object of any kind. It stays valid after renames and unlinking. Thread-safe.
open class BackingNode: @unchecked Sendable {
    /// The object of the handle.
    let object: BackingObject

    /// A handle on `object`.
    public init(_ object: BackingObject) { self.object = object }

    /// `BackingObject.setMode`.
    public final func setMode(_ mode: UInt32) throws(Errno) { try object.setMode(mode) }
    /// `BackingObject.setOwner`.
    public final func setOwner(_ owner: UInt32?, group: UInt32?) throws(Errno) {
        try object.setOwner(owner, group: group)
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
    /// `BackingObject.flags`.
    public final func flags() throws(Errno) -> InodeFlags { try object.flags() }
    /// `BackingObject.setFlags`.
    public final func setFlags(_ flags: InodeFlags) throws(Errno) { try object.setFlags(flags) }
    /// `BackingObject.openFile`.
    public final func openFile(_ access: FileAccess) throws(Errno) -> BackingFile { try object.openFile(access) }

    /// Reads a file or a directory so that its access time moves, as the store's own options decide. Everything else leaves
    /// access times alone, where the store allows it.
    open func touchAccessTime() {}
}

/// An open regular file. Thread-safe, because every call has its own offset. The last reference closes the handle.
open class BackingFile: BackingNode, @unchecked Sendable {
    /// The status at the time of the opening, for those who have just opened the file; else as it is now.
    open func statusWhenOpened() throws(Errno) -> Status { try status() }
    /// Fills `buffer` from `offset`. Continues after short reads and EINTR.
    /// - Returns: the number of bytes read. It is less than the buffer's length only at the end of the file.
    open func read(into buffer: inout MutableSpan<UInt8>, at offset: UInt64) throws(Errno) -> Int { throw .ENOSYS }
    /// Writes all of `bytes` at `offset`. Continues after short writes and EINTR. After an error the first part may
    /// have been written.
    open func write(_ bytes: Span<UInt8>, at offset: UInt64) throws(Errno) { throw .ENOSYS }
    /// Overwrites the file from its start with `noise`, makes it durable and reads it back.
    ///
    /// - Returns: the reason why the disk may still have the old bytes; nil if it does not.
    /// - Throws: EIO if the bytes read are not `noise`.
    open func overwrite(with noise: [UInt8]) throws(Errno) -> OverwriteDoubt? {
        // The array owns the bytes during the call.
        try write(noise.span, at: 0)
        try synchronize(dataOnly: false)
        var found = [UInt8](repeating: 0, count: noise.count)
        var span = found.mutableSpan
        guard try read(into: &span, at: 0) == noise.count, found == noise else { throw .EIO }
        return nil
    }
    /// Sets the length in bytes (ftruncate(2)).
    open func truncate(to length: UInt64) throws(Errno) { throw .ENOSYS }
    /// Makes the file durable, with fdatasync(2) if `dataOnly`, else with fsync(2).
    open func synchronize(dataOnly: Bool) throws(Errno) { throw .ENOSYS }
    /// Reserves space without changing length or content (fallocate(2), KEEP_SIZE). EOPNOTSUPP if the store does not
    /// support it.
    open func allocate(at offset: UInt64, length: UInt64) throws(Errno) { throw .ENOSYS }
    /// Makes a range a hole without changing the length (PUNCH_HOLE).
    open func punchHole(at offset: UInt64, length: UInt64) throws(Errno) { throw .ENOSYS }
    /// The first offset at or after `offset` that has data (SEEK_DATA); ENXIO if there is none.
    open func nextData(from offset: UInt64) throws(Errno) -> UInt64 { throw .ENOSYS }
    /// The first offset at or after `offset` in a hole, or the end of the file (SEEK_HOLE); ENXIO past the end.
    open func nextHole(from offset: UInt64) throws(Errno) -> UInt64 { throw .ENOSYS }
    /// Gives a name to a file that was made without one.
    open func link(to directory: BackingDirectory, _ newName: EntryName) throws(Errno) { throw .EOPNOTSUPP }
    /// Locks this handle until it closes (flock(2)). Waits while another handle holds the lock.
    open func lock(exclusive: Bool) throws(Errno) { throw .ENOSYS }
    /// Changes this handle's lock on a range (`LockRange`), which ends when the handle closes. A store that only one process uses
    /// needs none.
    ///
    /// - Throws: EAGAIN or EACCES if another handle holds a conflicting lock. With `waits`, EINTR after a signal.
    open func setLock(_ kind: StoreLock, _ range: ClosedRange<UInt64>, waits: Bool) throws(Errno) {}
    /// A lock of another handle that conflicts with this kind of lock on the range.
    open func lock(against kind: StoreLock, _ range: ClosedRange<UInt64>) throws(Errno) -> ForeignLock? { nil }
    /// Drops what this machine has cached of the file, because another one may have changed it.
    open func forgetCached() {}
}

/// An open directory. All operations are relative to it and take one name. They never follow symlinks. Thread-safe.
open class BackingDirectory: BackingNode, @unchecked Sendable {
    /// True if truncating a file and writing it again reach the disk in this order, as on local file systems. False on
    /// network and FUSE file systems, where every truncation needs an fdatasync.
    open var keepsOrder: Bool { true }

    /// True if a new symlink reaches the disk, with its target, before later changes of names. If it is false, the
    /// directory must be synchronized. F2FS leaves empty symlinks after a crash.
    open var keepsNewLinks: Bool { keepsOrder }

    /// True if a list of attributes is complete. Linux leaves `trusted.*` out of lists for who may not administrate the system
    /// (xattr(7)).
    open var listsAllAttributes: Bool { true }

    /// True if `synchronizeStore` makes everything durable. If it is false, every changed file and directory must be
    /// synchronized itself.
    open var syncsWhole: Bool { true }

    /// True if an object keeps its inode number, and its time of making is on the disk whenever the object is.
    open var keepsIdentity: Bool { false }

    /// Sets a function that closes cached descriptors. The store calls it when descriptors are short.
    open func whenShort(_ reclaim: @escaping @Sendable () -> Void) {}
    /// The same directory, for the volume's own files, which use reserved descriptors.
    open func reserved() throws(Errno) -> BackingDirectory { self }
    /// Whether no more files can be opened because descriptors are short.
    open var isShort: Bool { false }

    /// Another handle on the same directory.
    open func reopen() throws(Errno) -> BackingDirectory { throw .ENOSYS }
    /// Opens a subdirectory.
    ///
    /// - Throws: ENOTDIR or ELOOP for another kind.
    open func openDirectory(_ name: EntryName) throws(Errno) -> BackingDirectory { throw .ENOSYS }
    /// Opens a regular file.
    ///
    /// - Throws: EISDIR for a directory, ELOOP for a symlink, ENXIO for a FIFO, socket or device.
    open func openFile(_ name: EntryName, _ access: FileAccess) throws(Errno) -> BackingFile { throw .ENOSYS }
    /// The same for an entry that was just looked at. Its status then counts as the one at the time of the opening.
    open func openFile(_ name: EntryName, _ access: FileAccess, seen status: Status) throws(Errno) -> BackingFile {
        try openFile(name, access)
    }
    /// Creates a regular file and opens it for reading and writing; EEXIST if the name exists. The umask applies.
    open func createFile(_ name: EntryName, mode: UInt32) throws(Errno) -> BackingFile { throw .ENOSYS }
    /// Creates a regular file without a name and opens it for reading and writing (O_TMPFILE). It is gone after a crash, unless
    /// `BackingFile.link` has given it a name. EOPNOTSUPP if the store does not support it.
    open func createNamelessFile(mode: UInt32) throws(Errno) -> BackingFile { throw .EOPNOTSUPP }
    /// A handle on any object for status, mode, owner, times and extended attributes. Does not open the object and does
    /// not follow a symlink (O_PATH).
    open func node(_ name: EntryName) throws(Errno) -> BackingNode { throw .ENOSYS }

    /// The status of an entry, without following a symlink.
    open func status(of name: EntryName) throws(Errno) -> Status { try node(name).status() }

    /// The longest name that the store takes here, in bytes. It is tried, because not every file system tells the truth (statvfs(3)).
    public final func longestName() -> Int {
        func isTaken(_ length: Int) -> Bool {
            guard let name = EntryName(Array(repeating: UInt8(ascii: "n"), count: length)) else { return false }
            do throws(Errno) { _ = try status(of: name) } catch { return error != .ENAMETOOLONG }
            return true
        }
        var (taken, refused) = (0, EntryName.longest + 1)
        if isTaken(EntryName.longest) { return EntryName.longest }
        while refused - taken > 1 {
            let middle = (taken + refused) / 2
            if isTaken(middle) { taken = middle } else { refused = middle }
        }
        return taken
    }

    /// Calls `body` with every entry after `cookie`, in the store's order, until it returns false.
    ///
    /// `body` also receives the cookie with which a later call continues after that entry. A cookie is the store's own
    /// offset and may be any number but 0. Entries that are added or removed meanwhile may be missed or listed. All
    /// others are listed once.
    /// - Parameter cookie: 0 for the start, or a cookie of an earlier call.
    open func list(from cookie: UInt64, _ body: (_ object: ListedObject, _ next: UInt64) -> Bool) throws(Errno) {
        throw .ENOSYS
    }
    /// The same without `.` and `..`.
    public final func forEachEntry(
        from cookie: UInt64, _ body: (_ entry: DirectoryEntry, _ next: UInt64) -> Bool
    ) throws(Errno) {
        try list(from: cookie) { object, next in
            guard case .entry(let entry) = object else { return true }
            return body(entry, next)
        }
    }
    /// Calls `body` with every entry except `.` and `..` until it returns false.
    open func forEachEntry(_ body: (DirectoryEntry) -> Bool) throws(Errno) {
        try forEachEntry(from: 0) { entry, _ in body(entry) }
    }
    /// Every entry but `.` and `..`, read at once.
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
    /// Creates a symlink (symlink(2)). The target is any bytes without NUL.
    open func createSymlink(_ name: EntryName, target: [UInt8]) throws(Errno) { throw .ENOSYS }
    /// The target of a symlink; EINVAL if the entry is not a symlink.
    open func readSymlink(_ name: EntryName) throws(Errno) -> [UInt8] { throw .ENOSYS }
    /// Creates a FIFO, socket, device or empty regular file (mknod(2)). `mode` includes the type bits. The umask
    /// applies.
    open func createSpecial(_ name: EntryName, mode: UInt32, device: UInt64) throws(Errno) { throw .ENOSYS }
    /// Renames an entry of this directory into `directory` of the same store.
    open func rename(
        _ name: EntryName, to directory: BackingDirectory, _ newName: EntryName, mode: RenameMode = .replace
    ) throws(Errno) { throw .ENOSYS }
    /// Makes `newName` in `directory` a hard link to an entry of this directory. Does not follow a symlink.
    open func link(_ name: EntryName, to directory: BackingDirectory, _ newName: EntryName) throws(Errno) {
        throw .ENOSYS
    }
    /// Removes an entry that is not a directory (unlink(2)).
    open func unlink(_ name: EntryName) throws(Errno) { throw .ENOSYS }
    /// rmdir(2).
    open func removeDirectory(_ name: EntryName) throws(Errno) { throw .ENOSYS }

    /// Makes the directory's entries durable (fsync(2)).
    open func synchronize() throws(Errno) { throw .ENOSYS }
    /// Makes the whole file system durable (syncfs(2)) if `syncsWhole`, else only begins to; EROFS if it has become read-only and so cannot guarantee that.
    open func synchronizeStore() throws(Errno) { throw .ENOSYS }
    /// Space and limits of the file system.
    open func statistics() throws(Errno) -> StoreStatistics { throw .ENOSYS }
    /// Locks this handle until it closes (flock(2)). Does not wait: EAGAIN if another handle holds the lock.
    open func lock(exclusive: Bool) throws(Errno) { throw .ENOSYS }
}
