// Example 6: reads a file that may be closed. `try?` gives nil, `catch` gets error 257.

import FileProtection

func sensitiveDataIfReadable(at url: URL) -> Data? {
    try? Data(contentsOf: url)
}

func loadSensitiveData(from url: URL) throws -> Data? {
    do {
        return try Data(contentsOf: url)
    } catch let error as CocoaError where error.code == .fileReadNoPermission {
        // The device is locked: try again when protected data becomes available.
        print("not readable now, error \(error.code.rawValue)")
        return nil
    }
}
