// Calls on the mount itself, as any program makes them: for what the kernel does on their way.

internal import BackingStore
internal import HostSystem
internal import VolumeFormat

/// The mount as its clients see it. Only for the helper's thread and the flusher's: a worker that calls its own mount waits for
/// itself.
///
/// Opened anew for each call: a descriptor kept would keep the mount from being unmounted.
struct MountClient: Sendable {
    /// An attribute that no file has. Removing it is answered ENODATA; the kernel takes the inode's lock on the way and so
    /// queues behind writers in flight.
    static let touchName = Array("\(AttributeName.touch)".utf8)

    /// The same, but removing it succeeds.
    static let errorName = Array("\(AttributeName.error)".utf8)

    let mountPoint: String
    /// `st_dev` of everything in it. What somebody has mounted over it, or put in its place, is another's.
    let device: UInt64

    /// The object at `path` from the root, by descriptors, following no symlink.
    private func node(at path: [[UInt8]]) throws(Errno) -> BackingNode {
        var directory: BackingDirectory = try HostDirectory.open(path: mountPoint)
        guard try directory.status().device == device else { throw .EXDEV }
        guard let last = path.last else { return directory }
        for component in path.dropLast() {
            guard let name = EntryName(component) else { throw .EINVAL }
            directory = try directory.openDirectory(name)
        }
        guard let name = EntryName(last) else { throw .EINVAL }
        return try directory.node(name)
    }

    /// Waits behind the writers of the file at `path`.
    func touch(_ path: [[UInt8]]) {
        // ENODATA is the expected answer, and any other is as good: the lock has been taken.
        try? node(at: path).removeAttribute(Self.touchName)
    }

    /// Opens the file at `path` for reading, and closes it; false where it cannot be opened.
    func openAndClose(_ path: [[UInt8]]) -> Bool {
        (try? node(at: path).openFile(.readOnly)) != nil
    }

    /// Opens the file at `path` so that the kernel can be told to write it back; nil where it cannot be opened, or where
    /// another one is there.
    func openForWriteBack(_ path: [[UInt8]], inode: UInt64) -> HostFile? {
        guard let root = try? HostDirectory.open(path: mountPoint), (try? root.status().device) == device else {
            return nil
        }
        return try? root.openForWriteBack(path, inode: inode)
    }

    /// Has the kernel keep an error of the file at `path`, as of a write-back that failed: removing an attribute succeeds, and
    /// the time that the kernel then sends is refused (`FileTimes`, point 4).
    func keepError(_ path: [[UInt8]]) {
        try? node(at: path).removeAttribute(Self.errorName)
    }

    /// Has the kernel, which has been told to forget the attributes of the file at `path`, ask for them.
    func look(_ path: [[UInt8]]) {
        _ = try? node(at: path).status()
    }

    /// Sets the modification time that the kernel keeps of the file at `path`.
    func setModified(_ path: [[UInt8]], _ time: Timestamp) throws(Errno) {
        try node(at: path).setTimes(accessed: .keep, modified: .set(time))
    }
}
