// Example 5: saved for background tasks, which go on reading while the volume is locked.

import FileProtection

func untilFirstUnlock(in directory: URL, _ words: [String]) throws {
    let url = directory.appendingPathComponent("background")
    let options: Data.WritingOptions = [.atomic, .completeFileProtectionUntilFirstUserAuthentication]
    step("write") { try Data("token".utf8).write(to: url, options: options) }
    step("read") { print(String(decoding: try Data(contentsOf: url), as: UTF8.self)) }
}
