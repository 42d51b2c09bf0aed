// A warning about the file system below a volume.

package import BackingStore
package import HostSystem
import VolumeFormat

/// Such a volume works, so these are only warnings.
package enum StoreWarning {
    /// The warning if the file system takes only short names. Nil if it does not.
    package static func shortNames(below directory: HostDirectory, _ path: HostPath) -> String? {
        let length = directory.longestName()
        let direct = NameLimits.longestDirect(inStoreWith: length)
        guard direct < NameLimits.longestDirect else { return nil }
        let start = "\(path): the file system takes names of at most \(length) bytes"
        return direct >= NameLimits.longestNeverLong
            ? "\(start), so each file with a name of more than \(direct) bytes needs a second object in it, as elsewhere one of more than \(NameLimits.longestDirect)"
            : "\(start), so files in the volume have names of at most \(direct) bytes"
    }

    /// The warning if a power cut can tear pages of the volume. Nil if it cannot, or if that is unknown.
    ///
    /// The block size of a file system that is not local proves nothing.
    package static func smallBlocks(below directory: HostDirectory, _ path: HostPath) -> String? {
        guard directory.keepsOrder, let block = try? directory.statistics().fragmentSize,
            (1..<UInt64(PageGeometry.pageSize)).contains(block)
        else { return nil }
        return
            "\(path): the file system has blocks of \(block) bytes, so a power cut can destroy a page of \(PageGeometry.pageSize) bytes that is being overwritten; use a file system with larger blocks (mkfs.ext4 -b \(PageGeometry.pageSize))"
    }
}
