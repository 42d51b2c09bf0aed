// Proves that a keybag that comes from elsewhere is the volume's.

package import BackingStore
package import HostSystem
package import KeyFiles
package import Keybag

extension KeybagFile {
    /// What a volume's root says about the keys of a keybag.
    package enum Proof: Sendable {
        /// The root's record verifies under them, so they are the volume's.
        case proven
        /// The root has no record.
        case missing
        /// The root's record does not verify under them: it is damaged, or they are another volume's.
        case contradicted
    }

    /// Whether the keys of a keybag are those of the volume in `root`.
    package static func proof(_ keys: MetadataKeys, in root: BackingDirectory) throws(Errno) -> Proof {
        let target: [UInt8]
        do throws(Errno) { target = try root.readSymlink(BackingName.record) } catch {
            // EINVAL: someone has put something else there.
            if error == .ENOENT || error == .EINVAL { return .missing }
            throw error
        }
        return NameCipher(keys: keys).record(target: target)?.directoryID == keys.rootID ? .proven : .contradicted
    }
}
