// Copying, moving and replacing keep classes; a place without protection is refused as the policy says.

import FileProtection

func copyMoveReplace(in directory: URL, _ words: [String]) throws {
    let manager = FileManager.default
    func at(_ name: String) -> URL { directory.appendingPathComponent(name) }
    try manager.createDirectory(
        at: at("tree"), withIntermediateDirectories: false,
        attributes: [.protectionKey: FileProtectionType.completeUnlessOpen])
    try Data("one".utf8).write(to: at("tree/one"), options: .completeFileProtection)
    try Data("two".utf8).write(to: at("tree/two"), options: .noFileProtection)
    try manager.createSymbolicLink(atPath: at("tree/link").path, withDestinationPath: "one")
    try manager.copyItem(at: at("tree"), to: at("copy"))
    step("copy again") { try manager.copyItem(at: at("tree/one"), to: at("copy/one")) }
    try manager.moveItem(at: at("tree/one"), to: at("moved"))
    try Data("new".utf8).write(to: at("new"), options: .noFileProtection)
    _ = try manager.replaceItemAt(at("moved"), withItemAt: at("new"))
    print(
        String(decoding: try Data(contentsOf: at("moved")), as: UTF8.self), manager.fileExists(atPath: at("new").path))
    step("out") { try manager.copyItem(at: at("moved"), to: URL(fileURLWithPath: words[0])) }
}

func policies(in directory: URL, _ words: [String]) throws {
    let url = directory.appendingPathComponent("unprotected")
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
            let place = directory.appendingPathComponent(name)
            try FileManager.default.createDirectory(
                at: place, withIntermediateDirectories: true, attributes: attributes)
        }
    }
    let found = try FileManager.default.attributesOfItem(atPath: directory.path)[.protectionKey]
    print(found == nil, try directory.resourceValues(forKeys: [.fileProtectionKey]).fileProtection == nil)
}

func atomicWriters(in directory: URL, _ words: [String]) throws {
    let url = directory.appendingPathComponent("contended")
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
