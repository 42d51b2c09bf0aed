// Reads and writes the keybag file at the root of a volume.

package import BackingStore
package import HostSystem
import VolumeFormat

/// The keybag's file at the root of a volume.
package enum KeybagFile {
    static let current = BackingName.keybag
    static let previous = BackingName.previousKeybag
    static let temporary = BackingName.temporaryKeybag

    /// Reads the keybag, or with `usePrevious` the one from before the last change.
    ///
    /// At most one byte more than the longest keybag is read, so that a longer file is seen as malformed by the parser.
    /// - Throws: ENOENT if it is missing, EINVAL if it is not a regular file, otherwise the store's error.
    package static func read(in root: BackingDirectory, usePrevious: Bool = false) throws(Errno) -> [UInt8] {
        try read(usePrevious ? previous : current, in: root)
    }

    /// The content of a file: at most one byte more than the longest keybag.
    static func bytes(of file: BackingFile) throws(Errno) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: KeybagLayout.maximumLength + 1)
        let count: Int
        do {
            var span = bytes.mutableSpan
            count = try file.read(into: &span, at: 0)
        }
        return Array(bytes.prefix(count))
    }

    /// Writes the first keybag of a new volume; EEXIST if one exists.
    package static func create(_ bytes: [UInt8], in root: BackingDirectory) throws(Errno) {
        _ = try writeTemporary(bytes, in: root)
        try root.rename(temporary, to: root, current, mode: .noReplace)
        try root.synchronize()
    }

    /// Undoes `create` of an `init` that failed later.
    package static func remove(in root: BackingDirectory) {
        for name in [current, temporary] { try? root.unlink(name) }
    }

    static func writeTemporary(_ bytes: [UInt8], in root: BackingDirectory) throws(Errno) -> BackingFile {
        // An unfinished keybag of an interrupted change may open the volume too, so it is destroyed.
        _ = try destroy(temporary, in: root)
        do throws(Errno) {
            return try writeFile(bytes, temporary, in: root)
        } catch {
            _ = try? destroy(temporary, in: root)
            throw error
        }
    }

    @discardableResult
    static func writeFile(
        _ bytes: [UInt8], _ name: EntryName, in root: BackingDirectory
    ) throws(Errno) -> BackingFile {
        let file = try root.createFile(name, mode: 0o600)
        // The array owns the bytes for the length of the call.
        try file.write(bytes.span, at: 0)
        try file.synchronize(dataOnly: false)
        return file
    }
}
