// Directory listings and what lies at a path, links not followed.

package import Glibc

/// What lies at a path.
package enum FileStatus {
    /// lstat(2).
    package static func read(_ path: HostPath) throws(SystemError) -> stat {
        var result = stat()
        guard unsafe path.withCString({ unsafe lstat($0, &result) }) == 0 else {
            throw .last("lstat", path.description)
        }
        return result
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
            // d_name ends with NUL within the record that readdir(3) lends until its next call.
            let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { HostPath(bytes: unsafe Array($0)) }
            if name != HostPath("."), name != HostPath("..") { names.append(name) }
        }
        return names.sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
    }
}
