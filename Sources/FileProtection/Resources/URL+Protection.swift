// The class of a file among the resource values of its URL. Foundation on Linux lacks these names.

import PlainFoundation

extension URLResourceKey {
    /// The key for the class of a file. Its value is a `URLFileProtection`.
    public static let fileProtectionKey = URLResourceKey(rawValue: "NSURLFileProtectionKey")
    /// The key for whether an item's file system has protection classes. Its value is a `Bool`.
    public static let volumeSupportsFileProtectionKey = URLResourceKey(rawValue: "NSURLVolumeSupportsFileProtectionKey")
}

// Foundation's `URLResourceValues` has no room for values of its own keys. Of its quarantine properties, which no file on Linux
// has, it keeps any dictionary, and passes it on.

extension Foundation.URLResourceValues {
    private func own<Value>(_ key: URLResourceKey) -> Value? { quarantineProperties?[key.rawValue] as? Value }

    fileprivate mutating func setOwn(_ value: Any?, _ key: URLResourceKey) {
        var all = quarantineProperties ?? [:]
        all[key.rawValue] = value
        quarantineProperties = all.isEmpty ? nil : all
    }

    /// The class. Nil if the file has none or it was not requested. When setting, nil leaves the class unchanged.
    public var fileProtection: URLFileProtection? {
        get { own(.fileProtectionKey) }
        set { setOwn(newValue?._bridgeToObjectiveC(), .fileProtectionKey) }
    }

    /// Whether backups leave the item out: the extended attribute `user.xdg.robots.backup`, with the value `false`. Nil if
    /// it was not requested. When setting, nil leaves it unchanged.
    public var isExcludedFromBackup: Bool? {
        get { own(.isExcludedFromBackupKey) }
        set { setOwn(newValue, .isExcludedFromBackupKey) }
    }

    /// Whether the file system of the item has protection classes: whether the item is on a protected mount.
    public var volumeSupportsFileProtection: Bool? { own(.volumeSupportsFileProtectionKey) }

    /// The room in bytes for what the user asked for. Here it is the room that is free for this user.
    public var volumeAvailableCapacityForImportantUsage: Int64? {
        own(.volumeAvailableCapacityForImportantUsageKey)
    }

    /// The room in bytes for what the user may want. Here it is the room that is free for this user.
    public var volumeAvailableCapacityForOpportunisticUsage: Int64? {
        own(.volumeAvailableCapacityForOpportunisticUsageKey)
    }

    /// The bytes that the item takes on the disk. Foundation on Linux counts them several times.
    public var fileAllocatedSize: Int? { own(.fileAllocatedSizeKey) }

    /// The bytes that the item takes on the disk. Linux keeps no metadata of a file beside it.
    public var totalFileAllocatedSize: Int? { own(.totalFileAllocatedSizeKey) }

    /// All values by their keys.
    public var allValues: [URLResourceKey: Any] {
        var all = Plain.all(self)
        all[.quarantinePropertiesKey] = nil
        for (key, value) in quarantineProperties ?? [:] { all[URLResourceKey(rawValue: key)] = value }
        return all
    }
}

/// The values of which Foundation on Linux has none, or wrong ones.
private enum OwnValue {
    static let keys: Set<URLResourceKey> = [
        .fileProtectionKey, .isExcludedFromBackupKey, .volumeSupportsFileProtectionKey, .fileAllocatedSizeKey,
        .totalFileAllocatedSizeKey, .volumeAvailableCapacityForImportantUsageKey,
        .volumeAvailableCapacityForOpportunisticUsageKey,
    ]

    /// The value of one of these keys for a file; the class as its name, which casts to each of its types.
    static func of(_ key: URLResourceKey, _ url: URL) throws -> Any? {
        switch key {
        case .fileProtectionKey: try url.fileProtection()?._bridgeToObjectiveC()
        case .isExcludedFromBackupKey: try BackupExclusion.get(url.path)
        case .volumeSupportsFileProtectionKey: ProtectedMount.holding(url.path) != nil
        case .fileAllocatedSizeKey, .totalFileAllocatedSizeKey: try AllocatedSize.of(url.path)
        default: AvailableCapacity.of(url.path)
        }
    }
}

extension URL {
    /// The values of some keys, the class among them.
    ///
    /// - Throws: Foundation's errors.
    public func resourceValues(forKeys keys: Set<URLResourceKey>) throws -> URLResourceValues {
        guard isFileURL else { return try Plain.values(self, keys) }
        var values = try Plain.values(self, keys.subtracting(OwnValue.keys))
        for key in keys.intersection(OwnValue.keys) { values.setOwn(try OwnValue.of(key, self), key) }
        return values
    }

    /// Sets the class, where the values have one, then what else they have.
    ///
    /// - Throws: as `FileManager.setAttributes(_:ofItemAtPath:)`.
    public mutating func setResourceValues(_ values: URLResourceValues) throws {
        if let type = values.fileProtection { try setFileProtection(type) }
        if let isExcluded = values.isExcludedFromBackup, isFileURL { try BackupExclusion.set(isExcluded, path) }
        var plain = values
        plain.quarantineProperties = nil
        try Plain.set(&self, plain)
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
    /// to `URLFileProtection`, `FileProtectionType` and `String`, or nil if the file has no class; of the other keys that
    /// this library adds a number.
    ///
    /// - Throws: Foundation's errors.
    public func getResourceValue(_ value: inout AnyObject?, forKey key: URLResourceKey) throws {
        let url = self as URL
        guard url.isFileURL, OwnValue.keys.contains(key) else { return try Plain.get(self, &value, key) }
        value = try OwnValue.of(key, url).map { $0 as AnyObject }
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

    /// The values of some keys, those that this library adds among them.
    ///
    /// - Throws: Foundation's errors.
    public func resourceValues(forKeys keys: [URLResourceKey]) throws -> [URLResourceKey: Any] {
        let url = self as URL
        guard url.isFileURL else { return try Plain.values(self, keys) }
        var values = try Plain.values(self, keys.filter { !OwnValue.keys.contains($0) })
        for key in keys where OwnValue.keys.contains(key) { values[key] = try OwnValue.of(key, url) }
        return values
    }
}
