// Example 15: the class as a resource value of a URL.

import FileProtection

func protectByURL(_ url: URL) throws {
    try (url as NSURL).setResourceValue(
        URLFileProtection.complete,
        forKey: .fileProtectionKey
    )
}

func isComplete(_ url: URL) throws -> Bool {
    let values = try url.resourceValues(forKeys: [.fileProtectionKey])
    return values.fileProtection == .complete
}
