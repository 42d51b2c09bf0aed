// Removes what a killed rewriting of a file has left: a copy under a temporary name, beside the file itself.

package import BackingStore
internal import FileContents
internal import HostSystem
package import KeyFiles
internal import Keybag
package import ProtectedVolume
internal import VolumeFormat

/// The copies that killed rewritings have left in the store of a mounted volume.
package enum Leftovers {
    /// Removes such a copy, of which the path in the store is given.
    ///
    /// - Returns: whether it was removed. A copy that this mount is making is not, nor is anything but a copy.
    package static func remove(_ path: [EntryName], from volume: Volume) throws(VolumeError) -> Bool {
        try volume.requireWritable()
        // Another machine may be making it.
        guard let name = path.last, !volume.options.isShared else { return false }
        do throws(Errno) {
            var directory = volume.rootDirectory
            for component in path.dropLast() { directory = try directory.openDirectory(component) }
            let isLeftover = try NeededKeys.isLeftover(name, in: directory, volume.keys.metadata)
            guard isLeftover, try volume.copies.unlessMaking(name, { () throws(Errno) in try directory.unlink(name) })
            else { return false }
            try directory.synchronize()
            return true
        } catch { throw .store(error) }
    }
}
