// Example 6: reading what may be closed: nil through `try?`, error 257 through `catch`.

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
