// Replaces the keybag. A valid keybag exists at every moment, and the old one is erased afterwards.

package import BackingStore
package import HostSystem
internal import SodiumKit
internal import VolumeFormat

extension KeybagFile {
    /// The keybag that a credential has opened, and that will be replaced.
    package struct Verified: Sendable {
        let bytes: [UInt8]
        let isPrevious: Bool

        /// - Parameter isPrevious: whether it was read as the keybag from before the last change.
        package init(_ bytes: [UInt8], isPrevious: Bool) {
            self.bytes = bytes
            self.isPrevious = isPrevious
        }
    }

    /// Replaces the keybag durably, and destroys the old one.
    ///
    /// The verified keybag keeps a name until the new one is durable. The steps are: write the new bytes durably under a
    /// temporary name, give the verified keybag its second name durably, rename, sync the directory. Only then the old keybag
    /// is overwritten and unlinked. Files under the other two names are destroyed too.
    /// - Throws: the store's error; EBUSY if another machine has changed it, or is changing it. The verified keybag is then
    ///   unchanged.
    /// - Returns: nil, or why the old keybag could not be destroyed. The new one is durable then.
    package static func replace(
        _ old: Verified, with bytes: [UInt8], in root: BackingDirectory
    ) throws(Errno) -> Errno? {
        var hold = try hold(in: root, waits: true)
        defer { withExtendedLifetime(hold) {} }
        // Another machine may have changed it. Its change must not be undone.
        if !old.isPrevious, try read(in: root) != old.bytes { throw .EBUSY }
        hold.add(try writeTemporary(bytes, in: root))
        // If the rename takes a file's only name, its bytes must not stay in free blocks.
        var replaced = try? root.openFile(current, .readWrite)
        do throws(Errno) {
            if !old.isPrevious, try keep(old.bytes, in: root) == .link { replaced = nil }
            try root.rename(temporary, to: root, current)
        } catch {
            // A network may lose the reply to a rename that was done.
            let now = try? read(in: root)
            if now != bytes {
                _ = try? destroy(temporary, isDurable: true, in: root)
                if !old.isPrevious, now == old.bytes {
                    try? destroyHeldLeftovers(keeping: old.bytes, isDurable: false, in: root)
                }
                throw error
            }
        }
        do throws(Errno) { try root.synchronize() } catch {
            takeBack(old, in: root)
            throw error
        }
        do throws(Errno) { try destroyHeldLeftovers(keeping: bytes, isDurable: true, in: root) } catch { return error }
        if let replaced, (try? replaced.status().links) == 0 { try? overwrite(replaced) }
        return nil
    }

    /// Erases the leftovers of an interrupted change: the keybag from before it, and an unfinished one.
    ///
    /// A file is unlinked without being overwritten if overwriting could hit another file: if it is not a regular file, has other
    /// names, or reads as `kept`. Between two calls of a change the keybag from before it is a second name of the
    /// current one, and not every store counts names.
    /// - Parameter kept: the current keybag, as it was verified.
    /// - Throws: EBUSY if another machine is changing the keybag.
    package static func destroyLeftovers(keeping kept: [UInt8], in root: BackingDirectory) throws(Errno) {
        let hold = try hold(in: root, waits: false)
        defer { withExtendedLifetime(hold) {} }
        try destroyHeldLeftovers(keeping: kept, isDurable: false, in: root)
    }

    /// The same for one who holds the keybag.
    ///
    /// - Parameter isDurable: whether `kept` is known to be durable under its name. If not, the directory is synced first.
    private static func destroyHeldLeftovers(
        keeping kept: [UInt8], isDurable: Bool, in root: BackingDirectory
    ) throws(Errno) {
        var hasRemoved = false
        for name in leftovers where try destroy(name, keeping: kept, isDurable: isDurable, in: root) {
            hasRemoved = true
        }
        if hasRemoved { try root.synchronize() }
    }

    /// Whether leftovers of an interrupted change exist, or other objects with their names.
    package static func hasLeftovers(in root: BackingDirectory) -> Bool { leftovers.contains { exists($0, in: root) } }

    /// Whether a file with the name of the previous keybag exists.
    package static func hasPrevious(in root: BackingDirectory) -> Bool { exists(previous, in: root) }

    private static var leftovers: [EntryName] { [previous, temporary] }

    private static func exists(_ name: EntryName, in root: BackingDirectory) -> Bool {
        do throws(Errno) { _ = try root.status(of: name) } catch { return error != .ENOENT }
        return true
    }

    /// Overwrites a file and unlinks it, not yet durably; false if no file has that name.
    static func destroy(
        _ name: EntryName, keeping kept: [UInt8]? = nil, isDurable: Bool = false, in root: BackingDirectory
    ) throws(Errno) -> Bool {
        var file: BackingFile?
        do throws(Errno) { file = try root.openFile(name, .readWrite) } catch {
            if error == .ENOENT { return false }
        }
        // A file that cannot be overwritten is removed nevertheless: without its name nobody can open it through the store.
        if let file, (try? isAlone(file, in: root)) == true, let found = try? bytes(of: file), found != kept {
            if !isDurable { try root.synchronize() }
            try? overwrite(file)
        }
        do throws(Errno) { try root.unlink(name) } catch { if error != .ENOENT { throw error } }
        return true
    }

    enum Second {
        case link, copy
    }

    /// Gives the current keybag, which reads as `bytes`, its second name. If the store has no hard links, makes a copy.
    static func keep(_ bytes: [UInt8], in root: BackingDirectory) throws(Errno) -> Second {
        // The current keybag was verified, so this one is not needed.
        _ = try destroy(previous, keeping: bytes, in: root)
        var second = Second.link
        do throws(Errno) { try root.link(current, to: root, previous) } catch {
            try writeFile(bytes, previous, in: root)
            second = .copy
        }
        try root.synchronize()
        return second
    }

    /// Restores the old names after a rename that may or may not be durable, as far as the store still works.
    private static func takeBack(_ old: Verified, in root: BackingDirectory) {
        if old.isPrevious { try? root.unlink(current) } else { try? root.rename(previous, to: root, current) }
        try? root.synchronize()
    }

    /// Whether a file has one name, and is not the current keybag.
    private static func isAlone(_ file: BackingFile, in root: BackingDirectory) throws(Errno) -> Bool {
        let status = try file.status()
        guard status.links == 1 else { return false }
        let other: Status
        do throws(Errno) { other = try root.status(of: current) } catch {
            if error == .ENOENT { return true }
            throw error
        }
        return status.device != other.device || status.inode != other.inode
    }

    /// Overwrites a keybag with random bytes, up to the longest possible length, durably.
    private static func overwrite(_ file: BackingFile) throws(Errno) {
        let length = Int(min(try file.status().size, UInt64(KeybagLayout.maximumLength)))
        var noise = [UInt8](repeating: 0, count: length)
        var raw = noise.mutableSpan
        randomBytes(into: &raw)
        // The array owns the bytes for the length of the call.
        try file.write(noise.span, at: 0)
        try file.synchronize(dataOnly: false)
    }
}
