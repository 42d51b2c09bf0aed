// Saves through a directory for item replacement, and replaces directories.

import FileProtection

/// For each word: saves the item of that name as a document-based application does.
func replacing(in directory: URL, _ words: [String]) {
    let manager = FileManager.default
    for word in words {
        let item = directory / word
        let isDirectory = (try? item.resourceValues(forKeys: [.isDirectoryKey]))?.isDirectory ?? false
        do {
            let place = try manager.url(
                for: .itemReplacementDirectory, in: .userDomainMask, appropriateFor: item, create: false)
            defer { try? manager.removeItem(at: place) }
            show("\(word) directory") { try protection(of: place) }
            show("\(word) is near") { try volume(of: place) == volume(of: directory) }
            show("\(word) is private and empty") {
                let attributes = try manager.attributesOfItem(atPath: place.path)
                let names = try manager.contentsOfDirectory(atPath: place.path)
                return attributes[.posixPermissions] as? Int == 0o700 && names.isEmpty
            }
            let new = place / (item.lastPathComponent + ".new")
            step("\(word) written") {
                if isDirectory { try manager.createDirectory(at: new, withIntermediateDirectories: false) }
                try Data("new".utf8).write(to: isDirectory ? new / "part" : new)
            }
            step("\(word) replaced") {
                if manager.fileExists(atPath: item.path) {
                    _ = try manager.replaceItemAt(item, withItemAt: new)
                } else {
                    try manager.moveItem(at: new, to: item)
                }
            }
        } catch { print("\(word) directory: \(outcome(of: error))") }
    }
}

/// What the call refuses, and that two directories for one item differ.
func replacementDirectories(in directory: URL, _ words: [String]) {
    let manager = FileManager.default
    func place(_ reference: URL?, _ domain: FileManager.SearchPathDomainMask = .userDomainMask) throws -> URL {
        try manager.url(for: .itemReplacementDirectory, in: domain, appropriateFor: reference, create: true)
    }
    step("no reference") { _ = try place(nil) }
    step("other domain") { _ = try place(directory, .localDomainMask) }
    step("no file") { _ = try place(URL(string: "https://example.org/a")) }
    show("two differ") {
        let both = [try place(directory / "item"), try place(directory / "item")]
        defer { for url in both { try? manager.removeItem(at: url) } }
        return both[0] != both[1]
    }
    show("hidden beside") {
        let url = try place(directory / "item")
        defer { try? manager.removeItem(at: url) }
        return url.deletingLastPathComponent().path == directory.path && url.lastPathComponent.hasPrefix(".")
    }
    show("in the temporary directory") {
        let url = try place(manager.temporaryDirectory / "item")
        defer { try? manager.removeItem(at: url) }
        return url.deletingLastPathComponent().path == manager.temporaryDirectory.path
    }
    show("other directories") {
        try manager.url(for: .cachesDirectory, in: .userDomainMask, appropriateFor: nil, create: false)
            .lastPathComponent.isEmpty == false
    }
}

/// Pairs of words: replaces the first item by the second, with a backup if a third word names one.
func replaceAny(in directory: URL, _ words: [String]) {
    step("replace") {
        let options: FileManager.ItemReplacementOptions = words.count > 2 ? .withoutDeletingBackupItem : []
        let url = try FileManager.default.replaceItemAt(
            directory / words[0], withItemAt: URL(fileURLWithPath: words[1], relativeTo: directory),
            backupItemName: words.count > 2 ? words[2] : nil, options: options)
        guard url?.path == (directory / words[0]).path else { throw CocoaError(.fileWriteUnknown) }
    }
}

private func volume(of url: URL) throws -> Int {
    try FileManager.default.attributesOfItem(atPath: url.path)[.systemNumber] as? Int ?? -1
}
