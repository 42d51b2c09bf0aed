// Makes directories, and renames and removes files, by path.

package import CLibrary

/// mkdir(2), rename(2), unlink(2) and rmdir(2).
package enum FileChange {
    /// Makes a directory with this mode.
    package static func makeDirectory(_ path: HostPath, mode: mode_t = 0o700) throws(SystemError) {
        guard unsafe path.withCString({ unsafe mkdir($0, mode) }) == 0 else { throw .last("mkdir", path.description) }
    }

    /// Renames a file or directory. An existing `target` is replaced, or causes EEXIST if `replacing` is false.
    package static func rename(_ source: HostPath, to target: HostPath, replacing: Bool) throws(SystemError) {
        guard !replacing else {
            let result = unsafe source.withCString { source in
                unsafe target.withCString { unsafe CLibrary.rename(source, $0) }
            }
            guard result == 0 else { throw .last("rename", target.description) }
            return
        }
        let from = try Descriptor(opening: source.parent, O_RDONLY | O_DIRECTORY)
        let to = try Descriptor(opening: target.parent, O_RDONLY | O_DIRECTORY)
        do throws(Errno) {
            try unsafe source.lastComponent.withCString { (name) throws(Errno) in
                try unsafe target.lastComponent.withCString { (newName) throws(Errno) in
                    try unsafe FreeName.rename(name, in: from.number, to: newName, in: to.number)
                }
            }
        } catch { throw SystemError(code: error.rawValue, call: "rename", subject: target.description) }
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
