// Puts a keybag that comes from elsewhere in the place of the volume's.

package import BackingStore
package import HostSystem
internal import Keybag
internal import VolumeFormat

extension KeybagFile {
    /// Puts a keybag in place, durably. The one that was there is kept under its second name, and nothing is overwritten.
    ///
    /// The steps are those of `replace`, without the last one: at every moment the keybag that was there, or the new one, is
    /// whole under a name. If the one that was there is damaged, and there is another one from before the last change, that one
    /// is kept.
    /// - Parameter authentic: the keybag that is there, if it was found to be whole.
    /// - Throws: the store's error; EBUSY if another machine has changed the keybag. The keybag that was there still has its
    ///   name then, or its second name.
    /// - Returns: whether a keybag is kept under the second name.
    package static func put(
        _ bytes: [UInt8], over authentic: [UInt8]?, in root: BackingDirectory
    ) throws(Errno) -> Bool {
        var hold = try hold(in: root, waits: true)
        defer { withExtendedLifetime(hold) {} }
        hold.add(try writeTemporary(bytes, in: root))
        do throws(Errno) {
            if try keepsCurrent(authentic, in: root) { try keepCurrent(in: root) }
            try root.rename(temporary, to: root, current)
        } catch {
            // A network may lose the reply to a rename that was done.
            if (try? read(in: root)) != bytes {
                _ = try? destroy(temporary, isDurable: true, in: root)
                throw error
            }
        }
        try root.synchronize()
        return hasPrevious(in: root)
    }

    /// Whether the current keybag gets the second name.
    private static func keepsCurrent(_ authentic: [UInt8]?, in root: BackingDirectory) throws(Errno) -> Bool {
        let found: [UInt8]
        do throws(Errno) { found = try read(in: root) } catch {
            // Missing, or no file, which nothing can open.
            guard error == .ENOENT || error == .EINVAL || error == .ELOOP else { throw error }
            if authentic != nil { throw .EBUSY }
            return false
        }
        if let authentic, found != authentic { throw .EBUSY }
        return authentic != nil || !hasPrevious(in: root)
    }

    private static func keepCurrent(in root: BackingDirectory) throws(Errno) {
        let found = try read(in: root)
        _ = try keep(found, in: root)
    }
}
