// Renames an entry to a name that must be free, on every store.

import CLibrary
import CLinuxShim

/// renameat2(2) with RENAME_NOREPLACE, and a way around where the store does not support it.
///
/// NFS, GlusterFS, ntfs-3g and most FUSE file systems (mergerfs, bindfs, encfs) answer EINVAL. This is what holds there:
/// - An object that is not a directory gets the new name by link(2), which never replaces, and then loses the old one.
///   Between the two it has both names. The new one is durable before the old one goes.
/// - If the store has no hard links, or shows the linked file under another inode number, an empty file takes the new
///   name exclusively, and the rename replaces that. A writer outside of the mount that finds the empty file in this
///   instant is noticed if it has written or has put another file in its place before the rename.
/// - A directory is renamed when the name was seen free. The store itself refuses to replace a file or a directory with
///   entries. At most an empty directory that came in the same instant is replaced, and loses nothing. Directories of a
///   volume are never empty.
package enum FreeName {
    /// A name in an open directory, as C string, valid during the call.
    private typealias Name = UnsafePointer<CChar>

    /// Whether `error` says that the store does not support RENAME_NOREPLACE.
    private static func isUnsupported(_ error: Errno) -> Bool {
        [.EINVAL, .ENOSYS, .EOPNOTSUPP].contains(error)
    }

    /// Renames `name` in the directory `from` to `newName` in the directory `to`; EEXIST if that exists.
    ///
    /// - Parameter isSupported: false to use the way around without asking the store. For tests.
    package static func rename(
        _ name: UnsafePointer<CChar>, in from: Int32, to newName: UnsafePointer<CChar>, in to: Int32,
        isSupported: Bool = true
    ) throws(Errno) {
        if isSupported {
            do throws(Errno) {
                return try call { unsafe pfs_renameat2(from, name, to, newName, pfs_RENAME_NOREPLACE) }
            } catch { if !isUnsupported(error) { throw error } }
        }
        guard unsafe try status(newName, in: to) == nil else { throw .EEXIST }
        guard let source = unsafe try status(name, in: from) else { throw .ENOENT }
        if source.st_mode & S_IFMT == S_IFDIR { return unsafe try renameDirectory(name, from, newName, to) }
        if unsafe try !link(name, from, newName, to, source) {
            unsafe try replacePlaceholder(name, in: from, to: newName, in: to)
        }
    }

    private static func renameDirectory(_ name: Name, _ from: Int32, _ newName: Name, _ to: Int32) throws(Errno) {
        do throws(Errno) { try call { unsafe renameat(from, name, to, newName) } } catch {
            guard error == .ENOTDIR || error == .ENOTEMPTY, unsafe try status(newName, in: to) != nil else {
                throw error
            }
            throw .EEXIST
        }
    }

    /// - Returns: false if the store has no fitting hard links. Nothing is changed then.
    private static func link(
        _ name: Name, _ from: Int32, _ newName: Name, _ to: Int32, _ source: stat
    ) throws(Errno) -> Bool {
        do throws(Errno) { try call { unsafe linkat(from, name, to, newName, 0) } } catch {
            let withoutLinks: [Errno] = [.EPERM, .ENOSYS, .EOPNOTSUPP, .EINVAL, .EMLINK, .EXDEV]
            if withoutLinks.contains(error) { return false }
            // The name was free. A network store may have lost the reply to a link that it has made.
            guard let there = unsafe try? status(newName, in: to), isSame(there, source) else { throw error }
        }
        do throws(Errno) {
            guard let linked = unsafe try status(newName, in: to), isSame(linked, source) else {
                try call { unsafe unlinkat(to, newName, 0) }
                return false
            }
            try synchronizeDirectory(to)
            do throws(Errno) { try call { unsafe unlinkat(from, name, 0) } } catch {
                // The object may have only the new name now, also if the reply was lost.
                if error != .ENOENT, unsafe try status(name, in: from) != nil { throw error }
            }
            return true
        } catch {
            // While the old name exists, nothing is lost with the new one.
            if let old = unsafe try? status(name, in: from), isSame(old, source) { unsafe unlinkat(to, newName, 0) }
            throw error
        }
    }

    /// The way without hard links. Package access for tests.
    package static func replacePlaceholder(
        _ name: UnsafePointer<CChar>, in from: Int32, to newName: UnsafePointer<CChar>, in to: Int32
    ) throws(Errno) {
        let flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | pfs_O_NOFOLLOW
        let number = unsafe openat(to, newName, flags, 0o600)
        guard number >= 0 else { throw .last }
        let placeholder = Descriptor(taking: number)
        var made = stat()
        guard unsafe fstat(placeholder.number, &made) == 0 else { throw .last }
        guard let found = unsafe try status(newName, in: to), isSame(found, made), found.st_size == 0 else {
            throw .EEXIST
        }
        do throws(Errno) { try call { unsafe renameat(from, name, to, newName) } } catch {
            if let found = unsafe try status(newName, in: to), isSame(found, made), found.st_size == 0 {
                unsafe unlinkat(to, newName, 0)
            }
            throw error
        }
    }

    /// fsync(2) of a directory. A store that has no such call for directories says EINVAL.
    package static func synchronizeDirectory(_ number: Int32) throws(Errno) {
        do throws(Errno) { try call { fsync(number) } } catch { if error != .EINVAL { throw error } }
    }

    private static func isSame(_ one: stat, _ other: stat) -> Bool {
        one.st_dev == other.st_dev && one.st_ino == other.st_ino
    }

    /// The status of an entry; nil if it does not exist.
    private static func status(_ name: Name, in directory: Int32) throws(Errno) -> stat? {
        var result = stat()
        do throws(Errno) {
            try call { unsafe fstatat(directory, name, &result, pfs_AT_SYMLINK_NOFOLLOW) }
        } catch {
            if error == .ENOENT { return nil }
            throw error
        }
        return result
    }

    /// Repeats a call while it fails with EINTR. It returns -errno, or -1 with errno set.
    private static func call(_ body: () -> Int32) throws(Errno) {
        while true {
            let result = body()
            if result >= 0 { return }
            let error = result == -1 ? Errno.last : Errno(rawValue: -result)
            if error != .EINTR { throw error }
        }
    }
}
