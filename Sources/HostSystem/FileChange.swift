// Changes of names by path: directories made, files renamed and removed.

import CLinuxShim
package import Glibc

/// mkdir(2), rename(2), unlink(2) and rmdir(2).
package enum FileChange {
    /// Makes a directory with this mode.
    package static func makeDirectory(_ path: HostPath, mode: mode_t = 0o700) throws(SystemError) {
        guard unsafe path.withCString({ unsafe mkdir($0, mode) }) == 0 else { throw .last("mkdir", path.description) }
    }

    /// Renames; what is in place of `target` is replaced, or is EEXIST where `replacing` is false.
    package static func rename(_ source: HostPath, to target: HostPath, replacing: Bool) throws(SystemError) {
        let result = unsafe source.withCString { source in
            unsafe target.withCString { target in
                unsafe pfs_renameat2(AT_FDCWD, source, AT_FDCWD, target, replacing ? 0 : pfs_RENAME_NOREPLACE)
            }
        }
        guard result == 0 else { throw SystemError(code: -result, call: "rename", subject: target.description) }
    }

    /// Removes a name that is not a directory's.
    package static func removeFile(_ path: HostPath) throws(SystemError) {
        guard unsafe path.withCString({ unsafe unlink($0) }) == 0 else { throw .last("unlink", path.description) }
    }

    /// Removes an empty directory.
    package static func removeDirectory(_ path: HostPath) throws(SystemError) {
        guard unsafe path.withCString({ unsafe rmdir($0) }) == 0 else { throw .last("rmdir", path.description) }
    }
}
