// Where the keybag lies in the store: read with a bound, replaced so that there is always a whole one.

public import BackingStore
import VolumeFormat

/// The keybag's file at the root of a volume.
public enum KeybagFile {
    static let current = EntryName(String(describing: ReservedName.keybag))
    static let previous = EntryName(String(describing: ReservedName.previousKeybag))
    static let temporary = EntryName(String(describing: ReservedName.temporaryPrefix) + "keybag")

    /// Reads the keybag, or with `usePrevious` the one before the last change.
    ///
    /// At most one byte more than the longest keybag is read, so that a longer file is seen as malformed by the parser.
    /// - Throws: ENOENT when there is none, EINVAL when it is not a regular file, and what the store says.
    public static func read(in root: BackingDirectory, usePrevious: Bool = false) throws(Errno) -> [UInt8] {
        guard let name = usePrevious ? previous : current else { throw .EINVAL }
        return try read(name, in: root)
    }

    /// Writes the first keybag of a new volume; EEXIST when there is one.
    public static func create(_ bytes: [UInt8], in root: BackingDirectory) throws(Errno) {
        guard let current else { throw .EINVAL }
        try writeTemporary(bytes, in: root)
        try root.rename(temporaryName(), to: root, current, mode: .noReplace)
        try root.synchronize()
    }

    /// Replaces the keybag atomically and durably; the one before it stays as `.old`.
    ///
    /// At every moment either the old or the new one is there whole: new bytes durable under a temporary name, then the
    /// current one linked as `.old`, then the rename.
    public static func replace(with bytes: [UInt8], in root: BackingDirectory) throws(Errno) {
        guard let current, let previous else { throw .EINVAL }
        try writeTemporary(bytes, in: root)
        do throws(Errno) { try root.unlink(previous) } catch { if error != .ENOENT { throw error } }
        do throws(Errno) {
            try root.link(current, to: root, previous)
        } catch {
            // A store without hard links keeps a copy instead.
            if error == .ENOENT { throw error }
            try writeFile(try read(in: root), previous, in: root)
        }
        try root.rename(temporaryName(), to: root, current)
        try root.synchronize()
    }

    /// Undoes `create` of an `init` that failed later.
    public static func remove(in root: BackingDirectory) {
        for name in [current, temporary] { if let name { try? root.unlink(name) } }
    }

    private static func temporaryName() throws(Errno) -> EntryName {
        guard let temporary else { throw .EINVAL }
        return temporary
    }

    private static func writeTemporary(_ bytes: [UInt8], in root: BackingDirectory) throws(Errno) {
        let name = try temporaryName()
        do throws(Errno) { try root.unlink(name) } catch { if error != .ENOENT { throw error } }
        do throws(Errno) {
            try writeFile(bytes, name, in: root)
        } catch {
            try? root.unlink(name)
            throw error
        }
    }

    private static func writeFile(_ bytes: [UInt8], _ name: EntryName, in root: BackingDirectory) throws(Errno) {
        let file = try root.createFile(name, mode: 0o600)
        // The array owns the bytes for the length of the call.
        try unsafe file.write(bytes.span.bytes, at: 0)
        try file.synchronize(dataOnly: false)
    }
}
