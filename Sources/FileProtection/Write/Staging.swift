// Makes a file that has its class before its first byte, or a directory that has its default from the beginning. Both
// are made in a staging directory with that default and then renamed.

import CLibrary
import CLinuxShim
import VolumeFormat

/// A staging directory for one write.
///
/// The directory `.protectfs-staging-UID` beside the target exists only during writes. In it each write makes a
/// directory of its own and holds a lock on it (flock(2)) until the end. The kernel releases the lock of a program that
/// dies. A directory that can be locked is therefore left over, and the next write removes it.
///
/// All calls are relative to descriptors, so the staged file stays on the mount that was checked, even if directories
/// above it are renamed. A link, or another user's directory, with the staging directory's name is refused.
final class Staging {
    /// The descriptor of this write's directory, which holds the lock.
    private let descriptor: Int32
    /// The target's directory.
    private let directory: Int32
    /// The path of this write's directory, relative to `directory`.
    private let path: String
    private static let content = "content"

    /// Makes the directory with a default class. With nil it inherits the parent's default.
    init(beside target: String, class type: FileProtectionType?) throws(ProtectionSystemError) {
        guard let parent = ProtectedMount.split(target)?.parent else {
            throw ProtectionSystemError(code: ENOENT, call: "open")
        }
        directory = unsafe CLibrary.open(parent, pfs_O_PATH | O_DIRECTORY | O_CLOEXEC)
        guard directory >= 0 else { throw .last("open") }
        do throws(ProtectionSystemError) {
            (path, descriptor) = try Staging.enter(directory)
        } catch {
            close(directory)
            throw error
        }
        guard let type else { return }
        do throws(ProtectionSystemError) {
            try ProtectionAttribute.set(type, descriptor)
        } catch {
            remove()
            throw error
        }
    }

    /// Creates the staged file and returns its descriptor.
    func create(mode: mode_t) throws(ProtectionSystemError) -> Int32 {
        let file = unsafe openat(descriptor, Staging.content, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode)
        guard file >= 0 else { throw .last("openat") }
        return file
    }

    /// Creates the staged directory, which inherits the staging directory's default.
    func createDirectory(mode: mode_t) throws(ProtectionSystemError) {
        guard unsafe mkdirat(descriptor, Staging.content, mode) == 0 else { throw .last("mkdir") }
    }

    /// Makes a hard link to a file in the staging directory.
    func link(_ source: String) throws(ProtectionSystemError) {
        guard unsafe linkat(AT_FDCWD, source, descriptor, Staging.content, 0) == 0 else { throw .last("linkat") }
    }

    /// Exchanges the staged file with the target.
    func exchange(with target: String) throws(ProtectionSystemError) {
        let code = unsafe pfs_renameat2(descriptor, Staging.content, AT_FDCWD, target, pfs_RENAME_EXCHANGE)
        guard code == 0 else { throw ProtectionSystemError(code: -code, call: "rename") }
    }

    /// Renames the staged file to the target.
    func commit(to target: String, replacing: Bool) throws(ProtectionSystemError) {
        try commit(
            to: Array((ProtectedMount.split(target)?.name ?? "").utf8CString), in: directory, replacing: replacing)
    }

    /// Renames the staged file to a name, in any bytes, in an open directory.
    func commit(to name: [CChar], in directory: Int32, replacing: Bool) throws(ProtectionSystemError) {
        let code = unsafe pfs_renameat2(
            descriptor, Staging.content, directory, name, replacing ? 0 : pfs_RENAME_NOREPLACE)
        guard code == 0 else { throw ProtectionSystemError(code: -code, call: "rename") }
    }

    /// Removes this write's directory with its contents, and the directory around it if no other write uses it.
    func remove() {
        Staging.removeContent(of: descriptor)
        unsafe unlinkat(directory, path, AT_REMOVEDIR)
        unsafe unlinkat(directory, Staging.name, AT_REMOVEDIR)
        close(descriptor)
        close(directory)
    }

    private static func removeContent(of directory: Int32) {
        if unsafe unlinkat(directory, content, 0) != 0, errno == EISDIR {
            unsafe unlinkat(directory, content, AT_REMOVEDIR)
        }
    }

    /// The name of the staging directory, and of a file without a name while it replaces another one.
    static var name: String { StagingName.of(user: geteuid()) }

    /// Opens a directory and refuses a link to one.
    private static func open(_ name: String, in directory: Int32) -> Int32 {
        unsafe openat(directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | pfs_O_NOFOLLOW)
    }

    private static func enter(_ directory: Int32) throws(ProtectionSystemError) -> (String, Int32) {
        var status = stat()
        guard unsafe fstat(directory, &status) == 0 else { throw .last("fstat") }
        guard ProtectedMount.of(status.st_dev) != nil else { throw .notProtected }
        var patience = 5000
        while true {
            let isNew = unsafe mkdirat(directory, name, 0o700) == 0
            guard isNew || errno == EEXIST else { throw .last("mkdir") }
            let around = open(name, in: directory)
            guard around >= 0 else {
                if errno == ENOENT { continue }
                let failure = ProtectionSystemError.last("open")
                guard failure.code == ENOTDIR else { throw failure }
                switch removeFile(in: directory) {
                case .other: throw failure
                // Its write needs it only until the next call of that program.
                case .inUse: usleep(1000)
                // The directory's lock is a write's for a moment, or another program's for as long as that likes.
                case .unknown:
                    patience -= 1
                    guard patience > 0 else { throw ProtectionSystemError(code: EBUSY, call: "mkdir") }
                    usleep(1000)
                case .removed, .directory: break
                }
                continue
            }
            defer { close(around) }
            try check(around, on: status.st_dev)
            if !isNew { sweep(around) }
            let own = UUID().uuidString
            if unsafe mkdirat(around, own, 0o700) != 0 {
                // Another write was the last one and has just removed the directory around it.
                if errno == ENOENT { continue }
                throw .last("mkdir")
            }
            let descriptor = open(own, in: around)
            // Between mkdir and flock another write may remove the directory as left over. Then try again.
            guard descriptor >= 0 else {
                if errno == ENOENT { continue }
                throw .last("open")
            }
            var found = stat()
            if flock(descriptor, LOCK_EX | LOCK_NB) == 0,
                unsafe fstatat(around, own, &found, pfs_AT_SYMLINK_NOFOLLOW) == 0
            {
                return (name + "/" + own, descriptor)
            }
            close(descriptor)
        }
    }

    /// Refuses a directory in which other users can make files, or that is on another file system than its parent.
    private static func check(_ around: Int32, on device: dev_t) throws(ProtectionSystemError) {
        var status = stat()
        guard unsafe fstat(around, &status) == 0 else { throw .last("fstat") }
        guard status.st_dev == device else { throw .notProtected }
        guard status.st_uid == geteuid(), status.st_mode & 0o022 == 0 else {
            throw ProtectionSystemError(code: EPERM, call: "open")
        }
    }

    /// Removes directories of programs that have died. Only one process does this at a time, because it inspects every
    /// directory.
    private static func sweep(_ around: Int32) {
        guard flock(around, LOCK_EX | LOCK_NB) == 0 else { return }
        defer { flock(around, LOCK_UN) }
        let names = try? Foundation.FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd/\(around)")
        for name in names ?? [] {
            let old = open(name, in: around)
            guard old >= 0 else { continue }
            if flock(old, LOCK_EX | LOCK_NB) == 0 {
                removeContent(of: old)
                unsafe unlinkat(around, name, AT_REMOVEDIR)
            }
            close(old)
        }
    }
}
