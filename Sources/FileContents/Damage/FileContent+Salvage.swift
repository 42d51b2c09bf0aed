// Reads a damaged file block by block. The state of one block does not affect the others.

package import BackingStore
internal import HostSystem
package import KeyFiles
internal import Keybag
internal import SodiumKit
package import VolumeFormat

/// The readable part of a damaged file.
package struct Salvage: Equatable, Sendable {
    /// The end of the file, as far as it is known.
    package var size: UInt64 = 0
    /// The ranges of the file that cannot be read, in order.
    package var unreadable: [Range<UInt64>] = []
    /// The number of blocks that verify.
    package var blocks: UInt64 = 0
    /// Whether block 0 verifies, and with it the header. If not, the file's class is not known.
    package var provesHeader = false
    /// Whether the store could not read some pages. It may read them at another time.
    package var hasReadErrors = false
}

extension FileContent {
    /// A file whose pages are shown as what they claim to be, because its key is not here.
    ///
    /// - Parameter header: nil if nothing can be read of it. Then only the layout of the pages counts, which is the volume's.
    package static func openUnverified(
        in context: ContentContext, backing: BackingFile, inode: UInt64, header: FileHeader?
    ) -> FileContent {
        let suite = context.geometry.suite
        let header =
            header
            ?? FileHeader(
                protectionClass: .complete, suite: suite, keyGeneration: 0,
                fileID: ObjectID(InlineArray(repeating: 0)))
        return FileContent(
            context: context, backing: backing, inode: inode, keys: FileKeys(nil, suite: suite),
            state: FileState(header: header, size: 0, pageZero: .written))
    }

    /// A damaged file whose header verifies and whose key is available. Nothing else in it is trusted.
    package static func openDamaged(in context: ContentContext, backing: BackingFile) throws(VolumeError) -> FileContent
    {
        guard let header = try header(in: context, backing: backing) else { throw .damaged(.missingHeader) }
        let status: Status
        do throws(Errno) { status = try backing.status() } catch { throw .store(error) }
        let content = FileContent(
            context: context, backing: backing, inode: status.inode, keys: FileKeys(nil, suite: header.suite),
            state: FileState(
                header: header, size: 0, pageZero: .written, recovery: Recovery(isTolerant: true)))
        try content.judge(.open)
        return content
    }

    private enum Verdict: Equatable {
        case readable(length: Int, isLast: Bool)
        case zeros
        case damaged
        case unread
    }

    /// Reads every page. Writes blocks that verify to the same place in `target`, a new file. Blocks that do not verify
    /// become holes there, and are never sealed again.
    ///
    /// - Parameter mayGoOn: is called now and then. If it returns false, the copy ends with EINTR.
    /// - Throws: `.newer` if a block is newer.
    package func salvage(into target: FileContent?, mayGoOn: () -> Bool) throws(VolumeError) -> Salvage {
        let length = try store { () throws(Errno) in try backing.status().size }
        let pages = PageGeometry.pages(backingLength: length)
        guard pages > 0, pages <= PageGeometry.maximumPages else { throw .damaged(.length) }
        let hasHoles = header.flags.contains(.holes)
        var result = Salvage()
        var end: UInt64 = 0
        var isEnded = false
        var lastDamage: UInt64?
        var page: UInt64 = 0
        for extent in [0..<1] + backing.dataExtents(below: pages) {
            if extent.lowerBound > page, !hasHoles { add(page..<extent.lowerBound, to: &result) }
            page = extent.lowerBound
            while page < extent.upperBound {
                guard mayGoOn() else { throw .store(.EINTR) }
                let next = min(page + 64, extent.upperBound)
                for (block, verdict) in try salvage(page..<next, into: target) {
                    switch verdict {
                    case .readable(let length, let isLast):
                        result.blocks += 1
                        if block == 0 { result.provesHeader = true }
                        end = geometry.start(ofBlock: block) + UInt64(length)
                        isEnded = isLast
                    case .zeros:
                        if !hasHoles || block == 0 { add(block..<block + 1, to: &result) }
                    case .damaged, .unread:
                        add(block..<block + 1, to: &result)
                        lastDamage = block
                        if verdict == .unread { result.hasReadErrors = true }
                    }
                }
                page = next
            }
        }
        if page < pages, !hasHoles { add(page..<pages, to: &result) }
        // The last good block gives the end, if it says LAST and no damage follows it.
        let isBeyond = lastDamage.map { geometry.start(ofBlock: $0) >= end } ?? false
        result.size = isEnded && !isBeyond ? end : max(end, geometry.sizeByLength(length))
        clamp(&result)
        if let target, target.size != result.size { try target.truncate(to: result.size) }
        return result
    }

    private func add(_ blocks: Range<UInt64>, to result: inout Salvage) {
        let stretch = geometry.start(ofBlock: blocks.lowerBound)..<geometry.start(ofBlock: blocks.upperBound)
        if let last = result.unreadable.last, last.upperBound == stretch.lowerBound {
            result.unreadable[result.unreadable.count - 1] = last.lowerBound..<stretch.upperBound
        } else {
            result.unreadable.append(stretch)
        }
    }

    private func clamp(_ result: inout Salvage) {
        let size = result.size
        result.unreadable = result.unreadable.compactMap { stretch in
            stretch.lowerBound < size ? stretch.lowerBound..<min(stretch.upperBound, size) : nil
        }
    }

    /// Verifies `blocks`, at most 64, and passes on those that verify.
    private func salvage(_ blocks: Range<UInt64>, into target: FileContent?) throws(VolumeError) -> [(UInt64, Verdict)]
    {
        let start = geometry.start(ofBlock: blocks.lowerBound)
        var buffer = try Self.largeBuffer(Int(blocks.count) * PageGeometry.pageSize, in: context)
        return try buffer.withMutableBytes(count: Int(blocks.count) * PageGeometry.pageSize) {
            (plain: inout MutableSpan<UInt8>) throws(VolumeError) in
            let verdicts = try open(blocks, into: &plain)
            guard let target else { return verdicts }
            var run: Range<UInt64>?
            for (block, verdict) in verdicts {
                let from = geometry.start(ofBlock: block)
                if case .readable = verdict {
                    run = (run?.lowerBound ?? from)..<from + UInt64(geometry.capacity(ofBlock: block))
                    continue
                }
                if let run { try put(plain.span, run, start, into: target) }
                run = nil
            }
            if let run { try put(plain.span, run, start, into: target) }
            return verdicts
        }
    }

    private func put(
        _ plain: Span<UInt8>, _ run: Range<UInt64>, _ start: UInt64, into target: FileContent
    ) throws(VolumeError) {
        try target.write(
            plain.extracting(Int(run.lowerBound - start)..<Int(run.upperBound - start)), at: run.lowerBound)
    }

    private func open(_ blocks: Range<UInt64>, into plain: inout MutableSpan<UInt8>) throws(VolumeError) -> [(
        UInt64, Verdict
    )] {
        let header = self.header
        return try context.buffers.withBuffer(pageCount: Int(blocks.count)) {
            (buffer: inout CipherBuffer) throws(VolumeError) -> [(UInt64, Verdict)] in
            var lost: Set<UInt64> = []
            do throws(VolumeError) {
                try buffer.read(blocks, of: backing)
            } catch {
                // A page that the disk cannot read does not affect the others.
                for (position, block) in blocks.enumerated() {
                    do throws(VolumeError) { try buffer.read(block..<block + 1, of: backing, to: position) } catch {
                        lost.insert(block)
                    }
                }
            }
            return try withKeys(.read) { (_) throws(VolumeError) in
                var codec = PageCodec(geometry: geometry, keys: fileKeys, header: header)
                var verdicts: [(UInt64, Verdict)] = []
                let base = geometry.start(ofBlock: blocks.lowerBound)
                for (position, block) in blocks.enumerated() {
                    var verdict = Verdict.damaged
                    do throws(VolumeError) {
                        let content = try buffer.open(
                            position, block: block, &codec, into: &plain,
                            at: Int(geometry.start(ofBlock: block) - base))
                        switch content {
                        case .zeros: verdict = .zeros
                        case .block(let field):
                            verdict = .readable(length: field.payloadLength, isLast: field.isLast)
                        }
                    } catch {
                        // A copy without a newer block would look complete to the version that has made it.
                        switch error {
                        case .locked, .newer: throw error
                        default: break
                        }
                    }
                    verdicts.append((block, lost.contains(block) ? .unread : verdict))
                }
                return verdicts
            }
        }
    }
}
