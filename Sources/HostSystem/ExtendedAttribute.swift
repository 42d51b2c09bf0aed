// Extended attributes by path, links not followed (xattr(7)).

import CLinuxShim
import Glibc

/// getxattr(2) and setxattr(2) on the object that a path names itself.
package enum ExtendedAttribute {
    /// The value, at most 64 KiB; nil when there is no such attribute or the object can have none.
    package static func read(_ name: String, of path: HostPath) throws(SystemError) -> [UInt8]? {
        var buffer = [UInt8](repeating: 0, count: 65536)
        let count = unsafe path.withCString { path in unsafe pfs_lgetxattr(path, name, &buffer, UInt(buffer.count)) }
        if count >= 0 { return Array(buffer.prefix(count)) }
        if errno == ENODATA || errno == EOPNOTSUPP { return nil }
        throw .last("getxattr", path.description)
    }

    /// Sets the value.
    package static func write(_ name: String, of path: HostPath, _ value: [UInt8]) throws(SystemError) {
        let result = unsafe path.withCString { path in unsafe pfs_lsetxattr(path, name, value, UInt(value.count)) }
        guard result == 0 else { throw .last("setxattr", path.description) }
    }

    /// Removes the attribute; one that is not there is no error.
    package static func remove(_ name: String, of path: HostPath) throws(SystemError) {
        let result = unsafe path.withCString { path in unsafe pfs_lremovexattr(path, name) }
        guard result == 0 || errno == ENODATA else { throw .last("removexattr", path.description) }
    }
}
