// The class completeWhenUserInactive by every name that the library gives it.

import FileProtection

/// Makes files and a folder of the class in every way; the word says in which state, as each has names of its own.
func inactive(in directory: URL, _ words: [String]) {
    let manager = FileManager.default
    let type = FileProtectionType.completeWhenUserInactive
    let data = Data("new".utf8)
    func place(_ name: String) -> URL { directory / "\(words[0]) \(name)" }
    step("option") { try data.write(to: place("option"), options: .completeFileProtectionWhenUserInactive) }
    step("atomic option") {
        try data.write(to: place("atomic"), options: [.atomic, .completeFileProtectionWhenUserInactive])
    }
    step("createFile") {
        let isMade = manager.createFile(
            atPath: place("created").path, contents: data, attributes: [.protectionKey: type])
        if !isMade { throw CocoaError(.fileWriteUnknown) }
    }
    step("createDirectory") {
        try manager.createDirectory(
            at: place("folder"), withIntermediateDirectories: false, attributes: [.protectionKey: type])
    }
    step("below") { try data.write(to: place("folder") / "below") }
    step("setAttributes") {
        try data.write(to: place("set"), options: .noFileProtection)
        try manager.setAttributes([.protectionKey: type], ofItemAtPath: place("set").path)
    }
    step("resource value") {
        var url = place("value")
        try data.write(to: url, options: .noFileProtection)
        var values = URLResourceValues()
        values.fileProtection = .completeWhenUserInactive
        try url.setResourceValues(values)
    }
    // Made by the test while everything was open.
    let existing = directory / "existing"
    show("attribute") { try protection(of: existing) }
    show("as a resource value") {
        let values = try existing.resourceValues(forKeys: [.fileProtectionKey])
        return values.fileProtection == .completeWhenUserInactive
    }
    show("read") { text(try Data(contentsOf: existing)) }
    step("write in place") { try data.write(to: existing) }
}
