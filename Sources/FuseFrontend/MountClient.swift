// Calls on our own mount, as any program makes them, for their effects in the kernel.

internal import BackingStore
internal import HostSystem
internal import VolumeFormat

/// The mount as its clients see it. Only the threads of the helper and the flusher may use it, because a worker that calls its
/// own mount waits for itself.
///
/// Opened anew for each call, because an open descriptor would prevent unmounting.
struct MountClient: Sendable {
    /// An attribute that no file has. Removing it is answered ENODATA. On the way the kernel takes the inode's lock and so
    /// waits for running writers.
    static let touchName = Array("\(AttributeName.touch)".utf8)

    /// The same, but removing it succeeds.
    static let errorName = Array("\(AttributeName.error)".utf8)

    let mountPoint: String
    /// `st_dev` of everything in the mount. Anything mounted over it, or put in its place, has another one.
    let device: UInt64

    /// The object at `path` from the root, following no symlink. Programs that watch its directory are not told.
    private func node(at path: [[UInt8]]) throws(Errno) -> BackingNode {
        let root = try HostDirectory.find(path: mountPoint)
        guard try root.status().device == device else { throw .EXDEV }
        guard let last = path.last else { return root }
        do throws(Errno) {
            return try root.find(path)
        } catch {
            guard error == .EACCES || error == .ENAMETOOLONG else { throw error }
        }
        // A path of more than 4,095 bytes, or below a directory that its owner may not search: one by one, which gives the
        // permission for a moment.
        var directory: BackingDirectory = root
        for component in path.dropLast() {
            guard let name = EntryName(component) else { throw .EINVAL }
            directory = try directory.openDirectory(name)
        }
        guard let name = EntryName(last) else { throw .EINVAL }
        return try directory.node(name)
    }

    /// Waits behind the writers of the file at `path`.
    func touch(_ path: [[UInt8]]) {
        // ENODATA is the expected answer. Any other is as good, because the lock has been taken.
        try? node(at: path).touch(Self.touchName)
    }

    /// Opens the file at `path` for reading, and closes it. False if it cannot be opened.
    func openAndClose(_ path: [[UInt8]]) -> Bool {
        (try? node(at: path).openFile(.readOnly)) != nil
    }

    /// Opens the file at `path` so that the kernel can be told to write it back. Nil if it cannot be opened, if the path leads
    /// to another file, or if a program has a lease on the file, which an open breaks.
    func openForWriteBack(_ path: [[UInt8]], inode: UInt64) -> HostFile? {
        guard !LockTable.hasLease(inode: inode), let root = try? HostDirectory.find(path: mountPoint),
            (try? root.status().device) == device
        else { return nil }
        return try? root.openForWriteBack(path, inode: inode)
    }

    /// Makes the kernel keep an error of the file at `path`, like that of a failed write-back. Removing an attribute succeeds,
    /// and the time that the kernel then sends is refused (`FileTimes`, point 4).
    func keepError(_ path: [[UInt8]]) {
        try? node(at: path).removeAttribute(Self.errorName)
    }

    /// Makes the kernel ask for the attributes of the file at `path`, which it was told to forget.
    func look(_ path: [[UInt8]]) {
        _ = try? node(at: path).status()
    }

    /// Sets the modification time that the kernel keeps of the file at `path`. The access time goes with it, and is not stored:
    /// inotify(7) tells of both times as IN_ATTRIB, but of a modification time alone as IN_MODIFY, as of another write.
    func setModified(_ path: [[UInt8]], _ time: Timestamp) throws(Errno) {
        try node(at: path).setOwnTimes(accessed: time, modified: time)
    }
}
