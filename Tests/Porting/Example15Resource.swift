// Example 15: the class as a resource value of a URL.

import FileProtection

func resourceValues(in directory: URL, _ words: [String]) throws {
    var url = directory.appendingPathComponent("resource")
    if !FileManager.default.fileExists(atPath: url.path) { try Data("abc".utf8).write(to: url) }
    try (url as NSURL).setResourceValue(URLFileProtection.complete, forKey: .fileProtectionKey)
    let values = try url.resourceValues(forKeys: [.fileProtectionKey, .fileSizeKey])
    print(values.fileProtection == .complete, values.fileSize ?? -1)
    var change = URLResourceValues()
    change.fileProtection = .completeUnlessOpen
    try url.setResourceValues(change)
    let annotated: URLResourceValues = try url.resourceValues(forKeys: Set([.fileProtectionKey]))
    print(annotated.fileProtection == .completeUnlessOpen)
    let dictionary = try (url as NSURL).resourceValues(forKeys: [.fileProtectionKey])
    print((dictionary[.fileProtectionKey] as? URLFileProtection)?.rawValue ?? "nil")
    try (url as NSURL).setResourceValue(FileProtectionType.complete.rawValue, forKey: .fileProtectionKey)
}
