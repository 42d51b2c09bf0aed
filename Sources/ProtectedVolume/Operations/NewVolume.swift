// Tests whether a store can hold a volume, and writes the root's record.

package import BackingStore
internal import HostSystem
package import KeyFiles
package import Keybag
internal import SodiumKit
internal import VolumeFormat

/// What is done to a store before there is a volume in it.
package enum NewVolume {
    /// Tests whether a store can hold a volume, by making symlinks, sparse files, extended attributes and renames.
    /// Removes all of them again.
    ///
    /// - Throws: the store's own error; EOPNOTSUPP if a call succeeds without the required effect.
    package static func tryStore(_ directory: BackingDirectory) throws(VolumeError) {
        let first = BackingName.temporary()
        let second = BackingName.temporary()
        defer {
            try? directory.unlink(first)
            try? directory.unlink(second)
        }
        do throws(Errno) {
            let target = Array("protectfs".utf8)
            try directory.createSymlink(first, target: target)
            guard try directory.readSymlink(first) == target else { throw .EOPNOTSUPP }
            try directory.rename(first, to: directory, second)
            let file = try directory.createFile(first, mode: 0o600)
            try file.truncate(to: 1 << 20)
            guard try file.status().size == 1 << 20 else { throw .EOPNOTSUPP }
            let name = AttributeName.encryptedPrefix.bytes + Array("probe".utf8)
            try file.setAttribute(name, target)
            guard try file.attribute(name) == target else { throw .EOPNOTSUPP }
        } catch { throw .store(error) }
    }

    /// Writes the record of a new volume's root.
    package static func writeRootRecord(in directory: BackingDirectory, keys: MetadataKeys) throws(VolumeError) {
        let record = VerifiedRecord(directoryID: keys.rootID, defaultClass: nil)
        do throws(Errno) {
            try directory.createSymlink(
                BackingName.record, target: NameCipher(keys: keys).recordTarget(record))
            try directory.synchronize()
        } catch { throw .store(error) }
    }

    /// Removes the root's record again, if `init` fails later.
    package static func removeRootRecord(in directory: BackingDirectory) throws(VolumeError) {
        do throws(Errno) { try directory.unlink(BackingName.record) } catch { throw .store(error) }
    }
}
