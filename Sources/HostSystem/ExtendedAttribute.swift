// Extended attributes by path, without following links (xattr(7)).

import CLinuxShim
import Glibc

/// Reads and sets extended attributes of the object at a path. A link is not followed (lgetxattr(2), lsetxattr(2)).
package enum ExtendedAttribute {
    /// The value, at most 64 KiB; nil if the attribute is missing or the object cannot have attributes.
    ///
    /// - Parameter isProtected: whether the object is a file or directory of a mount. There EOPNOTSUPP says that a newer version
    ///   made it, and is thrown.
    package static func read(
        _ name: String, of path: HostPath, isProtected: Bool = false
    ) throws(SystemError) -> [UInt8]? {
        // Most values are short. The second try has room for every value.
        for room in [256, 65536] {
            var buffer = [UInt8](repeating: 0, count: room)
            let count = unsafe path.withCString { path in unsafe pfs_lgetxattr(path, name, &buffer, UInt(room)) }
            if count >= 0 { return Array(buffer.prefix(count)) }
            if errno != ERANGE { break }
        }
        if errno == ENODATA || errno == EOPNOTSUPP && !isProtected { return nil }
        throw .last("getxattr", path.description)
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
