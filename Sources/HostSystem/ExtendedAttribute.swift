// Extended attributes by path, without following links, and by descriptor (xattr(7)).

import CLibrary
import CLinuxShim

/// Reads and sets extended attributes of the object at a path. A link is not followed (lgetxattr(2), lsetxattr(2)).
package enum ExtendedAttribute {
    /// The value, at most 64 KiB; nil if the attribute is missing or the object cannot have attributes.
    ///
    /// - Parameter isProtected: whether the object is a file or directory of a mount. There EOPNOTSUPP says that a newer version
    ///   made it, and is thrown.
    package static func read(
        _ name: String, of path: HostPath, isProtected: Bool = false
    ) throws(SystemError) -> [UInt8]? {
        let (value, code) = unsafe value { memory, room in
            unsafe path.withCString { path in unsafe pfs_lgetxattr(path, name, memory, UInt(room)) }
        }
        if code == 0 || code == ENODATA || code == EOPNOTSUPP && !isProtected { return value }
        throw SystemError(code: code, call: "getxattr", subject: path.description)
    }

    /// The value of an open object's attribute, at most 64 KiB; nil if it is missing or there can be none.
    package static func read(_ name: String, of file: borrowing Descriptor) throws(SystemError) -> [UInt8]? {
        let number = file.number
        let (value, code) = unsafe value { memory, room in unsafe fgetxattr(number, name, memory, room) }
        if code == 0 || code == ENODATA || code == EOPNOTSUPP { return value }
        throw SystemError(code: code, call: "fgetxattr")
    }

    /// The value, or nil and the error's number. Most values are short. The second try has room for every value.
    private static func value(_ read: (UnsafeMutablePointer<UInt8>?, Int) -> Int) -> ([UInt8]?, Int32) {
        var code: Int32 = 0
        for room in [256, 65536] {
            var buffer = [UInt8](repeating: 0, count: room)
            let count = unsafe buffer.withUnsafeMutableBufferPointer { unsafe read($0.baseAddress, room) }
            if count >= 0 { return (Array(buffer.prefix(count)), 0) }
            code = errno
            if code != ERANGE { break }
        }
        return (nil, code)
    }

    /// Sets the value.
    package static func write(_ name: String, of path: HostPath, _ value: [UInt8]) throws(SystemError) {
        let result = unsafe path.withCString { path in unsafe pfs_lsetxattr(path, name, value, UInt(value.count)) }
        guard result == 0 else { throw .last("setxattr", path.description) }
    }

    /// Removes the attribute. A missing attribute is not an error.
    package static func remove(_ name: String, of path: HostPath) throws(SystemError) {
        let result = unsafe path.withCString { path in unsafe pfs_lremovexattr(path, name) }
        guard result == 0 || errno == ENODATA else { throw .last("removexattr", path.description) }
    }
}
