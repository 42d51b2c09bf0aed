// Example 12: a database's directory has the class, so that the journal files beside it have it too.

import FileProtection

func openDatabase(in directory: URL, _ words: [String]) throws {
    let folder = directory.appendingPathComponent("database")
    try FileManager.default.createDirectory(
        at: folder, withIntermediateDirectories: true,
        attributes: [.protectionKey: FileProtectionType.completeUntilFirstUserAuthentication])
    for name in ["main.sqlite", "main.sqlite-wal", "main.sqlite-shm"] {
        let url = folder.appendingPathComponent(name)
        step(name) {
            if !FileManager.default.fileExists(atPath: url.path) { try Data().write(to: url) }
            let handle = try FileHandle(forUpdating: url)
            try handle.seekToEnd()
            try handle.write(contentsOf: Data("row\n".utf8))
            try handle.close()
        }
    }
}
