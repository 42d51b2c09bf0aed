// What else of Foundation reads and writes files: streams, handles, enumerators, archives, bundles and defaults.

import FileProtection

/// The error of a stream, of which Foundation may be asked only if there is one.
private func failure(of stream: Stream) -> String? {
    guard stream.streamStatus == .error, let error = stream.streamError as NSError? else { return nil }
    return "\(error.domain) \(error.code)"
}

private func written(_ url: URL, append: Bool, _ text: String) -> String {
    guard let stream = OutputStream(url: url, append: append) else { return "no stream" }
    stream.open()
    defer { stream.close() }
    let bytes = Array(text.utf8)
    let count = stream.write(bytes, maxLength: bytes.count)
    return failure(of: stream) ?? (count == bytes.count ? "ok" : "\(count) bytes")
}

private func readByStream(_ url: URL) -> String {
    guard let stream = InputStream(url: url) else { return "no stream" }
    stream.open()
    defer { stream.close() }
    var bytes = [UInt8](repeating: 0, count: 100)
    let count = stream.read(&bytes, maxLength: bytes.count)
    return failure(of: stream) ?? String(decoding: bytes.prefix(max(count, 0)), as: UTF8.self)
}

func streams(in directory: URL, _ words: [String]) {
    for word in words {
        print("\(word) read: \(readByStream(directory / word))")
        print("\(word) appended: \(written(directory / word, append: true, "+"))")
        print("\(word) written: \(written(directory / word, append: false, "new"))")
        print("\(word) new: \(written(directory / "in-\(word)/stream", append: false, "new"))")
    }
}

/// Streams that stay open while lines come: each line is written, and a piece is read.
func openStreams(in directory: URL, _ words: [String]) {
    let url = directory / words[0]
    guard let output = OutputStream(url: url, append: true), let input = InputStream(url: url) else { return }
    output.open()
    input.open()
    print("open")
    while let line = readLine() {
        let bytes = Array(line.utf8)
        let count = output.write(bytes, maxLength: bytes.count)
        var piece = [UInt8](repeating: 0, count: bytes.count)
        let got = input.read(&piece, maxLength: piece.count)
        print("written \(failure(of: output) ?? "\(count)"), read \(failure(of: input) ?? "\(got)")")
    }
}

func handles(in directory: URL, _ words: [String]) {
    for word in words {
        step("\(word) appended") {
            let handle = try FileHandle(forWritingTo: directory / word)
            try handle.seekToEnd()
            try handle.write(contentsOf: Data("+".utf8))
            try handle.synchronize()
            try handle.close()
        }
    }
}

/// Every item below the directory with its class, by each way of enumerating.
func enumerated(in directory: URL, _ words: [String]) {
    let manager = FileManager.default
    let keys: Set<URLResourceKey> = [.fileProtectionKey, .isRegularFileKey, .fileSizeKey]
    var found: [String] = []
    var errors: [String] = []
    let below = manager.enumerator(at: directory, includingPropertiesForKeys: Array(keys)) { url, error in
        errors.append("\(url.lastPathComponent) \((error as NSError).code)")
        return true
    }
    while let url = below?.nextObject() as? URL {
        let values = try? url.resourceValues(forKeys: keys)
        let size = values?.isRegularFile == true ? " \(values?.fileSize ?? -1)" : ""
        found.append("\(url.lastPathComponent) \(values?.fileProtection?.rawValue ?? "nil")\(size)")
    }
    print(found.sorted().joined(separator: ", "))
    show("in all values") {
        try manager.contentsOfDirectory(at: directory, includingPropertiesForKeys: Array(keys)).compactMap {
            try $0.resourceValues(forKeys: keys).allValues[.fileProtectionKey] as? URLFileProtection
        }.count
    }
    show("by paths") {
        try manager.subpathsOfDirectory(atPath: directory.path).filter { path in
            let attributes = try manager.attributesOfItem(atPath: (directory / path).path)
            return attributes[.protectionKey] is FileProtectionType
        }.count
    }
    print("errors: \(errors)")
}

/// What an archive holds.
final class Setting: NSObject, NSSecureCoding {
    static var supportsSecureCoding: Bool { true }
    let name: String
    init(_ name: String) { self.name = name }
    func encode(with coder: NSCoder) { coder.encode(name as NSString, forKey: "name") }
    required init?(coder: NSCoder) {
        guard let name = coder.decodeObject(of: NSString.self, forKey: "name") else { return nil }
        self.name = "\(name)"
    }
}

func archived(in directory: URL, _ words: [String]) {
    for word in words {
        let url = directory / word
        step("\(word) archived") {
            let data = try NSKeyedArchiver.archivedData(withRootObject: Setting("new"), requiringSecureCoding: true)
            try data.write(to: url, options: .atomic)
        }
        show("\(word) unarchived") {
            let data = try Data(contentsOf: url)
            return try NSKeyedUnarchiver.unarchivedObject(ofClass: Setting.self, from: data)?.name ?? "nil"
        }
        // Property lists of Foundation's own classes, which write by themselves.
        let list = directory / "in-\(word)/list.plist"
        print("\(word) list: \(NSDictionary(dictionary: ["key": "value"]).write(to: list, atomically: true))")
        show("\(word) list again") {
            let values = try PropertyListSerialization.propertyList(from: Data(contentsOf: list), format: nil)
            return (values as? [String: String])?["key"] ?? "nil"
        }
    }
}

/// A bundle is found and listed in every state; what is in it opens as its class says.
func bundled(in directory: URL, _ words: [String]) {
    let bundle = Bundle(url: directory / "Parts.bundle")
    for word in words {
        show(word) {
            guard let url = bundle?.url(forResource: word, withExtension: "txt") else { return "not found" }
            return try String(contentsOf: url, encoding: .utf8)
        }
    }
}

/// Defaults of a home on the mount. Each word is set under its own name; "wait" waits for a line.
func defaults(in directory: URL, _ words: [String]) {
    guard let defaults = UserDefaults(suiteName: "org.example.notes") else { return print("no defaults") }
    for word in words {
        if word == "wait" {
            print("waiting")
            _ = readLine()
        } else {
            let before = defaults.string(forKey: word) ?? "nil"
            defaults.set("set", forKey: word)
            print("\(word): \(before), \(defaults.synchronize())")
        }
    }
}
