// Foundation's own calls under other names. FileProtection uses them, because its own members hide the original names.

// protectfs: plain Foundation: this module exists to make its own calls.
public import Foundation

/// Foundation's implementations of the members that FileProtection replaces.
public enum Plain {
    /// `Data.write(to:options:)`.
    public static func write(_ data: Data, to url: URL, options: Data.WritingOptions) throws {
        try data.write(to: url, options: options)
    }

    /// `NSData.write(to:options:)`.
    public static func write(_ data: NSData, to url: URL, options: NSData.WritingOptions) throws {
        try data.write(to: url, options: options)
    }

    /// `Data(contentsOf:options:)`.
    public static func read(_ url: URL, options: Data.ReadingOptions) throws -> Data {
        try Data(contentsOf: url, options: options)
    }

    /// `FileHandle.read(upToCount:)`.
    public static func read(_ handle: FileHandle, upToCount count: Int) throws -> Data? {
        try handle.read(upToCount: count)
    }

    /// `FileHandle.readToEnd()`.
    public static func readToEnd(_ handle: FileHandle) throws -> Data? { try handle.readToEnd() }

    /// `FileHandle.write(contentsOf:)`.
    public static func write(_ handle: FileHandle, contentsOf data: some DataProtocol) throws {
        try handle.write(contentsOf: data)
    }

    /// `FileHandle.truncate(atOffset:)`.
    public static func truncate(_ handle: FileHandle, atOffset offset: UInt64) throws {
        try handle.truncate(atOffset: offset)
    }

    /// `FileHandle.seekToEnd()`.
    public static func seekToEnd(_ handle: FileHandle) throws -> UInt64 { try handle.seekToEnd() }

    /// `NotificationCenter.addObserver(forName:object:queue:using:)`.
    public static func observe(
        _ center: NotificationCenter, _ name: Notification.Name?, _ object: Any?, _ queue: OperationQueue?,
        _ block: @escaping @Sendable (Notification) -> Void
    ) -> any NSObjectProtocol {
        center.addObserver(forName: name, object: object, queue: queue, using: block)
    }

    /// `FileManager.replaceItemAt(_:withItemAt:backupItemName:options:)`.
    public static func replace(
        _ manager: FileManager, _ item: URL, with other: URL, backup: String?,
        options: FileManager.ItemReplacementOptions
    ) throws -> URL? {
        try manager.replaceItemAt(item, withItemAt: other, backupItemName: backup, options: options)
    }

    /// `FileManager.url(for:in:appropriateFor:create:)`.
    public static func url(
        _ manager: FileManager, for directory: FileManager.SearchPathDirectory,
        in domain: FileManager.SearchPathDomainMask, appropriateFor url: URL?, create: Bool
    ) throws -> URL {
        try manager.url(for: directory, in: domain, appropriateFor: url, create: create)
    }

    /// `NSHomeDirectory()`.
    public static func homeDirectory() -> String { NSHomeDirectory() }

    /// `NSTemporaryDirectory()`.
    public static func temporaryDirectory() -> String { NSTemporaryDirectory() }

    /// `NSSearchPathForDirectoriesInDomains(_:_:_:)`.
    public static func searchPaths(
        _ directory: FileManager.SearchPathDirectory, _ domain: FileManager.SearchPathDomainMask, _ expandTilde: Bool
    ) -> [String] { NSSearchPathForDirectoriesInDomains(directory, domain, expandTilde) }

    /// `URL.resourceValues(forKeys:)`.
    public static func values(_ url: URL, _ keys: Set<URLResourceKey>) throws -> URLResourceValues {
        try url.resourceValues(forKeys: keys)
    }

    /// `URL.setResourceValues(_:)`.
    public static func set(_ url: inout URL, _ values: URLResourceValues) throws { try url.setResourceValues(values) }

    /// `URLResourceValues.allValues`.
    public static func all(_ values: URLResourceValues) -> [URLResourceKey: Any] { values.allValues }

    /// `NSURL.getResourceValue(_:forKey:)`.
    public static func get(_ url: NSURL, _ value: inout AnyObject?, _ key: URLResourceKey) throws {
        try url.getResourceValue(&value, forKey: key)
    }

    /// `NSURL.setResourceValue(_:forKey:)`.
    public static func set(_ url: NSURL, _ value: Any?, _ key: URLResourceKey) throws {
        try url.setResourceValue(value, forKey: key)
    }

    /// `NSURL.setResourceValues(_:)`.
    public static func set(_ url: NSURL, _ values: [URLResourceKey: Any]) throws { try url.setResourceValues(values) }

    /// `NSURL.resourceValues(forKeys:)`.
    public static func values(_ url: NSURL, _ keys: [URLResourceKey]) throws -> [URLResourceKey: Any] {
        try url.resourceValues(forKeys: keys)
    }
}

extension NSData {
    /// `NSData(contentsOf:options:)`.
    public convenience init(plainContentsOf url: URL, options: NSData.ReadingOptions) throws {
        try self.init(contentsOf: url, options: options)
    }
}

extension NSString {
    /// `NSString(contentsOf:encoding:)`.
    public convenience init(plainContentsOf url: URL, encoding: UInt) throws {
        try self.init(contentsOf: url, encoding: encoding)
    }

    /// `NSString(contentsOf:usedEncoding:)`.
    public convenience init(plainContentsOf url: URL, usedEncoding: UnsafeMutablePointer<UInt>?) throws {
        unsafe try self.init(contentsOf: url, usedEncoding: usedEncoding)
    }
}
