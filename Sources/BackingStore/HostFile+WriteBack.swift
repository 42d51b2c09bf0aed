// Looks at objects of the daemon's own mount, and makes the kernel write back the dirty pages of a file.

internal import CLibrary
internal import CLinuxShim
public import HostSystem

extension HostFile {
    /// Writes all dirty pages and returns when they have been written. Unlike fsync(2) and close(2), this takes no lock
    /// of the inode.
    public func writeBack() throws(Errno) {
        _ = try retryingShim { pfs_write_back(host.number) }
    }
}

extension HostDirectory {
    /// The directory at `path` of the daemon's own mount, following symlinks, only to look at what is below. inotify(7) does not
    /// tell of it (O_PATH).
    public static func find(path: String) throws(Errno) -> HostDirectory {
        let flags = pfs_O_PATH | pfs_O_DIRECTORY | O_CLOEXEC
        return HostDirectory(
            HostObject(taking: try retrying { unsafe CLibrary.open(path, flags) }, isPath: true, access: .ownMount))
    }

    /// The object at `path`, relative to this directory. Does not follow symlinks, and inotify(7) does not tell of it.
    public func find(_ path: [[UInt8]]) throws(Errno) -> BackingNode {
        BackingNode(try object(at: path))
    }

    /// Opens the file at `path`, relative to this directory, only for `writeBack`. Does not follow symlinks.
    ///
    /// Unlike `openFile` it never adds permissions to the mode, because changing the mode takes the inode's lock.
    /// - Throws: ESTALE if the object there is not `inode`.
    public func openForWriteBack(_ path: [[UInt8]], inode: UInt64) throws(Errno) -> HostFile {
        let found = try object(at: path)
        let status = try found.status()
        try checkIsFile(status.kind)
        guard status.inode == inode else { throw .ESTALE }
        return HostFile(
            HostObject(
                taking: try retrying { unsafe CLibrary.open(found.magicPath, FileAccess.readOnly.flags) },
                access: found.access))
    }

    private func object(at path: [[UInt8]]) throws(Errno) -> HostObject {
        guard !path.isEmpty, path.allSatisfy({ EntryName($0) != nil }) else { throw .EINVAL }
        let joined = Array(path.joined(separator: [UInt8(ascii: "/")])) + [0]
        let flags = pfs_O_PATH | pfs_O_NOFOLLOW | O_CLOEXEC
        let number = try retryingShim {
            unsafe joined.withUnsafeBytes { bytes in
                // The only zero byte is at the end, because names have none.
                guard let start = bytes.baseAddress else { return -EINVAL }
                return unsafe pfs_open_beneath(
                    host.number, start.assumingMemoryBound(to: CChar.self), flags, 0)
            }
        }
        return HostObject(taking: number, isPath: true, access: host.access)
    }
}

extension BackingNode {
    /// Tries to remove an attribute that the object does not have, for the inode's lock, which the kernel takes before it looks at
    /// the object's permissions (removexattr(2)).
    public func touch(_ name: [UInt8]) {
        try? (object as? HostObject)?.removeAttributeNow(name)
    }
}
