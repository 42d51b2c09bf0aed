// Replaces a directory by another item, and an item outside every protected mount. Foundation on Linux loses the item
// in the second case, and refuses the first one.

import CLibrary
import CLinuxShim

/// The two items are exchanged by one system call. Then the old one is removed, or becomes the backup.
struct WholeReplacement {
    private let item: String
    private let new: String
    private let old: stat
    private let status: stat
    private let options: Foundation.FileManager.ItemReplacementOptions

    /// Nil if one of the items does not exist.
    init?(of item: String, by new: String, options: Foundation.FileManager.ItemReplacementOptions) {
        var (old, status) = (stat(), stat())
        guard unsafe lstat(item, &old) == 0, unsafe lstat(new, &status) == 0 else { return nil }
        (self.item, self.new, self.old, self.status, self.options) = (item, new, old, status, options)
    }

    /// Replaces the item.
    ///
    /// - Throws: `CocoaError`. After an error nothing has changed.
    func run(backup name: String?) throws {
        guard old.st_dev == status.st_dev else { return try acrossMounts(backup: name) }
        // An item is its own replacement, under the same path or another one. To remove the old one would be to lose it.
        if old.st_ino == status.st_ino { return }
        let backup = try name.map(backupPath)
        // Before it has the mode, which may not let it be opened.
        try Durability.flush(new)
        let undo = try dress()
        do {
            try exchange()
            if let backup, options.contains(.withoutDeletingBackupItem) {
                guard unsafe rename(new, backup) == 0 else {
                    let code = errno
                    try exchange()
                    throw CocoaError.of(code, .replace, backup)
                }
                Durability.flushName(of: backup)
                Durability.flushName(of: new)
                return
            }
        } catch {
            undo()
            throw error
        }
        // An exchange changes two directories. Both are on the disk before the old item is removed.
        Durability.flushName(of: item)
        Durability.flushName(of: new)
        // The item is replaced. What cannot be removed of the old one stays where the new one was.
        try? Foundation.FileManager().removeItem(atPath: new)
    }

    /// The new item is on another file system: a copy of it is made beside the item, in the item's class.
    private func acrossMounts(backup name: String?) throws {
        let directory = try ItemReplacement.directory(for: item)
        defer { try? Foundation.FileManager().removeItem(at: directory) }
        let copy = directory.appendingPathComponent((new as NSString).lastPathComponent).path
        try FileManager().copyItem(atPath: new, toPath: copy)
        guard let near = WholeReplacement(of: item, by: copy, options: options) else {
            throw CocoaError.of(ENOENT, .write, item)
        }
        try near.run(backup: name)
        try? Foundation.FileManager().removeItem(atPath: new)
    }

    /// The path of the backup. A file that has this name is replaced, unless it is one of the two items.
    private func backupPath(_ name: String) throws -> String {
        let path = ((item as NSString).deletingLastPathComponent as NSString).appendingPathComponent(name)
        var found = stat()
        guard unsafe lstat(path, &found) == 0 else { return path }
        let isItem = [old, status].contains { $0.st_dev == found.st_dev && $0.st_ino == found.st_ino }
        guard !isItem, found.st_mode & S_IFMT != S_IFDIR, old.st_mode & S_IFMT != S_IFDIR else {
            throw CocoaError.of(EEXIST, .write, path)
        }
        return path
    }

    /// Gives the new item the permissions of the old one, and its class if the new one is a directory. The result takes
    /// this back.
    private func dress() throws -> () -> Void {
        let isDirectory = status.st_mode & S_IFMT == S_IFDIR
        let isLink = status.st_mode & S_IFMT == S_IFLNK
        guard !options.contains(.usingNewMetadataOnly), !isLink else { return {} }
        let (path, mode) = (new, status.st_mode & 0o7777)
        var undo = {}
        if isDirectory, ProtectedMount.holding(item) != nil {
            do throws(ProtectionSystemError) {
                let (wanted, own) = (try ProtectionAttribute.get(item), try ProtectionAttribute.get(path))
                if let wanted, wanted != own {
                    try ProtectionAttribute.set(wanted, path)
                    undo = { if let own { try? ProtectionAttribute.set(own, path) } }
                }
            } catch {
                throw CocoaError.of(error.code, .write, path)
            }
        }
        guard old.st_mode & S_IFMT == status.st_mode & S_IFMT, old.st_mode & 0o7777 != mode else { return undo }
        guard unsafe chmod(path, old.st_mode & 0o7777) == 0 else {
            let code = errno
            undo()
            throw CocoaError.of(code, .write, path)
        }
        return { [undo] in
            unsafe chmod(path, mode)
            undo()
        }
    }

    private func exchange() throws {
        var code = unsafe pfs_renameat2(AT_FDCWD, new, AT_FDCWD, item, pfs_RENAME_EXCHANGE)
        // Some file systems cannot exchange two names. A file then takes the place of a file in one step.
        let areFiles = [old, status].allSatisfy { $0.st_mode & S_IFMT != S_IFDIR }
        if code == -EINVAL, areFiles, !options.contains(.withoutDeletingBackupItem) {
            code = unsafe rename(new, item) == 0 ? 0 : -errno
        }
        guard code == 0 else { throw CocoaError.of(-code, .replace, item) }
    }
}
