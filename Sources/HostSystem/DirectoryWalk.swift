// Lists directories and reads the status of paths, without following links.

package import CLibrary

/// The status of the object at a path.
package enum FileStatus {
    /// lstat(2).
    package static func read(_ path: HostPath) throws(SystemError) -> stat {
        var result = stat()
        guard unsafe path.withCString({ unsafe lstat($0, &result) }) == 0 else {
            throw .last("lstat", path.description)
        }
        return result
    }

    /// Refuses a path that this user cannot access in these ways (access(2)).
    package static func requireAccess(_ path: HostPath, _ mode: Int32) throws(SystemError) {
        guard unsafe path.withCString({ unsafe access($0, mode) }) == 0 else { throw .last("access", path.description) }
    }

    /// The names in a directory, sorted by their bytes, without `.` and `..`.
    package static func names(in path: HostPath) throws(SystemError) -> [HostPath] {
        guard let stream = unsafe path.withCString({ unsafe opendir($0) }) else {
            throw .last("opendir", path.description)
        }
        defer { unsafe closedir(stream) }
        var names: [HostPath] = []
        while true {
            errno = 0
            guard let entry = unsafe readdir(stream) else {
                guard errno == 0 else { throw .last("readdir", path.description) }
                break
            }
            // d_name ends with NUL inside its record, which is valid until the next call of readdir(3).
            let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { record in
                HostPath(bytes: unsafe Array(record.prefix { $0 != 0 }))
            }
            if name != HostPath("."), name != HostPath("..") { names.append(name) }
        }
        return names.sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
    }
}
