// Example 1: sensitive data, saved so that it can be read only while the device is unlocked.

import FileProtection

func saveSensitiveData(_ data: Data, to url: URL) throws {
    try data.write(to: url, options: .completeFileProtection)
}

func updateSensitiveData(_ data: Data, at url: URL) throws {
    try data.write(to: url, options: [.atomic, .completeFileProtection])
}
