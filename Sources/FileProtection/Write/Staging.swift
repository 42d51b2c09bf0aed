// A file that has its class before its first byte, or a directory with its default: made in a staging directory with that
// default, then renamed into place.

import CLinuxShim
import Glibc

/// One staging directory, and what was left behind by programs that died.
///
/// Beside the target lies `.protectfs-staging-UID`, there only while somebody writes; in it each write has a directory of its
/// own, whose flock it holds until the end. The kernel drops the lock of a program that dies, so a directory in it that can
/// be locked is debris, and the next write removes it.
final class Staging {
    /// The staging directory's descriptor, which holds the flock.
    private let descriptor: Int32
    private let parent: String
    private let path: String
    private static let content = "content"

    /// Makes the directory with a default class; nil means whatever the parent gives.
    init(beside target: String, class type: FileProtectionType?) throws(ProtectionSystemError) {
        parent = ((target as NSString).deletingLastPathComponent as NSString)
            .appendingPathComponent(".protectfs-staging-\(geteuid())")
        (path, descriptor) = try Staging.enter(parent)
        guard let type else { return }
        do throws(ProtectionSystemError) {
            try ProtectionAttribute.set(type, descriptor)
        } catch {
            remove()
            throw error
        }
    }

    /// Creates the staged file and gives its descriptor.
    func create(mode: mode_t) throws(ProtectionSystemError) -> Int32 {
        let file = unsafe openat(descriptor, Staging.content, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode)
        guard file >= 0 else { throw .last("openat") }
        return file
    }

    /// Creates the staged directory; its default is the staging directory's.
    func createDirectory(mode: mode_t) throws(ProtectionSystemError) {
        guard unsafe mkdirat(descriptor, Staging.content, mode) == 0 else { throw .last("mkdir") }
    }

    /// Stages a second name of a file.
    func link(_ source: String) throws(ProtectionSystemError) {
        guard unsafe linkat(AT_FDCWD, source, descriptor, Staging.content, 0) == 0 else { throw .last("linkat") }
    }

    /// Exchanges what is staged with what is there.
    func exchange(with target: String) throws(ProtectionSystemError) {
        let code = unsafe pfs_renameat2(descriptor, Staging.content, AT_FDCWD, target, pfs_RENAME_EXCHANGE)
        guard code == 0 else { throw ProtectionSystemError(code: -code, call: "rename") }
    }

    /// Renames what is staged to its place.
    func commit(to target: String, replacing: Bool) throws(ProtectionSystemError) {
        try commit(to: Array(target.utf8CString), in: AT_FDCWD, replacing: replacing)
    }

    /// Renames what is staged to a name, of whatever bytes, in an open directory.
    func commit(to name: [CChar], in directory: Int32, replacing: Bool) throws(ProtectionSystemError) {
        let code = unsafe pfs_renameat2(
            descriptor, Staging.content, directory, name, replacing ? 0 : pfs_RENAME_NOREPLACE)
        guard code == 0 else { throw ProtectionSystemError(code: -code, call: "rename") }
    }

    /// Removes the staging directory with what is in it, and the one around it when nobody else is in there.
    func remove() {
        Staging.removeContent(of: descriptor)
        unsafe rmdir(path)
        unsafe rmdir(parent)
        close(descriptor)
    }

    private static func removeContent(of directory: Int32) {
        if unsafe unlinkat(directory, content, 0) != 0, errno == EISDIR {
            unsafe unlinkat(directory, content, AT_REMOVEDIR)
        }
    }

    private static func enter(_ parent: String) throws(ProtectionSystemError) -> (String, Int32) {
        while true {
            if unsafe mkdir(parent, 0o700) != 0 {
                guard errno == EEXIST else { throw .last("mkdir") }
                sweep(parent)
            }
            let path = parent + "/" + UUID().uuidString
            if unsafe mkdir(path, 0o700) != 0 {
                // Somebody who was last has just removed the directory around.
                if errno == ENOENT { continue }
                throw .last("mkdir")
            }
            let descriptor = unsafe open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            // Between mkdir and flock a sweep may take it for debris: then once more.
            guard descriptor >= 0 else {
                if errno == ENOENT { continue }
                throw .last("open")
            }
            var status = stat()
            if flock(descriptor, LOCK_EX | LOCK_NB) == 0, unsafe stat(path, &status) == 0 { return (path, descriptor) }
            close(descriptor)
        }
    }

    /// Removes what dead programs have left. One process at a time, as it has to look at everything in there.
    private static func sweep(_ parent: String) {
        let around = unsafe open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC | pfs_O_NOFOLLOW)
        guard around >= 0 else { return }
        defer { close(around) }
        guard flock(around, LOCK_EX | LOCK_NB) == 0,
            let names = try? Foundation.FileManager.default.contentsOfDirectory(atPath: parent)
        else { return }
        for name in names {
            let old = unsafe openat(around, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | pfs_O_NOFOLLOW)
            guard old >= 0 else { continue }
            if flock(old, LOCK_EX | LOCK_NB) == 0 {
                removeContent(of: old)
                unsafe unlinkat(around, name, AT_REMOVEDIR)
            }
            close(old)
        }
    }
}
