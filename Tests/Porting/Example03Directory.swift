// Example 3: what is made in a directory inherits its class.

import FileProtection

func directoryDefault(in directory: URL, _ words: [String]) throws {
    let url = directory.appendingPathComponent("private")
    step("create") {
        try FileManager.default.createDirectory(
            at: url, withIntermediateDirectories: true, attributes: [.protectionKey: FileProtectionType.complete])
    }
    let inside = url.appendingPathComponent("inherits")
    step("in place") { try Data("x".utf8).write(to: inside) }
    step("atomic") { try Data("x".utf8).write(to: inside.appendingPathExtension("atomic"), options: .atomic) }
    step("directory inside") {
        try FileManager.default.createDirectory(
            at: url.appendingPathComponent("below"), withIntermediateDirectories: false)
    }
}
