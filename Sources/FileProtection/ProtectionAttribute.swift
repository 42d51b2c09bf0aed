// Reads and sets the extended attributes for classes (xattr(7)), by path and by descriptor.

import CLibrary
import CLinuxShim
import VolumeFormat

/// The error of a failed system call.
public struct ProtectionSystemError: Error, Equatable, Sendable {
    /// The error number (errno(3)).
    public let code: Int32
    /// The name of the call, such as `setxattr`.
    public let call: String

    static func last(_ call: String) -> ProtectionSystemError { ProtectionSystemError(code: errno, call: call) }

    /// The file would have been made outside every protected mount.
    static let notProtected = ProtectionSystemError(code: EXDEV, call: "mount")
}

/// Reads and sets the attribute `user.protection`. It holds a file's class, or a directory's default for new entries.
public enum ProtectionAttribute {
    /// The attribute's name, `user.protection`.
    public static let name = AttributeName.protection.description
    /// The name of the attribute with the mount's state. Every user can read it on the mount's root.
    public static let stateName = AttributeName.state.description

    /// The class of the file or directory at a path. Nil for a directory without a default, and outside a protected
    /// mount, where an attribute of this name has no effect.
    ///
    /// - Throws: the error of getxattr(2); EOPNOTSUPP on a protected mount if a newer version of protectfs made the object.
    public static func get(_ path: String) throws(ProtectionSystemError) -> FileProtectionType? {
        guard let value = try text(name, of: path), ProtectedMount.holding(path) != nil else { return nil }
        return ProtectionClassName.type(ofAttributeValue: value)
    }

    /// The class of an open file or directory; nil in the same cases as for a path.
    ///
    /// - Throws: the error of fgetxattr(2); EOPNOTSUPP as for a path.
    public static func get(_ descriptor: Int32) throws(ProtectionSystemError) -> FileProtectionType? {
        let text = try unsafe value("fgetxattr", isProtected(descriptor)) { unsafe fgetxattr(descriptor, name, $0, $1) }
        guard let text, isProtected(descriptor) else { return nil }
        return ProtectionClassName.type(ofAttributeValue: text)
    }

    /// Whether an open file or directory is on a protected mount.
    private static func isProtected(_ descriptor: Int32) -> Bool {
        var status = stat()
        return unsafe fstat(descriptor, &status) == 0 && ProtectedMount.of(status.st_dev) != nil
    }

    /// Sets the class of the file or directory at a path.
    ///
    /// - Throws: the error of setxattr(2), such as EACCES if the old or the new class is closed.
    public static func set(_ type: FileProtectionType, _ path: String) throws(ProtectionSystemError) {
        let value = Array((ProtectionClassName.attributeValue(of: type) ?? type.rawValue).utf8)
        guard unsafe setxattr(path, name, value, value.count, 0) == 0 else { throw .last("setxattr") }
    }

    /// Sets the class of an open file or directory.
    ///
    /// - Throws: the error of fsetxattr(2), such as EACCES if the old or the new class is closed.
    public static func set(_ type: FileProtectionType, _ descriptor: Int32) throws(ProtectionSystemError) {
        let value = Array((ProtectionClassName.attributeValue(of: type) ?? type.rawValue).utf8)
        guard unsafe fsetxattr(descriptor, name, value, value.count, 0) == 0 else { throw .last("fsetxattr") }
    }

    /// The value of an attribute of a path's target, as text; nil if there is none.
    ///
    /// - Throws: the error of getxattr(2), and EOPNOTSUPP only on a protected mount.
    public static func text(_ attribute: String, of path: String) throws(ProtectionSystemError) -> String? {
        try unsafe value("getxattr", ProtectedMount.holding(path) != nil) { unsafe getxattr(path, attribute, $0, $1) }
    }

    /// An attribute's value. The attributes that this library reads have at most 40 bytes.
    ///
    /// - Parameter isProtected: whether the object is on a protected mount. There EOPNOTSUPP says that a newer version made
    ///   it, so its class is not known; elsewhere, that the file system has no extended attributes.
    static func value(
        _ call: String, _ isProtected: @autoclosure () -> Bool, _ read: (UnsafeMutablePointer<UInt8>?, Int) -> Int
    ) throws(ProtectionSystemError) -> String? {
        var buffer = [UInt8](repeating: 0, count: 256)
        let count = unsafe buffer.withUnsafeMutableBufferPointer { unsafe read($0.baseAddress, $0.count) }
        if count >= 0 { return String(decoding: buffer.prefix(count), as: UTF8.self) }
        let error = ProtectionSystemError.last(call)
        if error.code == ENODATA || error.code == EOPNOTSUPP && !isProtected() { return nil }
        throw error
    }
}
