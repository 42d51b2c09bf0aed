// The class as a resource value of a URL. Foundation on Linux lacks these names.

import PlainFoundation

/// The class of a file as a resource value (Apple's `URLFileProtection`). The raw values are those of
/// `FileProtectionType`.
public struct URLFileProtection: Hashable, RawRepresentable, Sendable {
    /// The name of the class, such as `NSFileProtectionComplete`.
    public let rawValue: String

    /// Makes a value from the name of a class.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The file can be used while the volume is unlocked.
    public static let complete = URLFileProtection(rawValue: FileProtectionType.complete.rawValue)
    /// The file can be opened while the volume is unlocked. Open files can be used while it is locked.
    public static let completeUnlessOpen = URLFileProtection(rawValue: FileProtectionType.completeUnlessOpen.rawValue)
    /// The file can be used after the first unlock.
    public static let completeUntilFirstUserAuthentication = URLFileProtection(
        rawValue: FileProtectionType.completeUntilFirstUserAuthentication.rawValue)
    /// The file can be used in every state, but is encrypted.
    public static let none = URLFileProtection(rawValue: FileProtectionType.none.rawValue)
}

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
        let type = keys.contains(.fileProtectionKey) ? try fileProtection() : nil
        return ProtectedResourceValues(try Plain.values(self, Set(keys).subtracting([.fileProtectionKey])), type)
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
