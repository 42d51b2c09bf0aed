// A cache on disk, as libraries for caches are written: values with an expiry, a limit for the size, and one class.

import FileProtection

/// Keeps Codable values as files. A file's modification date is the time at which its value expires.
struct DiskCache {
    let directory: URL
    let mostBytes: Int
    private let manager = FileManager.default

    init(in directory: URL, class type: FileProtectionType, mostBytes: Int = .max) throws {
        (self.directory, self.mostBytes) = (directory, mostBytes)
        try manager.createDirectory(
            at: directory, withIntermediateDirectories: true, attributes: [.protectionKey: type])
    }

    func set(_ value: some Encodable, for key: String, expiring date: Date = .distantFuture) throws {
        let url = place(of: key)
        try JSONEncoder().encode(["value": value]).write(to: url, options: .atomic)
        try manager.setAttributes([.modificationDate: date], ofItemAtPath: url.path)
        try shrink()
    }

    /// The value; nil if there is none or it has expired.
    func value<Value: Decodable>(_ type: Value.Type, for key: String, now: Date = Date()) throws -> Value? {
        let url = place(of: key)
        guard manager.fileExists(atPath: url.path), try expiry(of: url) > now else { return nil }
        return try JSONDecoder().decode([String: Value].self, from: Data(contentsOf: url))["value"]
    }

    func remove(_ key: String) throws {
        let url = place(of: key)
        if manager.fileExists(atPath: url.path) { try manager.removeItem(at: url) }
    }

    /// Removes what has expired; the number of values.
    func removeExpired(now: Date = Date()) throws -> Int {
        let old = try items().filter { $0.expiry <= now }
        for item in old { try manager.removeItem(at: item.url) }
        return old.count
    }

    func removeAll() throws {
        for item in try items() { try manager.removeItem(at: item.url) }
    }

    func size() throws -> Int { try items().reduce(0) { $0 + $1.size } }

    /// The file of a key, which may have any characters.
    func place(of key: String) -> URL {
        let name = Data(key.utf8).base64EncodedString().replacingOccurrences(of: "/", with: "-")
        return directory.appendingPathComponent(name).appendingPathExtension("value")
    }

    private func expiry(of url: URL) throws -> Date {
        try manager.attributesOfItem(atPath: url.path)[.modificationDate] as? Date ?? .distantPast
    }

    private func items() throws -> [(url: URL, expiry: Date, size: Int)] {
        let keys: Set<URLResourceKey> = [.contentModificationDateKey, .fileSizeKey, .isRegularFileKey]
        let all = manager.enumerator(at: directory, includingPropertiesForKeys: Array(keys), options: .skipsHiddenFiles)
        var found: [(URL, Date, Int)] = []
        while let url = all?.nextObject() as? URL {
            let values = try url.resourceValues(forKeys: keys)
            guard values.isRegularFile == true else { continue }
            found.append((url, values.contentModificationDate ?? .distantPast, values.fileSize ?? 0))
        }
        return found
    }

    /// Removes the values that expire first until the rest has room.
    private func shrink() throws {
        var left = try items().sorted { $0.expiry < $1.expiry }
        var total = left.reduce(0) { $0 + $1.size }
        while total > mostBytes, !left.isEmpty {
            let item = left.removeFirst()
            try manager.removeItem(at: item.url)
            total -= item.size
        }
    }
}
