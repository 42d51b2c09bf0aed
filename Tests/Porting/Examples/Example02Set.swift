// Example 2: a file that is there already gets a class.

import FileProtection

func protectExistingFile(at url: URL) throws {
    try FileManager.default.setAttributes(
        [.protectionKey: FileProtectionType.complete],
        ofItemAtPath: url.path
    )
}
