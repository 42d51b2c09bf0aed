// A warning about the file system below a volume.

package import BackingStore
package import HostSystem
import VolumeFormat

/// Such a volume works, so this is only a warning: it can lose a page when power fails.
package enum StoreWarning {
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
