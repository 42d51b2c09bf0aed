// Which pages of a file have data in the store.

package import BackingStore
internal import HostSystem
internal import VolumeFormat

extension BackingFile {
    /// Counts the pages from 1 on without data in the store, up to one more than `most`.
    func holes(below end: UInt64, most: UInt64) -> UInt64 {
        var count: UInt64 = 0
        var position: UInt64 = 1
        while position < end, count <= most {
            let data = nextDataBlock(from: position, below: end)
            count += data - position
            guard data < end, let hole = try? nextHole(from: PageGeometry.offset(ofPage: data)) else { break }
            position = max(data + 1, PageGeometry.pages(backingLength: hole))
        }
        return count
    }

    /// The first block from `block` on with data in the store, at most `end`. Returns `block` if the store cannot tell.
    func nextDataBlock(from block: UInt64, below end: UInt64) -> UInt64 {
        guard block < end else { return end }
        do throws(Errno) {
            let data = try nextData(from: PageGeometry.offset(ofPage: block))
            return min(end, max(block, PageGeometry.pages(backingLength: data)))
        } catch {
            return error == .ENXIO ? end : block
        }
    }

    /// The pages from 1 on with data in the backing file. All of them if the store cannot tell.
    package func dataExtents(below limit: UInt64) -> [Range<UInt64>] {
        var extents: [Range<UInt64>] = []
        var position: UInt64 = 1
        while position < limit {
            do throws(Errno) {
                let data = try nextData(from: PageGeometry.offset(ofPage: position))
                let from = max(position, PageGeometry.pages(backingLength: data))
                guard from < limit else { return extents }
                let hole = try nextHole(from: data)
                let to = min(limit, max(from + 1, PageGeometry.pages(coveringLength: hole)))
                extents.append(from..<to)
                position = to
            } catch {
                if error == .ENXIO { return extents }
                return [1..<limit]
            }
        }
        return extents
    }
}
