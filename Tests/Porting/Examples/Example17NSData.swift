// Example 17: the forms of NSData.

import FileProtection

func saveComplete(_ data: NSData, to url: URL) throws {
    try data.write(to: url, options: .completeFileProtection)
}

func saveUnlessOpen(_ data: NSData, toFile path: String) throws {
    try data.write(toFile: path, options: [.atomic, .completeFileProtectionUnlessOpen])
}

func saveUntilFirstUnlock(_ data: NSData, toFile path: String) throws {
    try data.write(toFile: path, options: .completeFileProtectionUntilFirstUserAuthentication)
}

func saveUnprotected(_ data: NSData, to url: URL) throws {
    try data.write(to: url, options: .noFileProtection)
}

func saveAsBefore(_ data: NSData, toFile path: String) -> Bool {
    data.write(toFile: path, atomically: true)
}
