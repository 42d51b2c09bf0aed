// Example 2: a file that is there already gets a class.

import FileProtection

func setOnExistingFile(in directory: URL, _ words: [String]) throws {
    let url = directory.appendingPathComponent(words[0])
    try FileManager.default.setAttributes(
        [.protectionKey: FileProtectionType.complete],
        ofItemAtPath: url.path
    )
    print("set")
}

/// A class along with other attributes, as a raw value too.
func attributesTogether(in directory: URL, _ words: [String]) throws {
    let url = directory.appendingPathComponent("together")
    let date = Date(timeIntervalSince1970: 1_000_000)
    let made = FileManager.default.createFile(
        atPath: url.path, contents: Data("x".utf8),
        attributes: [.protectionKey: FileProtectionType.completeUnlessOpen, .posixPermissions: 0o640])
    print("created: \(made)")
    try FileManager.default.setAttributes(
        [.protectionKey: "NSFileProtectionNone", .posixPermissions: 0o400, .modificationDate: date],
        ofItemAtPath: url.path)
    let found = try FileManager.default.attributesOfItem(atPath: url.path)
    print((found[.protectionKey] as? FileProtectionType)?.rawValue ?? "nil")
    print(
        String((found[.posixPermissions] as? NSNumber)?.intValue ?? 0, radix: 8),
        found[.modificationDate] as? Date == date)
    step("wrong value") { try FileManager.default.setAttributes([.protectionKey: 7], ofItemAtPath: url.path) }
}
