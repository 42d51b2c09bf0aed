// Example 13: a file that a background task will need gets a class that is open then.

import FileProtection

func prepareForBackgroundTask(_ url: URL) throws {
    try FileManager.default.setAttributes(
        [.protectionKey: FileProtectionType.completeUntilFirstUserAuthentication],
        ofItemAtPath: url.path
    )
}
