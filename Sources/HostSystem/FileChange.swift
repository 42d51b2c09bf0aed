// Makes directories, and renames and removes files, by path.

import CLinuxShim
package import Glibc

/// mkdir(2), rename(2), unlink(2) and rmdir(2).
package enum FileChange {
    /// Makes a directory with this mode.
    package static func makeDirectory(_ path: HostPath, mode: mode_t = 0o700) throws(SystemError) {
        guard unsafe path.withCString({ unsafe mkdir($0, mode) }) == 0 else { throw .last("mkdir", path.description) }
    }

    /// Renames a file or directory. An existing `target` is replaced, or causes EEXIST if `replacing` is false.
    package static func rename(_ source: HostPath, to target: HostPath, replacing: Bool) throws(SystemError) {
        let result = unsafe source.withCString { source in
            unsafe target.withCString { target in
                unsafe pfs_renameat2(AT_FDCWD, source, AT_FDCWD, target, replacing ? 0 : pfs_RENAME_NOREPLACE)
            }
        }
        guard result == 0 else { throw SystemError(code: -result, call: "rename", subject: target.description) }
    }

    /// Removes an entry that is not a directory.
    package static func removeFile(_ path: HostPath) throws(SystemError) {
        guard unsafe path.withCString({ unsafe unlink($0) }) == 0 else { throw .last("unlink", path.description) }
    }

    /// Removes an empty directory.
    package static func removeDirectory(_ path: HostPath) throws(SystemError) {
        guard unsafe path.withCString({ unsafe rmdir($0) }) == 0 else { throw .last("rmdir", path.description) }
    }
}
