// Example 7: a public thumbnail, readable before the first unlock.

import FileProtection

func publicThumbnail(in directory: URL, _ words: [String]) throws {
    let url = directory.appendingPathComponent("thumbnail")
    step("write") { try Data("image".utf8).write(to: url, options: [.atomic, .noFileProtection]) }
    step("read") { print(String(decoding: try Data(contentsOf: url), as: UTF8.self)) }
}
