// Looks at every page of one file, in order, with the code that reads it, and changes nothing.

internal import BackingStore
internal import HostSystem
package import KeyFiles
internal import Keybag
internal import SodiumKit
package import VolumeFormat

/// What one page of a backing file is.
package struct InspectedPage: Equatable, Sendable {
    /// The result of its check.
    package enum State: Equatable, Sendable {
        /// The block verifies.
        case verified
        /// Zeros in a file with HOLES.
        case hole
        /// Zeros that crash damage explains.
        case zeros
        /// Behind the end of the file, as a crash leaves it. A mount drops it.
        case dropped
        /// Not checked, because there is no key for the file.
        case unchecked
        /// The page, or the store's read of it, is refused.
        case refused(VolumeError)
    }

    /// The result of its check.
    package var state: State
    /// The block's field. Only a claim unless the block verifies. Nil for zeros, and if the field is not valid.
    package var field: BlockField?
    /// The trace of a crash in it, which is tolerated.
    package var evidence: CrashEvidence.Kind?
}

/// Consecutive pages that are the same.
package struct InspectedRun: Equatable, Sendable {
    /// Numbers of pages that are alike.
    package var pages: Range<UInt64>
    /// What each of them is.
    package var page: InspectedPage
}

/// Verifies the pages of one file, 64 at a time.
package struct PageInspector {
    /// The limit of pages read at once.
    private static let step: UInt64 = 64

    /// The content with its key, or without one.
    let content: FileContent
    /// Whether the file's key is in memory.
    let hasKey: Bool
    /// Whether the content was opened as a mount opens it, so that its size is known and each page can be judged by it.
    let isOpen: Bool
    /// Takes the crash evidence that was found since the last call.
    let takeEvidence: () -> CrashEvidence.Kind?

    /// Inspects the pages of `content`.
    ///
    /// - Parameters:
    ///   - hasKey: whether the file's key is in memory.
    ///   - isOpen: whether the content was opened as a mount opens it.
    ///   - takeEvidence: takes the crash evidence that was found since the last call.
    package init(
        _ content: FileContent, hasKey: Bool, isOpen: Bool, takeEvidence: @escaping () -> CrashEvidence.Kind?
    ) {
        self.content = content
        self.hasKey = hasKey
        self.isOpen = isOpen
        self.takeEvidence = takeEvidence
    }

    private var geometry: PageGeometry { content.geometry }
    private var lastBlock: UInt64 { content.lastBlock(size: content.size) }

    /// Calls `report` with the pages of a backing file of `length` bytes, in runs of equal ones, or each alone. Ends early when
    /// `report` returns false.
    package func run(length: UInt64, alone: Bool, _ report: (InspectedRun) -> Bool) throws(VolumeError) {
        let count = min(PageGeometry.pages(backingLength: length), PageGeometry.maximumPages)
        guard count > 0 else { return }
        var runs = Runs(alone: alone)
        var page: UInt64 = 0
        for extent in [0..<1] + content.backing.dataExtents(below: count) {
            guard gap(page..<extent.lowerBound, into: &runs, report) else { return }
            page = extent.lowerBound
            while page < extent.upperBound {
                let next = min(page + Self.step, extent.upperBound)
                let first = page
                for (index, found) in try look(first..<next).enumerated() {
                    let block = first + UInt64(index)
                    guard runs.add(block..<block + 1, found, report) else { return }
                }
                page = next
            }
        }
        if gap(page..<count, into: &runs, report) { _ = runs.end(report) }
    }

    /// Pages for which the store has no data.
    private func gap(_ pages: Range<UInt64>, into runs: inout Runs, _ report: (InspectedRun) -> Bool) -> Bool {
        // The last page of the file is judged on its own.
        let cuts = isOpen ? [lastBlock, lastBlock + 1] : []
        var start = pages.lowerBound
        for end in cuts + [pages.upperBound] where end > start && end <= pages.upperBound {
            guard runs.add(start..<end, judge(.zeros, block: start), report) else { return false }
            start = end
        }
        return true
    }

    private func look(_ blocks: Range<UInt64>) throws(VolumeError) -> [InspectedPage] {
        try content.context.buffers.withBuffer(pageCount: Int(blocks.count)) {
            (buffer: inout CipherBuffer) throws(VolumeError) -> [InspectedPage] in
            let unread = read(blocks, into: &buffer)
            guard hasKey else {
                return blocks.enumerated().map { position, block in
                    let error = unread[block].map { InspectedPage.State.refused($0) }
                    let isZero = buffer.isZero(position)
                    let state: InspectedPage.State = isZero ? zeroState(block) : .unchecked
                    return InspectedPage(state: error ?? state, field: claim(position, block, buffer))
                }
            }
            var scratch = try content.takeScratch()
            let header = content.header
            return try content.context.keys.withState { (keys: borrowing HeldKeys) throws(VolumeError) in
                try content.judge(keys, .read)
                return try scratch.withMutableBytes(count: PageGeometry.pageSize) {
                    (plain: inout MutableSpan<UInt8>) throws(VolumeError) in
                    var codec = PageCodec(geometry: geometry, keys: content.fileKeys, header: header)
                    var pages: [InspectedPage] = []
                    for (position, block) in blocks.enumerated() {
                        if let error = unread[block] {
                            pages.append(InspectedPage(state: .refused(error)))
                            continue
                        }
                        do throws(VolumeError) {
                            let found = try buffer.open(position, block: block, &codec, into: &plain)
                            pages.append(judge(found, block: block))
                        } catch {
                            if case .locked = error { throw error }
                            let state: InspectedPage.State = isBehindEnd(block) ? .dropped : .refused(error)
                            pages.append(InspectedPage(state: state, field: claim(position, block, buffer)))
                        }
                    }
                    return pages
                }
            }
        }
    }

    /// Reads pages. Returns those that the store could not read.
    private func read(_ blocks: Range<UInt64>, into buffer: inout CipherBuffer) -> [UInt64: VolumeError] {
        var unread: [UInt64: VolumeError] = [:]
        do throws(VolumeError) {
            try buffer.read(blocks, of: content.backing)
        } catch {
            for (position, block) in blocks.enumerated() {
                do throws(VolumeError) {
                    try buffer.read(block..<block + 1, of: content.backing, to: position)
                } catch { unread[block] = error }
            }
        }
        return unread
    }

    /// The field that a page claims to have.
    private func claim(_ position: Int, _ block: UInt64, _ buffer: CipherBuffer) -> BlockField? {
        if buffer.isZero(position) { return nil }
        let start = position * PageGeometry.pageSize
        let page = buffer.pages.span.extracting(start..<start + PageGeometry.pageSize)
        return try? BlockField(
            parsing: page, at: geometry.fieldRange(ofBlock: block).lowerBound,
            capacity: geometry.capacity(ofBlock: block))
    }

    private func isBehindEnd(_ block: UInt64) -> Bool { isOpen && block > lastBlock }

    /// Judges a page that was opened, by the rules of section 6.4 if the file's end is known.
    private func judge(_ found: PageContent, block: UInt64) -> InspectedPage {
        var page = InspectedPage(state: .verified)
        if case .block(let field) = found { page.field = field }
        if isBehindEnd(block) {
            page.state = .dropped
            return page
        }
        guard isOpen else {
            if case .zeros = found { page.state = zeroState(block) }
            return page
        }
        _ = takeEvidence()
        do throws(VolumeError) {
            let isZero = try content.accept(found, block: block, in: content.snapshot)
            page.evidence = takeEvidence()
            if isZero { page.state = page.evidence == nil ? .hole : .zeros }
        } catch {
            page.state = .refused(error)
        }
        return page
    }

    /// The judgement of zeros in a file whose end is not known.
    private func zeroState(_ block: UInt64) -> InspectedPage.State {
        guard content.header.flags.contains(.holes), block != 0 else { return .refused(.damaged(.zeroPage)) }
        return .hole
    }
}

/// Joins equal pages that follow each other.
private struct Runs {
    let alone: Bool
    private var last: InspectedRun?

    init(alone: Bool) { self.alone = alone }

    mutating func add(_ pages: Range<UInt64>, _ page: InspectedPage, _ report: (InspectedRun) -> Bool) -> Bool {
        if alone {
            for one in pages {
                guard report(InspectedRun(pages: one..<one + 1, page: page)) else { return false }
            }
            return true
        }
        if let before = last, before.page == page, before.pages.upperBound == pages.lowerBound {
            last?.pages = before.pages.lowerBound..<pages.upperBound
            return true
        }
        let isWanted = end(report)
        last = InspectedRun(pages: pages, page: page)
        return isWanted
    }

    /// Reports the run that is not complete yet.
    mutating func end(_ report: (InspectedRun) -> Bool) -> Bool {
        defer { last = nil }
        return last.map(report) ?? true
    }
}
