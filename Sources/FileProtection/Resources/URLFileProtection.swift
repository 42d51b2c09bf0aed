// The class as a resource value of a URL: Foundation on Linux has none of these names.

import PlainFoundation

/// The class of a file, as URLs name it. Raw values are those of `FileProtectionType`.
public struct URLFileProtection: Hashable, RawRepresentable, Sendable {
    /// `NSFileProtection…`.
    public let rawValue: String

    /// From a raw value.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// Usable while the volume is unlocked.
    public static let complete = URLFileProtection(rawValue: FileProtectionType.complete.rawValue)
    /// Opened while the volume is unlocked; what is open goes on working through a lock.
    public static let completeUnlessOpen = URLFileProtection(rawValue: FileProtectionType.completeUnlessOpen.rawValue)
    /// Usable from the first unlock on.
    public static let completeUntilFirstUserAuthentication = URLFileProtection(
        rawValue: FileProtectionType.completeUntilFirstUserAuthentication.rawValue)
    /// Usable always; encrypted nevertheless.
    public static let none = URLFileProtection(rawValue: FileProtectionType.none.rawValue)
}

extension URLResourceKey {
    /// The class of a file: a `URLFileProtection`.
    public static let fileProtectionKey = URLResourceKey(rawValue: "NSURLFileProtectionKey")
}

/// What a program means by URLResourceValues.
public typealias URLResourceValues = ProtectedResourceValues

/// Foundation's resource values, and the class.
@dynamicMemberLookup
public struct ProtectedResourceValues {
    /// Those that Foundation knows.
    public var plain: Foundation.URLResourceValues
    /// The class. Nil where there is none, where it was not asked for, or where it is not to be set.
    public var fileProtection: URLFileProtection?

    /// No values yet.
    public init() { plain = Foundation.URLResourceValues() }

    init(_ plain: Foundation.URLResourceValues, _ type: URLFileProtection?) {
        self.plain = plain
        fileProtection = type
    }

    /// Everything, by key.
    public var allValues: [URLResourceKey: Any] {
        var all = plain.allValues
        all[.fileProtectionKey] = fileProtection
        return all
    }

    /// Foundation's own values.
    public subscript<Value>(dynamicMember path: WritableKeyPath<Foundation.URLResourceValues, Value>) -> Value {
        get { plain[keyPath: path] }
        set { plain[keyPath: path] = newValue }
    }

    /// Foundation's own values that can only be read.
    public subscript<Value>(dynamicMember path: KeyPath<Foundation.URLResourceValues, Value>) -> Value {
        plain[keyPath: path]
    }
}

extension Foundation.URLResourceValues {
    /// Not here: Foundation's own values know no class. Give the keys as an array.
    @available(
        *, unavailable, message: "write the keys as an array literal, or annotate: let values: URLResourceValues"
    )
    public var fileProtection: URLFileProtection? { nil }
}

extension URL {
    /// The values of some keys, the class among them. An array literal chooses this one over Foundation's.
    public func resourceValues(forKeys keys: [URLResourceKey]) throws -> ProtectedResourceValues {
        let type = keys.contains(.fileProtectionKey) ? try fileProtection() : nil
        return ProtectedResourceValues(try Plain.values(self, Set(keys).subtracting([.fileProtectionKey])), type)
    }

    /// The same for a set, where the type of the result is given.
    @_disfavoredOverload
    public func resourceValues(forKeys keys: Set<URLResourceKey>) throws -> ProtectedResourceValues {
        try resourceValues(forKeys: Array(keys))
    }

    /// Sets the class, where the values have one, then what else they have.
    ///
    /// - Throws: as `FileManager.setAttributes(_:ofItemAtPath:)`.
    public mutating func setResourceValues(_ values: ProtectedResourceValues) throws {
        if let type = values.fileProtection { try setFileProtection(type) }
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
    /// Sets one value; of `.fileProtectionKey` the class, as a URLFileProtection, a FileProtectionType or a raw value.
    ///
    /// - Throws: as `FileManager.setAttributes(_:ofItemAtPath:)`.
    public func setResourceValue(_ value: Any?, forKey key: URLResourceKey) throws {
        guard key == .fileProtectionKey, let value else { return try Plain.set(self, value, key) }
        try (self as URL).setFileProtection(value)
    }

    /// Sets the class, where the values have one, then the others.
    ///
    /// - Throws: as `FileManager.setAttributes(_:ofItemAtPath:)`.
    public func setResourceValues(_ keyedValues: [URLResourceKey: Any]) throws {
        if let type = keyedValues[.fileProtectionKey] { try (self as URL).setFileProtection(type) }
        let rest = keyedValues.filter { $0.key != .fileProtectionKey }
        if !rest.isEmpty { try Plain.set(self, rest) }
    }

    /// The values of some keys, the class among them.
    public func resourceValues(forKeys keys: [URLResourceKey]) throws -> [URLResourceKey: Any] {
        var values = try Plain.values(self, keys.filter { $0 != .fileProtectionKey })
        if keys.contains(.fileProtectionKey) { values[.fileProtectionKey] = try (self as URL).fileProtection() }
        return values
    }
}
