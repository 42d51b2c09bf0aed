// Makes a new item and its name durable before the old item is removed.

import CLibrary
import CLinuxShim

/// Without this a power failure after a replacement could destroy both the old and the new content.
enum Durability {
    /// Writes a file, or every file and directory of a tree, to the disk.
    static func flush(_ path: String) throws {
        try flush(Array(path.utf8CString), in: AT_FDCWD, path)
    }

    /// Writes the names in the directory of a path to the disk. Some file systems cannot do this for a directory, and the
    /// replacement is done already, so no error ends it.
    static func flushName(of path: String) {
        guard let parent = ProtectedMount.split(path)?.parent else { return }
        let directory = unsafe open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard directory >= 0 else { return }
        fsync(directory)
        close(directory)
    }

    private static func flush(_ name: [CChar], in directory: Int32, _ path: String) throws {
        var status = stat()
        guard unsafe fstatat(directory, name, &status, pfs_AT_SYMLINK_NOFOLLOW) == 0 else {
            throw CocoaError.of(errno, .write, path)
        }
        let isDirectory = status.st_mode & S_IFMT == S_IFDIR
        // A link is a part of its directory, and a pipe has no content.
        guard isDirectory || status.st_mode & S_IFMT == S_IFREG else { return }
        var item = unsafe openat(directory, name, O_RDONLY | O_CLOEXEC | pfs_O_NOFOLLOW)
        if item < 0, errno == EACCES, !isDirectory {
            item = unsafe openat(directory, name, O_WRONLY | O_CLOEXEC | pfs_O_NOFOLLOW)
        }
        guard item >= 0 else {
            // A file that is closed now, or that this program may not open, can be moved all the same.
            if errno == EACCES { return }
            throw CocoaError.of(errno, .write, path)
        }
        defer { close(item) }
        if isDirectory {
            for entry in try ProtectedCopy.names(in: item, path) {
                do {
                    try flush(entry, in: item, path)
                } catch CocoaError.fileNoSuchFile {
                    // Another program has removed it.
                }
            }
        }
        // Some file systems cannot do this for a directory.
        guard fsync(item) == 0 || isDirectory && errno == EINVAL else { throw CocoaError.of(errno, .write, path) }
    }
}
