// A safe save: the new file takes the old one's place and its class.

import CLinuxShim
import Glibc
import PlainFoundation

extension Foundation.FileManager {
    /// Puts `newItem` in the place of `item`. What is there afterwards has the class that `item` had, unless
    /// `.usingNewMetadataOnly` says that the new one's is to stay.
    ///
    /// - Throws: `CocoaError` 513 or 257 where a class that this needs is closed; then `item` is as it was.
    public func replaceItemAt(
        _ item: URL, withItemAt newItem: URL, backupItemName: String? = nil, options: ItemReplacementOptions = []
    ) throws -> URL? {
        guard item.isFileURL, newItem.isFileURL, let mount = ProtectedMount.holding(item.path),
            let old = Existing(item.path), old.mode & S_IFMT == S_IFREG,
            let new = Existing(newItem.path), new.mode & S_IFMT == S_IFREG
        else {
            return try Plain.replace(self, item, with: newItem, backup: backupItemName, options: options)
        }
        let keeps = options.contains(.usingNewMetadataOnly)
        guard let type = keeps ? new.type ?? old.type : old.type else { throw CocoaError(.fileWriteUnknown) }
        let backup = backupItemName.map { item.deletingLastPathComponent().appendingPathComponent($0).path }
        if let backup {
            unsafe unlink(backup)
            guard unsafe link(item.path, backup) == 0 else { throw CocoaError.of(errno, .write, backup) }
        }
        let mode = (keeps ? new.mode : old.mode) & 0o7777
        if ProtectedMount.holding(newItem.path) == mount, new.type == type {
            guard unsafe chmod(newItem.path, mode) == 0, unsafe rename(newItem.path, item.path) == 0 else {
                throw CocoaError.of(errno, .write, item.path)
            }
        } else {
            // A copy has a key of its own; a new class on the old key would leave an older, weaker header good for it.
            try ProtectedCopy.file(newItem.path, to: item.path, mode: mode, class: type, replacing: true)
            unsafe unlink(newItem.path)
        }
        if let backup, !options.contains(.withoutDeletingBackupItem) { unsafe unlink(backup) }
        return item
    }
}
