// The attributes through which a protected mount speaks of classes: xattr(7) by path and by descriptor.

import CLinuxShim
import Glibc
import VolumeFormat

/// Why a call of the system failed: its errno, and which call it was.
public struct ProtectionSystemError: Error, Equatable, Sendable {
    /// The errno.
    public let code: Int32
    /// The call, as in `setxattr`.
    public let call: String

    static func last(_ call: String) -> ProtectionSystemError { ProtectionSystemError(code: errno, call: call) }

    /// What was to be made would have been made on no protected mount.
    static let notProtected = ProtectionSystemError(code: EXDEV, call: "mount")

    /// The error for the program.
    func refusal(_ use: FileUse, _ path: String, class wanted: FileProtectionType? = nil) -> any Error {
        if self == .notProtected { return FileProtectionError.notProtected(path) }
        return CocoaError.of(code, use, path, class: wanted)
    }
}

/// Reads and sets `user.protection`: of a file its class, of a directory the default for new entries.
public enum ProtectionAttribute {
    /// The attribute's name.
    public static let name = AttributeName.protection.description
    /// The state of a mount, readable on its root by everyone.
    public static let stateName = AttributeName.state.description

    /// The class; nil where there is none: a directory without a default, or no protected mount, where an attribute of this
    /// name is a copy that means nothing.
    public static func get(_ path: String) throws(ProtectionSystemError) -> FileProtectionType? {
        guard let value = try text(name, of: path), ProtectedMount.holding(path) != nil else { return nil }
        return ProtectionClassName.type(ofAttributeValue: value)
    }

    /// The class of an open file or directory; nil where there is none.
    public static func get(_ descriptor: Int32) throws(ProtectionSystemError) -> FileProtectionType? {
        let value = try unsafe value("fgetxattr") { unsafe fgetxattr(descriptor, name, $0, $1) }
        guard let value else { return nil }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else { throw .last("fstat") }
        return ProtectedMount.of(status.st_dev) == nil ? nil : ProtectionClassName.type(ofAttributeValue: value)
    }

    /// Sets the class.
    public static func set(_ type: FileProtectionType, _ path: String) throws(ProtectionSystemError) {
        let value = Array((ProtectionClassName.attributeValue(of: type) ?? type.rawValue).utf8)
        guard unsafe setxattr(path, name, value, value.count, 0) == 0 else { throw .last("setxattr") }
    }

    /// Sets the class of an open file or directory.
    public static func set(_ type: FileProtectionType, _ descriptor: Int32) throws(ProtectionSystemError) {
        let value = Array((ProtectionClassName.attributeValue(of: type) ?? type.rawValue).utf8)
        guard unsafe fsetxattr(descriptor, name, value, value.count, 0) == 0 else { throw .last("fsetxattr") }
    }

    /// The text of any attribute of what a path leads to; nil where there is none.
    public static func text(_ attribute: String, of path: String) throws(ProtectionSystemError) -> String? {
        try unsafe value("getxattr") { unsafe getxattr(path, attribute, $0, $1) }
    }

    /// One attribute's value, which is short: those that this library reads have at most 40 bytes.
    private static func value(
        _ call: String, _ read: (UnsafeMutablePointer<UInt8>?, Int) -> Int
    ) throws(ProtectionSystemError) -> String? {
        var buffer = [UInt8](repeating: 0, count: 256)
        let count = unsafe buffer.withUnsafeMutableBufferPointer { unsafe read($0.baseAddress, $0.count) }
        if count >= 0 { return String(decoding: buffer.prefix(count), as: UTF8.self) }
        if errno == ENODATA || errno == EOPNOTSUPP { return nil }
        throw .last(call)
    }
}
