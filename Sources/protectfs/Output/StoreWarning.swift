// What a person should know of the file system below a volume before relying on it.

import BackingStore
import HostSystem
import VolumeFormat

/// A warning, and no refusal: such a volume works as long as power does not fail.
enum StoreWarning {
    /// A sentence where pages of the volume may be torn by a power cut; nil where they are not, or nobody can tell.
    ///
    /// File systems that are not local say any number, and may mean anything by it.
    static func smallBlocks(below directory: HostDirectory, _ path: HostPath) -> String? {
        guard directory.keepsOrder, let block = try? directory.statistics().fragmentSize,
            (1..<UInt64(PageGeometry.pageSize)).contains(block)
        else { return nil }
        return
            "\(path): the file system has blocks of \(block) bytes, so a power cut can destroy a page of \(PageGeometry.pageSize) bytes that is being overwritten; use a file system with larger blocks (mkfs.ext4 -b \(PageGeometry.pageSize))"
    }
}
