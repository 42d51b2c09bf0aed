// Example 3: new files in a directory inherit its class.

import FileProtection

func createPrivateFolder(at url: URL) throws {
    try FileManager.default.createDirectory(
        at: url,
        withIntermediateDirectories: true,
        attributes: [.protectionKey: FileProtectionType.complete]
    )
}

func saveNote(_ text: String, in folder: URL) throws {
    try Data(text.utf8).write(to: folder.appendingPathComponent("note.txt"))
}
