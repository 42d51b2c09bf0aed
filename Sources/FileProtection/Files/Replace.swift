// A safe save: the new file takes the old one's place and its class.

import CLinuxShim
import Glibc
import PlainFoundation

extension Foundation.FileManager {
    /// Puts `newItem` in the place of `item`. What is there afterwards has the class that `item` had, unless
    /// `.usingNewMetadataOnly` says that the new one's is to stay.
    ///
    /// - Throws: `CocoaError` 513 or 257 where a class that this needs is closed, 516 where the backup's name is one of the
    ///   two files' or a directory's; then everything is as it was, an older backup too.
    public func replaceItemAt(
        _ item: URL, withItemAt newItem: URL, backupItemName: String? = nil, options: ItemReplacementOptions = []
    ) throws -> URL? {
        // What takes the place of a link outside would be outside.
        if item.isFileURL, ProtectedMount.holdingEntry(item.path) == nil, ProtectedMount.holding(item.path) != nil,
            let target = Existing(item.path)?.path
        {
            _ = try replaceItemAt(
                URL(fileURLWithPath: target), withItemAt: newItem, backupItemName: backupItemName, options: options)
            return item
        }
        guard item.isFileURL, newItem.isFileURL, let mount = ProtectedMount.holding(item.path),
            let old = Existing(item.path), old.mode & S_IFMT == S_IFREG,
            let new = Existing(newItem.path), new.mode & S_IFMT == S_IFREG
        else {
            return try Plain.replace(self, item, with: newItem, backup: backupItemName, options: options)
        }
        let keeps = options.contains(.usingNewMetadataOnly)
        guard let type = keeps ? new.type ?? old.type : old.type else { throw CocoaError(.fileWriteUnknown) }
        let backup = try backupItemName.map {
            try Backup(
                of: item.path, at: item.deletingLastPathComponent().appendingPathComponent($0).path, for: newItem.path)
        }
        defer { backup?.end() }
        let mode = (keeps ? new.mode : old.mode) & 0o7777
        do {
            if ProtectedMount.holding(newItem.path) == mount, new.type == type {
                guard unsafe chmod(newItem.path, mode) == 0 else { throw CocoaError.of(errno, .write, item.path) }
                guard unsafe rename(newItem.path, item.path) == 0 else {
                    let code = errno
                    unsafe chmod(newItem.path, new.mode & 0o7777)
                    throw CocoaError.of(code, .replace, item.path)
                }
            } else {
                // A copy has a key of its own; a new class on the old key would leave an older, weaker header good for it.
                try ProtectedCopy.replace(item.path, by: newItem.path, mode: mode, class: type)
                unsafe unlink(newItem.path)
            }
        } catch {
            backup?.undo()
            throw error
        }
        if !options.contains(.withoutDeletingBackupItem) { backup?.remove() }
        return item
    }
}

/// The old file under a second name while it is replaced; what had that name before waits in a staging directory.
private struct Backup {
    private let path: String
    private let staging: Staging
    private let hasReplaced: Bool

    init(of item: String, at path: String, for new: String) throws {
        self.path = path
        // By their inodes as well: a name may be written in several ways, and a file may have several.
        let found = Backup.identities(path, following: false)
        let taken = Backup.identities(item, following: true) + Backup.identities(new, following: true)
        guard found.isEmpty || !found.contains(where: { taken.contains($0) }) && !Backup.isDirectory(path) else {
            throw CocoaError.of(EEXIST, .write, path)
        }
        hasReplaced = !found.isEmpty
        do throws(ProtectionSystemError) {
            staging = try Staging(beside: path, class: nil)
            do throws(ProtectionSystemError) {
                try staging.link(item)
                if hasReplaced {
                    try staging.exchange(with: path)
                } else {
                    try staging.commit(to: path, replacing: false)
                }
            } catch {
                staging.remove()
                throw error
            }
        } catch {
            throw CocoaError.of(error.code, .write, path)
        }
    }

    /// Puts back what had the backup's name before.
    func undo() {
        // Nobody's but this call's: an exchange that was allowed is allowed back.
        if hasReplaced { try? staging.exchange(with: path) } else { remove() }
    }

    func remove() { unsafe unlink(path) }

    func end() { staging.remove() }

    /// Device and inode of a path itself, and of what it leads to.
    private static func identities(_ path: String, following: Bool) -> [[UInt64]] {
        var status = stat()
        var found: [[UInt64]] = []
        if unsafe lstat(path, &status) == 0 { found.append([UInt64(status.st_dev), UInt64(status.st_ino)]) }
        if following, unsafe stat(path, &status) == 0 { found.append([UInt64(status.st_dev), UInt64(status.st_ino)]) }
        return found
    }

    private static func isDirectory(_ path: String) -> Bool {
        var status = stat()
        return unsafe lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    }
}
