// Finds data and holes, in the blocks that programs expect.

internal import BackingStore
internal import HostSystem
package import KeyFiles
internal import SodiumKit
package import VolumeFormat

/// The target of lseek(2).
package enum SeekTarget: Sendable, Equatable {
    /// SEEK_DATA.
    case data
    /// SEEK_HOLE.
    case hole
}

/// The size of the blocks that data and holes of a file consist of, as seen by programs.
private let seekBlock = UInt64(PageGeometry.pageSize)

private func roundedDown(_ position: UInt64) -> UInt64 { position / seekBlock * seekBlock }
private func roundedUp(_ position: UInt64) -> UInt64 { roundedDown(position + seekBlock - 1) }

extension FileContent {
    /// Holes that end where the next data begins are joined to that data. After this many in one call all the rest counts as
    /// data, so that a call is short.
    private static let mostJoined = 1024

    /// Finds data or a hole from `position` on, for lseek(2).
    ///
    /// The store has holes where pages are missing, and pages hold fewer bytes than a block that programs count in. So the
    /// borders of a page are not borders of blocks. The answer is that of a file of blocks of 4,096 bytes: a block is a hole if
    /// no page that has data reaches into it. The zeros at the start and at the end of a run of pages count as hole, because
    /// they are there only to fill a page.
    /// - Throws: `.refused(.ENXIO)` at or past the end, or if no data follows.
    package func seek(
        _ target: SeekTarget, from position: UInt64, access: Operation = .handleSize
    ) throws(VolumeError) -> UInt64 {
        try checkIdentity()
        try refresh()
        try judge(access)
        let now = snapshot
        guard position < now.size else { throw .refused(.ENXIO) }
        let block = roundedDown(position)
        var data = try nextData(fromPage: geometry.locate(block).block, now)
        while let found = data, found.blocks.upperBound <= position {
            data = try nextData(fromPage: found.pages.upperBound, now)
        }
        switch target {
        case .data:
            guard let data else { throw .refused(.ENXIO) }
            return max(position, data.blocks.lowerBound)
        case .hole:
            guard var found = data, found.blocks.lowerBound <= position else { return position }
            for _ in 0..<Self.mostJoined {
                guard let next = try nextData(fromPage: found.pages.upperBound, now),
                    next.blocks.lowerBound <= found.blocks.upperBound
                else { return min(found.blocks.upperBound, now.size) }
                found = next
            }
            return now.size
        }
    }

    /// The first run of pages with data at or after `page`, and the blocks that it has data for. Nil if there is none.
    ///
    /// If the pages before `page` belong to the same run, the data begins at `page` at the latest.
    private func nextData(
        fromPage page: UInt64, _ now: FileState
    ) throws(VolumeError) -> (pages: Range<UInt64>, blocks: Range<UInt64>)? {
        let last = lastBlock(size: now.size)
        var page = page
        while page <= last {
            let pages = try nextPages(from: page, now)
            if let blocks = try blocks(of: pages, isCut: pages.lowerBound == page, now) { return (pages, blocks) }
            page = pages.upperBound
        }
        return nil
    }

    /// The first run of pages that the store has at or after `page`. Page 0 and the last one are never missing.
    private func nextPages(from page: UInt64, _ now: FileState) throws(VolumeError) -> Range<UInt64> {
        let last = lastBlock(size: now.size)
        guard now.header.flags.contains(.holes) else { return page..<last + 1 }
        do throws(Errno) {
            var start = page
            if page > 0, page < last {
                let offset = try backing.nextData(from: PageGeometry.offset(ofPage: page))
                start = min(PageGeometry.pages(backingLength: offset), last)
            }
            guard start < last else { return last..<last + 1 }
            let offset = try backing.nextHole(from: PageGeometry.offset(ofPage: max(start, 1)))
            let end = max(PageGeometry.pages(coveringLength: offset), start + 1)
            return start..<(end >= last ? last + 1 : end)
        } catch {
            if error == .ENXIO { return last..<last + 1 }
            if error == .EOPNOTSUPP || error == .EINVAL { return page..<last + 1 }
            throw .store(error)
        }
    }

    /// The blocks that a run of pages has data for; nil if it has none.
    ///
    /// - Parameter isCut: whether the run may have begun earlier, so that zeros at its start may be data.
    private func blocks(of pages: Range<UInt64>, isCut: Bool, _ now: FileState) throws(VolumeError) -> Range<UInt64>? {
        let last = lastBlock(size: now.size)
        var first = pages.lowerBound
        var final = pages.upperBound - 1
        var lower = geometry.start(ofBlock: first)
        let isWhole = isCut ? try !isData(before: first, now) : true
        if isWhole {
            while first <= final {
                let content = contentOfPage(first, now)
                lower = content.lowerBound
                guard content.isEmpty else { break }
                guard first == 0 || first == last else {
                    // Somebody has written these zeros, from the border of blocks in the page on.
                    if roundedUp(lower) < end(ofPage: first, now) { lower = roundedUp(lower) }
                    break
                }
                // These pages exist also if nobody has written them.
                first += 1
                lower = geometry.start(ofBlock: first)
            }
        }
        guard first <= final else { return nil }
        var content = contentOfPage(final, now)
        if content.isEmpty, final == last, final > 0 {
            if final == first { return nil }
            final -= 1
            content = contentOfPage(final, now)
        }
        let end = end(ofPage: final, now)
        let upper =
            !content.isEmpty ? content.upperBound : roundedDown(end) > content.lowerBound ? roundedDown(end) : end
        return roundedDown(lower)..<max(roundedUp(upper), roundedDown(lower) + seekBlock)
    }

    /// Whether data goes on from the page before `page`.
    private func isData(before page: UInt64, _ now: FileState) throws(VolumeError) -> Bool {
        guard page > 0 else { return false }
        if page == 1 { return !contentOfPage(0, now).isEmpty }
        return try nextPages(from: page - 1, now).lowerBound == page - 1
    }

    private func end(ofPage page: UInt64, _ now: FileState) -> UInt64 {
        geometry.start(ofBlock: page) + UInt64(geometry.payloadLength(ofBlock: page, size: now.size))
    }

    /// The positions from the first to the last byte of a page that is not zero; an empty range at the page's start if all are.
    /// All of a page that cannot be read.
    private func contentOfPage(_ page: UInt64, _ now: FileState) -> Range<UInt64> {
        let all = geometry.start(ofBlock: page)..<end(ofPage: page, now)
        return (try? readContent(of: all)) ?? all
    }

    private func readContent(of all: Range<UInt64>) throws(VolumeError) -> Range<UInt64> {
        let length = Self.bufferLength(count: all.count)
        var buffer = try Self.largeBuffer(length, in: context)
        return try buffer.withMutableBytes(count: length) {
            (bytes: inout MutableSpan<UInt8>) throws(VolumeError) -> Range<UInt64> in
            let result = try read(into: &bytes, at: all.lowerBound, count: all.count)
            let range = result.range
            guard range.count == all.count else { return all }
            guard var first = range.first else { return all }
            var end = range.upperBound
            while first < end, bytes[first] == 0 { first += 1 }
            while end > first, bytes[end - 1] == 0 { end -= 1 }
            if first == end { return all.lowerBound..<all.lowerBound }
            let start = all.lowerBound - UInt64(range.lowerBound)
            return start + UInt64(first)..<start + UInt64(end)
        }
    }
}
