// Replaces a file safely. The new file gets the old file's class.

import CLibrary
import CLinuxShim
import PlainFoundation

extension Foundation.FileManager {
    /// Replaces `item` by `newItem` (`FileManager.replaceItemAt(_:withItemAt:backupItemName:options:)`). The result has
    /// the class of `item`, or that of `newItem` with `.usingNewMetadataOnly`. A directory has the default of `item`, and
    /// the files in it keep their classes.
    ///
    /// - Throws: `CocoaError` 513 or 257 if a class that is needed is closed, and 516 if the backup's name is that of a
    ///   directory or of one of the two files. After an error nothing has changed, including an older backup.
    public func replaceItemAt(
        _ item: URL, withItemAt newItem: URL, backupItemName: String? = nil, options: ItemReplacementOptions = []
    ) throws -> URL? {
        // Replacing a link outside the mount would put the new file outside.
        if item.isFileURL, ProtectedMount.holdingEntry(item.path) == nil, ProtectedMount.holding(item.path) != nil,
            let target = ExistingFile(item.path)?.path
        {
            _ = try replaceItemAt(
                URL(fileURLWithPath: target), withItemAt: newItem, backupItemName: backupItemName, options: options)
            return item
        }
        guard item.isFileURL, newItem.isFileURL, let mount = ProtectedMount.holding(item.path),
            let old = ExistingFile(item.path), old.mode & S_IFMT == S_IFREG,
            let new = ExistingFile(newItem.path), new.mode & S_IFMT == S_IFREG
        else {
            guard item.isFileURL, newItem.isFileURL,
                let whole = WholeReplacement(of: item.path, by: newItem.path, options: options)
            else { return try Plain.replace(self, item, with: newItem, backup: backupItemName, options: options) }
            try whole.run(backup: backupItemName)
            return item
        }
        let keeps = options.contains(.usingNewMetadataOnly)
        let (type, own) = try Self.classes(old, new, keeps: keeps)
        let backup = try backupItemName.map {
            try Backup(
                of: item.path, at: item.deletingLastPathComponent().appendingPathComponent($0).path, for: newItem.path)
        }
        defer { backup?.end() }
        let mode = (keeps ? new.mode : old.mode) & 0o7777
        do {
            if ProtectedMount.holding(newItem.path) == mount, own == type {
                // Before it has the mode, which may not let it be opened.
                try Durability.flush(newItem.path)
                guard unsafe chmod(newItem.path, mode) == 0 else { throw CocoaError.of(errno, .write, item.path) }
                do {
                    guard unsafe rename(newItem.path, item.path) == 0 else {
                        throw CocoaError.of(errno, .replace, item.path)
                    }
                } catch {
                    unsafe chmod(newItem.path, new.mode & 0o7777)
                    throw error
                }
                Durability.flushName(of: item.path)
            } else {
                // The copy has a new key. If the old key got a new class, an older and weaker header could still open
                // the content.
                try ProtectedCopy.replace(item.path, by: newItem.path, mode: mode, class: type)
                Durability.flushName(of: item.path)
                unsafe unlink(newItem.path)
            }
        } catch {
            backup?.undo()
            throw error
        }
        if !options.contains(.withoutDeletingBackupItem) { backup?.remove() }
        return item
    }

    /// The class of the result and that of the new file. An unknown class is not guessed.
    private static func classes(
        _ old: ExistingFile, _ new: ExistingFile, keeps: Bool
    ) throws -> (FileProtectionType, FileProtectionType?) {
        do throws(ProtectionSystemError) {
            let own = keeps ? try new.type : try? new.type
            let type = if keeps, let own { own } else { try old.type }
            guard let type else { throw ProtectionSystemError(code: EINVAL, call: "getxattr") }
            return (type, own)
        } catch {
            throw error.refusal(.replace, old.path)
        }
    }
}

/// A second name for the old file while it is replaced. A file that had this name before is kept in a staging
/// directory.
private struct Backup {
    private let path: String
    private let staging: Staging
    private let hasReplaced: Bool

    init(of item: String, at path: String, for new: String) throws {
        self.path = path
        // Inodes are compared as well, because a file may have several names, and a name several spellings.
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

    /// Restores the file that had the backup's name before.
    func undo() {
        // Only this call uses the staging directory. The reverse exchange is allowed because the first one was.
        if hasReplaced { try? staging.exchange(with: path) } else { remove() }
    }

    func remove() { unsafe unlink(path) }

    func end() { staging.remove() }

    /// Device and inode of a path, or of its target if `following` is true.
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
