// What programs do at the edges of Foundation's promises: backups, and replacements that fail.

import FileProtection

/// Replaces `item` by `new` in several ways; the first word is whether it is locked, and says which.
func backups(in directory: URL, _ words: [String]) throws {
    let manager = FileManager.default
    let (item, new) = (directory / "item", directory / "new")
    func replace(_ name: String, backup: String, options: FileManager.ItemReplacementOptions = []) {
        step(name) { _ = try manager.replaceItemAt(item, withItemAt: new, backupItemName: backup, options: options) }
    }
    if words == ["refused"] {
        for name in ["item", "new", "./item", "same", "folder"] { replace(name, backup: name) }
        replace("closed", backup: "older")
        replace("closed, no older one", backup: "none")
    } else {
        replace("kept", backup: "older", options: .withoutDeletingBackupItem)
        try Data("third".utf8).write(to: new, options: .noFileProtection)
        replace("removed", backup: "older")
    }
}
