// Example 5: saved for background tasks, which go on reading while the device is locked.

import FileProtection

func saveToken(_ token: String, to url: URL) throws {
    try Data(token.utf8).write(to: url, options: [.atomic, .completeFileProtectionUntilFirstUserAuthentication])
}

func tokenInBackground(at url: URL) throws -> String {
    String(decoding: try Data(contentsOf: url), as: UTF8.self)
}
