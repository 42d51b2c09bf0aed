// Edge cases of Foundation's functions: backups, and replacements that fail.

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

/// Copies of trees: one with names that are no text, one into itself, and those that a delegate has a say in.
func copies(in directory: URL, _ words: [String]) throws {
    step("no text") { try FileManager.default.copyItem(at: directory / "bytes", to: directory / "bytes.copied") }
    step("into itself") {
        try FileManager.default.copyItem(at: directory / "tree", to: directory / "tree/below/copied")
    }
    let manager = FileManager()
    let delegate = CopyDelegate()
    manager.delegate = delegate
    step("asked") { try manager.copyItem(at: directory / "tree", to: directory / "asked") }
    step("not at all") { try manager.copyItem(at: directory / "tree/refused", to: directory / "not at all") }
    step("goes on") { try manager.copyItem(at: directory / "tree/one", to: directory / "asked/one") }
    print(delegate.said.sorted().joined(separator: ", "))
    let long = String(repeating: "n", count: 256)
    step("long, written") { try Data().write(to: directory / long, options: .completeFileProtection) }
    step("long, copied") { try FileManager.default.copyItem(at: directory / "tree/one", to: directory / long) }
    step("long, read") { try FileHandle(forReadingFrom: directory / long).close() }
}

/// What an owner may do whose item, or whose directory, is not writable; links that lead nowhere; directories on the way.
func permissions(in directory: URL, _ words: [String]) throws {
    let manager = FileManager.default
    for name in ["file", "folder"] {
        step(name) {
            try manager.setAttributes(
                [.protectionKey: FileProtectionType.complete], ofItemAtPath: (directory / name).path)
        }
        show(name) { try manager.attributesOfItem(atPath: (directory / name).path)[.posixPermissions] ?? "none" }
    }
    step("with permissions") {
        try manager.setAttributes(
            [.protectionKey: FileProtectionType.complete, .posixPermissions: 0o644],
            ofItemAtPath: (directory / "other").path)
    }
    show("not readable") { try manager.attributesOfItem(atPath: (directory / "unreadable").path)[.size] ?? "none" }
    let unreadable = directory / "unreadable"
    step("not readable, saved") { try Data("new".utf8).write(to: unreadable, options: .atomic) }
    step("not readable, with a class") {
        try Data("new".utf8).write(to: unreadable, options: [.atomic, .completeFileProtection])
    }
    step("tightened") { try Data("new".utf8).write(to: directory / "closed/weak", options: .completeFileProtection) }
    step("weakened") { try Data("new".utf8).write(to: directory / "closed/strong", options: .noFileProtection) }
    for name in ["link", "chain", "out"] {
        step(name) { try Data(name.utf8).write(to: directory / name, options: .completeFileProtection) }
    }
    step("directories") {
        try manager.createDirectory(
            at: directory / "there/one/two/three", withIntermediateDirectories: true,
            attributes: [.protectionKey: FileProtectionType.completeUnlessOpen, .posixPermissions: 0o750])
    }
}

/// Moves to other file systems, which are copies: the first word is another protected mount, the second no mount.
func moves(in directory: URL, _ words: [String]) throws {
    let (other, away) = (URL(fileURLWithPath: words[0]), URL(fileURLWithPath: words[1]))
    let manager = FileManager()
    let delegate = CopyDelegate()
    manager.delegate = delegate
    step("to a mount") { try manager.moveItem(at: directory / "tree", to: other / "tree") }
    step("refused") { try manager.moveItem(at: directory / "refused", to: other / "refused") }
    step("goes on") { try manager.moveItem(at: directory / "there", to: other / "there") }
    FileProtection.policy = .ignore
    step("away") { try manager.moveItem(at: directory / "second", to: away / "second") }
    print(delegate.said.joined(separator: ", "))
}

/// Objects that a newer version of protectfs made: that their class is not known is an error, and not "no class".
func newer(in directory: URL, _ words: [String]) throws {
    for name in words {
        show("\(name), attributes") { try protection(of: directory / name) }
        show("\(name), resource value") {
            let values = try (directory / name).resourceValues(forKeys: [.fileProtectionKey])
            return values.fileProtection?.rawValue ?? "nil"
        }
        step("\(name), copied") {
            try FileManager.default.copyItem(at: directory / name, to: directory / "\(name).copied")
        }
    }
}
