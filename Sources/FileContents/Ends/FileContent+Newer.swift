// Finds blocks that a newer version has made. Their fields, which are not encrypted, show which blocks need a look.

package import BackingStore
internal import HostSystem
package import KeyFiles
package import VolumeFormat

extension FileContent {
    /// Pages that a search reads at once.
    private static let searchStep: UInt64 = 64

    /// Whether a newer version has made a block of a file that is not open. Reads all of it. Pages that the store cannot read
    /// do not count.
    ///
    /// - Parameter mayGoOn: is called now and then. If it returns false, the file counts as newer.
    package static func holdsNewerBlock(
        in context: ContentContext, backing: BackingFile, header: FileHeader, mayGoOn: () -> Bool
    ) throws(VolumeError) -> Bool {
        let status: Status
        do throws(Errno) { status = try backing.status() } catch { throw .store(error) }
        let pages = min(PageGeometry.pages(backingLength: status.size), PageGeometry.maximumPages)
        let content = FileContent(
            context: context, backing: backing, inode: status.inode, keys: FileKeys(nil, suite: header.suite),
            state: FileState(header: header, size: 0, pageZero: .written))
        defer { content.wipeKeys() }
        return try context.buffers.withBuffer(pageCount: Int(searchStep)) {
            (buffer: inout CipherBuffer) throws(VolumeError) -> Bool in
            for extent in [0..<min(1, pages)] + content.backing.dataExtents(below: pages) {
                for start in stride(from: extent.lowerBound, to: extent.upperBound, by: Int(searchStep)) {
                    guard mayGoOn() else { return true }
                    let blocks = start..<min(start + searchStep, extent.upperBound)
                    do throws(VolumeError) { try buffer.read(blocks, of: backing) } catch { continue }
                    for block in blocks {
                        if try content.isNewer(block, at: Int(block - start), &buffer) { return true }
                    }
                }
            }
            return false
        }
    }

    /// Whether a newer version has made `block`, whose page is at `position` in the buffer: its field is not known, and its
    /// tag is right. While the class is closed the field alone is enough, because no tag can be verified.
    func isNewer(_ block: UInt64, at position: Int, _ buffer: inout CipherBuffer) throws(VolumeError) -> Bool {
        if hasKnownField(block, at: position, buffer) { return false }
        do throws(VolumeError) { _ = try verifyPage(block, at: position, .open, &buffer) } catch {
            switch error {
            case .newer, .locked: return true
            case .damaged: return false
            default: throw error
            }
        }
        return false
    }

    /// Whether a page has a field of this version, or is zero.
    private func hasKnownField(_ block: UInt64, at position: Int, _ buffer: CipherBuffer) -> Bool {
        let start = position * PageGeometry.pageSize + geometry.fieldRange(ofBlock: block).lowerBound
        let field = try? BlockField(
            parsing: buffer.pages.span, at: start, capacity: geometry.capacity(ofBlock: block))
        return field != nil || buffer.isZero(position)
    }

    /// Refuses a file that is about to be replaced if a newer version has made its last block. If the store cannot read it,
    /// the file can be replaced. The second page of the buffer is used.
    func requireKnownEnd(length: UInt64, _ buffer: inout CipherBuffer) throws(VolumeError) {
        let pages = PageGeometry.pages(backingLength: length)
        guard pages > 1, pages <= PageGeometry.maximumPages else { return }
        do throws(VolumeError) { try buffer.read(pages - 1..<pages, of: backing, to: 1) } catch { return }
        if try isNewer(pages - 1, at: 1, &buffer) { throw told(.newer(.block)) }
    }
}
