// Example 13: a background task lowers the class of a file, which a locked volume refuses with 513.

import FileProtection

func lowerProtection(in directory: URL, _ words: [String]) throws {
    let url = directory.appendingPathComponent(words[0])
    step("attributes") {
        try FileManager.default.setAttributes(
            [.protectionKey: FileProtectionType.completeUntilFirstUserAuthentication], ofItemAtPath: url.path)
    }
    step("in place") { try Data("lower".utf8).write(to: url, options: .noFileProtection) }
}
