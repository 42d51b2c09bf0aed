// Uses of classes beyond the documents' examples: files that keep their class, and places without protection.

import FileProtection

/// Without a class in the options: a file that is there keeps its own.
func saveWithoutClass(in directory: URL, _ words: [String]) {
    for word in words {
        step("\(word) atomic") { try Data("atomic".utf8).write(to: directory / word, options: .atomic) }
        step("\(word) in place") { try Data("in place".utf8).write(to: directory / word) }
    }
}

/// A class along with other attributes, as a raw value too.
func attributesTogether(in directory: URL, _ words: [String]) throws {
    let url = directory / "together"
    let date = Date(timeIntervalSince1970: 1_000_000)
    let made = FileManager.default.createFile(
        atPath: url.path, contents: Data("x".utf8),
        attributes: [.protectionKey: FileProtectionType.completeUnlessOpen, .posixPermissions: 0o640])
    print("created: \(made)")
    step("set") {
        try FileManager.default.setAttributes(
            [.protectionKey: "NSFileProtectionNone", .posixPermissions: 0o400, .modificationDate: date],
            ofItemAtPath: url.path)
    }
    let found = try FileManager.default.attributesOfItem(atPath: url.path)
    print((found[.protectionKey] as? FileProtectionType)?.rawValue ?? "nil")
    print(
        String((found[.posixPermissions] as? NSNumber)?.intValue ?? 0, radix: 8),
        found[.modificationDate] as? Date == date)
    step("wrong value") { try FileManager.default.setAttributes([.protectionKey: 7], ofItemAtPath: url.path) }
}

/// The class along with other resource values, in all their forms.
func resourceValues(in directory: URL, _ words: [String]) throws {
    var url = directory / "resource"
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
    let date = Date(timeIntervalSince1970: 1_000_000)
    try (url as NSURL).setResourceValues([
        .fileProtectionKey: URLFileProtection.none, .contentModificationDateKey: date,
    ])
    let several = try url.resourceValues(forKeys: [.fileProtectionKey, .contentModificationDateKey])
    print(several.fileProtection == URLFileProtection.none, several.contentModificationDate == date)
    step("wrong value") { try (url as NSURL).setResourceValues([.fileProtectionKey: 7]) }
    try (url as NSURL).setResourceValues([.fileProtectionKey: URLFileProtection.complete])
}

/// Every way of Foundation's classes and of String to read a file whole; each word is one.
func readByEveryName(in directory: URL, _ words: [String]) {
    let utf8 = String.Encoding.utf8
    for word in words {
        let url = directory / word
        step("NSData URL") { _ = try NSData(contentsOf: url, options: []) }
        step("NSData path") { _ = try NSData(contentsOfFile: url.path, options: .mappedIfSafe) }
        step("NSString URL") { _ = try NSString(contentsOf: url, encoding: utf8.rawValue) }
        step("NSString path") { _ = try NSString(contentsOfFile: url.path, encoding: utf8.rawValue) }
        step("NSString guessing, URL") { _ = try NSString(contentsOf: url, usedEncoding: nil) }
        step("NSString guessing, path") { _ = try NSString(contentsOfFile: url.path, usedEncoding: nil) }
        step("String path") { _ = try String(contentsOfFile: url.path, encoding: utf8) }
        var used = utf8
        step("String guessing, URL") { _ = try String(contentsOf: url, usedEncoding: &used) }
        step("String guessing, path") { _ = try String(contentsOfFile: url.path, usedEncoding: &used) }
        print(NSData(contentsOf: url)?.length ?? -1, NSData(contentsOfFile: url.path)?.length ?? -1)
    }
}

/// Each file copied, moved, and replaced by one of class none.
func copyMoveReplace(in directory: URL, _ words: [String]) throws {
    let manager = FileManager.default
    for word in words {
        step("\(word) copied") { try manager.copyItem(at: directory / word, to: directory / "\(word).copied") }
        step("\(word) moved") { try manager.moveItem(at: directory / word, to: directory / "\(word).moved") }
        step("\(word) replaced") {
            try Data("new".utf8).write(to: directory / "new", options: .noFileProtection)
            _ = try manager.replaceItemAt(directory / "\(word).moved", withItemAt: directory / "new")
        }
    }
    print("left over:", manager.fileExists(atPath: (directory / "new").path))
}

/// A tree of several classes; the word is a place without protection.
func trees(in directory: URL, _ words: [String]) throws {
    let manager = FileManager.default
    try manager.createDirectory(
        at: directory / "tree", withIntermediateDirectories: false,
        attributes: [.protectionKey: FileProtectionType.completeUnlessOpen])
    try Data("one".utf8).write(to: directory / "tree/one", options: .completeFileProtection)
    try Data("two".utf8).write(to: directory / "tree/two", options: .noFileProtection)
    try manager.createSymbolicLink(atPath: (directory / "tree/link").path, withDestinationPath: "one")
    step("copy") { try manager.copyItem(at: directory / "tree", to: directory / "copy") }
    step("copy again") { try manager.copyItem(at: directory / "tree/one", to: directory / "copy/one") }
    step("out") { try manager.copyItem(at: directory / "tree/one", to: URL(fileURLWithPath: words[0])) }
}

func policies(in directory: URL, _ words: [String]) throws {
    let url = directory / "unprotected"
    let attributes: [FileAttributeKey: Any] = [.protectionKey: FileProtectionType.complete]
    print(FileProtection.isSupported(at: url))
    for (name, policy) in [("require", FileProtection.Policy.require), ("warn", .warn), ("ignore", .ignore)] {
        FileProtection.policy = policy
        step("\(name) write") { try Data("x".utf8).write(to: url, options: .completeFileProtection) }
        step("\(name) attributes") { try FileManager.default.setAttributes(attributes, ofItemAtPath: directory.path) }
        step("\(name) resource") {
            try (directory as NSURL).setResourceValue(URLFileProtection.complete, forKey: .fileProtectionKey)
        }
        print(FileManager.default.createFile(atPath: url.path, contents: nil, attributes: attributes))
        step("\(name) directory") {
            try FileManager.default.createDirectory(
                at: directory / name, withIntermediateDirectories: true, attributes: attributes)
        }
    }
    let found = try FileManager.default.attributesOfItem(atPath: directory.path)[.protectionKey]
    print(found == nil, try directory.resourceValues(forKeys: [.fileProtectionKey]).fileProtection == nil)
}

func atomicWriters(in directory: URL, _ words: [String]) throws {
    let url = directory / "contended"
    let count = Int(words[0]) ?? 0
    let threads = DispatchGroup()
    let failures = Failures()
    for number in 0..<count {
        let thread = Thread {
            let data = Data(repeating: UInt8(number % 256), count: 3000 + number)
            do { try data.write(to: url, options: [.atomic, .completeFileProtection]) } catch { failures.add(error) }
            threads.leave()
        }
        thread.stackSize = 256 << 10
        threads.enter()
        thread.start()
    }
    threads.wait()
    print(failures.all.isEmpty ? "all written" : "\(failures.all.count) failed: \(failures.all[0])")
}

private final class Failures: @unchecked Sendable {
    private let lock = NSLock()
    private var found: [any Error] = []
    var all: [any Error] { lock.withLock { found } }
    func add(_ error: any Error) { lock.withLock { found.append(error) } }
}
