// Classes that become stronger, classes that were chosen while locked, and the class as a value of NSURL.

import FileProtection

/// Each file gets class complete: the first one by its attributes, the others by the ways of URL and NSURL. A handle that is
/// open for reading since before goes on.
func tighten(in directory: URL, _ words: [String]) throws {
    let urls = words.map { directory / $0 }
    let handles = try urls.map { try FileHandle(forReadingFrom: $0) }
    for (number, url) in urls.enumerated() {
        step(url.lastPathComponent) {
            switch number % 3 {
            case 0:
                try FileManager.default.setAttributes(
                    [.protectionKey: FileProtectionType.complete], ofItemAtPath: url.path)
            case 1: try (url as NSURL).setResourceValue(URLFileProtection.complete, forKey: .fileProtectionKey)
            default:
                var values = URLResourceValues()
                values.fileProtection = .complete
                var place = url
                try place.setResourceValues(values)
            }
        }
    }
    for handle in handles { show("handle") { text(try handle.readToEnd()) } }
    for url in urls { show("content") { text(try Data(contentsOf: url)) } }
}

/// One file gets a class while it is open for writing; then the handle writes on.
func tightenWhileWritten(in directory: URL, _ words: [String]) throws {
    let url = directory / words[0]
    let handle = try FileHandle(forWritingTo: url)
    step("set") {
        try FileManager.default.setAttributes([.protectionKey: FileProtectionType.complete], ofItemAtPath: url.path)
    }
    try handle.seekToEnd()
    step("write") { try handle.write(contentsOf: Data(" and more".utf8)) }
    try handle.close()
}

/// The class of each file through `NSURL.getResourceValue`, in every type that a program may cast it to.
func getResourceValue(in directory: URL, _ words: [String]) throws {
    for word in words {
        var value: AnyObject?
        do {
            try ((directory / word) as NSURL).getResourceValue(&value, forKey: .fileProtectionKey)
            let names = [
                value as? String, (value as? URLFileProtection)?.rawValue, (value as? FileProtectionType)?.rawValue,
            ]
            print(names.map { $0 ?? "nil" }.joined(separator: " "))
        } catch {
            print(outcome(of: error))
        }
    }
    var size: AnyObject?
    try ((directory / words[0]) as NSURL).getResourceValue(&size, forKey: .fileSizeKey)
    print(size as? Int ?? -1)
}

/// Files of class B by every way that makes one, in every state.
func makeUnlessOpen(in directory: URL, _ words: [String]) {
    let attributes: [FileAttributeKey: Any] = [.protectionKey: FileProtectionType.completeUnlessOpen]
    step("option") {
        try Data("option".utf8).write(to: directory / "option", options: .completeFileProtectionUnlessOpen)
    }
    step("atomic") {
        try Data("atomic".utf8).write(to: directory / "atomic", options: [.atomic, .completeFileProtectionUnlessOpen])
    }
    show("created") {
        FileManager.default.createFile(
            atPath: (directory / "created").path, contents: Data("created".utf8), attributes: attributes)
    }
}
