// The class of a file among the resource values of its URL. Foundation on Linux lacks these names.

import PlainFoundation

extension URLResourceKey {
    /// The key for the class of a file. Its value is a `URLFileProtection`.
    public static let fileProtectionKey = URLResourceKey(rawValue: "NSURLFileProtectionKey")
}

/// The `URLResourceValues` of programs that import this library.
public typealias URLResourceValues = ProtectedResourceValues

/// Foundation's resource values and the class.
@dynamicMemberLookup
public struct ProtectedResourceValues {
    /// Foundation's own resource values.
    public var plain: Foundation.URLResourceValues
    /// The class. Nil if the file has none or it was not requested. When setting, nil leaves the class unchanged.
    public var fileProtection: URLFileProtection?
    /// Whether backups leave the item out: the extended attribute `user.xdg.robots.backup`, with the value `false`. Nil if
    /// it was not requested. When setting, nil leaves it unchanged.
    public var isExcludedFromBackup: Bool?
    /// The room in bytes for what the user asked for. Here it is the room that is free for this user.
    public internal(set) var volumeAvailableCapacityForImportantUsage: Int64?
    /// The room in bytes for what the user may want. Here it is the room that is free for this user.
    public internal(set) var volumeAvailableCapacityForOpportunisticUsage: Int64?

    /// Makes an empty set of values.
    public init() { plain = Foundation.URLResourceValues() }

    init(_ plain: Foundation.URLResourceValues, _ type: URLFileProtection?) {
        self.plain = plain
        fileProtection = type
    }

    /// All values by their keys.
    public var allValues: [URLResourceKey: Any] {
        var all = plain.allValues
        all[.fileProtectionKey] = fileProtection
        all[.isExcludedFromBackupKey] = isExcludedFromBackup
        all[.volumeAvailableCapacityForImportantUsageKey] = volumeAvailableCapacityForImportantUsage
        all[.volumeAvailableCapacityForOpportunisticUsageKey] = volumeAvailableCapacityForOpportunisticUsage
        return all
    }

    /// A value of Foundation's `URLResourceValues`.
    public subscript<Value>(dynamicMember path: WritableKeyPath<Foundation.URLResourceValues, Value>) -> Value {
        get { plain[keyPath: path] }
        set { plain[keyPath: path] = newValue }
    }

    /// A read-only value of Foundation's `URLResourceValues`.
    public subscript<Value>(dynamicMember path: KeyPath<Foundation.URLResourceValues, Value>) -> Value {
        plain[keyPath: path]
    }
}

extension Foundation.URLResourceValues {
    /// Unavailable, because Foundation's own type does not have the class. Give the keys as an array literal.
    @available(
        *, unavailable, message: "write the keys as an array literal, or annotate: let values: URLResourceValues"
    )
    public var fileProtection: URLFileProtection? { nil }
}

extension URL {
    /// The values of some keys, including the class. Swift prefers this method to Foundation's for an array literal.
    ///
    /// - Throws: Foundation's errors.
    public func resourceValues(forKeys keys: [URLResourceKey]) throws -> ProtectedResourceValues {
        let own: Set<URLResourceKey> = [
            .fileProtectionKey, .isExcludedFromBackupKey, .volumeAvailableCapacityForImportantUsageKey,
            .volumeAvailableCapacityForOpportunisticUsageKey,
        ]
        let wanted = Set(keys)
        let type = wanted.contains(.fileProtectionKey) ? try fileProtection() : nil
        var values = ProtectedResourceValues(try Plain.values(self, wanted.subtracting(own)), type)
        guard isFileURL else { return values }
        if wanted.contains(.isExcludedFromBackupKey) { values.isExcludedFromBackup = try BackupExclusion.get(path) }
        if wanted.contains(.volumeAvailableCapacityForImportantUsageKey) {
            values.volumeAvailableCapacityForImportantUsage = AvailableCapacity.of(path)
        }
        if wanted.contains(.volumeAvailableCapacityForOpportunisticUsageKey) {
            values.volumeAvailableCapacityForOpportunisticUsage = AvailableCapacity.of(path)
        }
        return values
    }

    /// The values of a set of keys. Swift chooses this method only if the result's type is annotated.
    ///
    /// - Throws: Foundation's errors.
    @_disfavoredOverload
    public func resourceValues(forKeys keys: Set<URLResourceKey>) throws -> ProtectedResourceValues {
        try resourceValues(forKeys: Array(keys))
    }

    /// Sets the class, where the values have one, then what else they have.
    ///
    /// - Throws: as `FileManager.setAttributes(_:ofItemAtPath:)`.
    public mutating func setResourceValues(_ values: ProtectedResourceValues) throws {
        if let type = values.fileProtection { try setFileProtection(type) }
        if let isExcluded = values.isExcludedFromBackup, isFileURL { try BackupExclusion.set(isExcluded, path) }
        try setResourceValues(values.plain)
    }

    func fileProtection() throws -> URLFileProtection? {
        guard isFileURL else { return nil }
        do throws(ProtectionSystemError) {
            return try ProtectionAttribute.get(path).map { URLFileProtection(rawValue: $0.rawValue) }
        } catch {
            throw CocoaError.of(error.code, .read, path)
        }
    }

    func setFileProtection(_ value: Any) throws {
        let type = try FileProtectionType.of(value)
        guard isFileURL else { return try FileProtection.refuseOrGoOn(absoluteString) }
        if try ProtectedFileManager.protects(path) { try ProtectedFileManager.set(type, path) }
    }
}

extension NSURL {
    /// Sets one value; of `.fileProtectionKey` the class, as a URLFileProtection, a FileProtectionType or a raw value; of
    /// `.isExcludedFromBackupKey` the mark for backups. For both nil changes nothing.
    ///
    /// - Throws: as `FileManager.setAttributes(_:ofItemAtPath:)`.
    public func setResourceValue(_ value: Any?, forKey key: URLResourceKey) throws {
        let url = self as URL
        if key == .isExcludedFromBackupKey, url.isFileURL {
            if let value { try BackupExclusion.set(value, url.path) }
            return
        }
        guard key == .fileProtectionKey, let value else { return try Plain.set(self, value, key) }
        try url.setFileProtection(value)
    }

    /// Gives one value (`NSURL.getResourceValue(_:forKey:)`); of `.fileProtectionKey` the name of the class, which casts
    /// to `URLFileProtection`, `FileProtectionType` and `String`, or nil if the file has no class; of
    /// `.isExcludedFromBackupKey` a truth value.
    ///
    /// - Throws: Foundation's errors.
    public func getResourceValue(_ value: inout AnyObject?, forKey key: URLResourceKey) throws {
        let url = self as URL
        if key == .isExcludedFromBackupKey, url.isFileURL {
            value = NSNumber(value: try BackupExclusion.get(url.path))
            return
        }
        guard key == .fileProtectionKey else { return try Plain.get(self, &value, key) }
        value = try url.fileProtection()?._bridgeToObjectiveC()
    }

    /// Sets the class and the mark for backups, where the values have them, then the others.
    ///
    /// - Throws: as `FileManager.setAttributes(_:ofItemAtPath:)`.
    public func setResourceValues(_ keyedValues: [URLResourceKey: Any]) throws {
        let url = self as URL
        if let type = keyedValues[.fileProtectionKey] { try url.setFileProtection(type) }
        var rest = keyedValues.filter { $0.key != .fileProtectionKey }
        if url.isFileURL, let mark = rest.removeValue(forKey: .isExcludedFromBackupKey) {
            try BackupExclusion.set(mark, url.path)
        }
        if !rest.isEmpty { try Plain.set(self, rest) }
    }

    /// The values of some keys, the class and the mark for backups among them.
    public func resourceValues(forKeys keys: [URLResourceKey]) throws -> [URLResourceKey: Any] {
        let url = self as URL
        let own: [URLResourceKey] = [.fileProtectionKey] + (url.isFileURL ? [.isExcludedFromBackupKey] : [])
        var values = try Plain.values(self, keys.filter { !own.contains($0) })
        if keys.contains(.fileProtectionKey) { values[.fileProtectionKey] = try url.fileProtection() }
        if url.isFileURL, keys.contains(.isExcludedFromBackupKey) {
            values[.isExcludedFromBackupKey] = try BackupExclusion.get(url.path)
        }
        return values
    }
}
