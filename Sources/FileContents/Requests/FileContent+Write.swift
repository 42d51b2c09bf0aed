// Writes content. Overwrites run in parallel; an extension holds the file from the last page on. The order of steps
// survives a power cut.

internal import BackingStore
package import KeyFiles
internal import Keybag
internal import HostSystem
internal import SodiumKit
package import VolumeFormat

/// The pages that one step of a write or an extension seals and writes: those from `first` to `final`. If the file
/// grows past its last page, the former last page too.
struct WritePlan {
    let offset: UInt64
    let end: UInt64
    let newSize: UInt64
    let first: UInt64
    let final: UInt64
    /// The former last page, if it is before `first`.
    var former: UInt64?

    var formerIsAdjacent: Bool { former.map { $0 + 1 == first } ?? false }
    /// The pages that one write covers.
    var run: Range<UInt64> { (formerIsAdjacent ? first - 1 : first)..<final + 1 }
    /// All pages that are sealed.
    var count: Int { Int(run.count) + (former != nil && !formerIsAdjacent ? 1 : 0) }
}

extension FileContent {
    /// Writes all of `data` at `offset`, extending the file as needed. After an error a first part may have been written.
    ///
    /// - Parameter access: `.write`, `.writeBack` (the kernel's page cache) or `.copyDestination`, judged in the same
    ///   hold of the state lock that encrypts.
    /// - Throws: `.refused(.EFBIG)` past the largest size. `.store(.ENOSPC)` leaves the size unchanged.
    package func write(_ data: Span<UInt8>, at offset: UInt64, access: Operation = .write) throws(VolumeError) {
        guard !data.isEmpty else { return }
        let (end, overflow) = offset.addingReportingOverflow(UInt64(data.count))
        guard !overflow, end <= geometry.maximumSize else { throw .refused(.EFBIG) }
        if access == .writeBack { writeBacks.begin(at: offset) }
        defer { if access == .writeBack { writeBacks.end(at: offset) } }
        try prepareToModify(access)
        let isProgram = access != .writeBack && access != .replay
        if !isProgram { times.keep() }
        var done = 0
        while done < data.count {
            let count = min(data.count - done, Self.largestRequest)
            try writeStep(data.extracting(done..<done + count), at: offset + UInt64(done), access)
            done += count
        }
        // A write from the page cache keeps the time that was set last.
        if isProgram { times.moved() } else { times.wroteBack() }
    }

    private func writeStep(_ data: Span<UInt8>, at offset: UInt64, _ access: Operation) throws(VolumeError) {
        let end = offset + UInt64(data.count)
        let first = geometry.locate(offset).block
        let final = geometry.locate(end - 1).block
        var hasWaited = access != .writeBack
        while true {
            let seen = snapshot
            let last = lastBlock(size: seen.size)
            var pages = first..<final + 1
            if end > seen.size {
                if first > last + 1, !seen.header.flags.contains(.holes) {
                    if !hasWaited {
                        // The kernel's write-back sends requests in parallel, so the earlier one will arrive soon.
                        hasWaited = true
                        writeBacks.wait(at: offset) { first <= geometry.pages(size: size).count }
                        continue
                    }
                    pages = RangeLock.everything
                } else {
                    pages = RangeLock.onwards(from: min(first, last))
                }
            }
            let isDone = try holding(pages, exclusive: true) { () throws(VolumeError) -> Bool in
                let now = snapshot
                let last = lastBlock(size: now.size)
                var plan = WritePlan(
                    offset: offset, end: end, newSize: max(now.size, end), first: first, final: final)
                if end > now.size {
                    guard pages.upperBound == .max, pages.lowerBound <= min(first, last) else { return false }
                    if first > last + 1, !now.header.flags.contains(.holes), pages.lowerBound > 0 { return false }
                    if last < first { plan.former = last }
                }
                try perform(plan, data, now, access)
                return true
            }
            if isDone { return }
        }
    }

    /// Seals and writes the pages of `plan`. The caller holds all of them, and page 0 if HOLES is not set yet.
    func perform(
        _ plan: WritePlan, _ data: Span<UInt8>, _ before: FileState, _ access: Operation
    ) throws(VolumeError) {
        var now = before
        if let former = plan.former, plan.first > former + 1, !now.header.flags.contains(.holes) {
            try rewriteHeader(access) { (_, header: inout FileHeader) in header.flags.insert(.holes) }
            now = snapshot
        }
        let grows = plan.newSize > now.size
        var pages = PageRewriter(self, now, pageCount: plan.count)
        try readOld(plan, now, into: &pages)
        try seal(plan, data, now, access, into: &pages)
        do throws(VolumeError) {
            try put(plan, now, pages)
        } catch {
            if grows { undoGrowth(plan, now) }
            throw error
        }
        let touchesFirst = plan.run.lowerBound == 0 || plan.former == 0
        state.withLock {
            $0.wrote(pages: plan.count, withPageZero: touchesFirst, size: plan.newSize, grows: grows)
        }
        if plan.final > 0 && plan.final == lastBlock(size: plan.newSize) || touchesFirst && now.recovery.unmended == nil
        {
            wroteEnd(under: pages.epoch)
        }
        if grows { writeBacks.tellGrowth() }
    }

    /// Sets the final length, then writes the new pages, then the former last page.
    private func put(_ plan: WritePlan, _ now: FileState, _ pages: borrowing PageRewriter) throws(VolumeError) {
        guard let length = geometry.backingLength(size: plan.newSize) else { throw .refused(.EFBIG) }
        if plan.newSize != now.size { try store { () throws(Errno) in try backing.truncate(to: length) } }
        let run = Int(plan.run.count)
        try pages.write(0..<run, at: plan.run.lowerBound)
        if let former = plan.former, !plan.formerIsAdjacent { try pages.write(run..<run + 1, at: former) }
    }

    /// Seals all pages of `plan`: first the run, then a former last page that is not adjacent.
    private func seal(
        _ plan: WritePlan, _ data: Span<UInt8>, _ now: FileState, _ access: Operation, into pages: inout PageRewriter
    ) throws(VolumeError) {
        let last = lastBlock(size: now.size)
        try pages.withKeys(access, encryptions: plan.count) {
            (_, plain: inout MutableSpan<UInt8>, pages: inout PageRewriter) throws(VolumeError) in
            var codec = pages.codec()
            for position in 0..<plan.count {
                let block = position < plan.run.count ? plan.run.lowerBound + UInt64(position) : plan.former ?? 0
                let start = geometry.start(ofBlock: block)
                let capacity = geometry.capacity(ofBlock: block)
                if plan.offset <= start, plan.end >= start + UInt64(capacity) {
                    let from = Int(start - plan.offset)
                    try pages.seal(
                        data.extracting(from..<from + capacity), at: position, block: block, size: plan.newSize, &codec)
                    continue
                }
                if needsOld(block, plan, now, last) {
                    try pages.open(
                        position, block: block, &codec, into: &plain, keeping: oldLength(block, now, last))
                } else {
                    plain.zero(0..<capacity)
                }
                overlay(data, plan, start: start, capacity: capacity, onto: &plain)
                try pages.seal(plain.span, at: position, block: block, size: plan.newSize, &codec)
            }
        }
    }

    private func overlay(
        _ data: Span<UInt8>, _ plan: WritePlan, start: UInt64, capacity: Int, onto plain: inout MutableSpan<UInt8>
    ) {
        guard !data.isEmpty else { return }
        let from = max(plan.offset, start)
        let to = min(plan.end, start + UInt64(capacity))
        guard from < to else { return }
        plain.copy(data.extracting(Int(from - plan.offset)..<Int(to - plan.offset)), to: Int(from - start))
    }

    /// The number of bytes of `block` that were in the file before.
    private func oldLength(_ block: UInt64, _ now: FileState, _ last: UInt64) -> Int {
        guard block <= last, now.pageZero == .written else { return 0 }
        return geometry.payloadLength(ofBlock: block, size: now.size)
    }

    /// Whether the write keeps some old bytes of `block`.
    private func needsOld(_ block: UInt64, _ plan: WritePlan, _ now: FileState, _ last: UInt64) -> Bool {
        let length = oldLength(block, now, last)
        let start = geometry.start(ofBlock: block)
        return length > 0 && !(plan.offset <= start && plan.end >= start + UInt64(length))
    }

    /// Reads the old pages that are needed.
    private func readOld(_ plan: WritePlan, _ now: FileState, into pages: inout PageRewriter) throws(VolumeError) {
        let last = lastBlock(size: now.size)
        let run = plan.run
        let ends = run.lowerBound..<run.upperBound
        // Only the first page, the one after an adjacent former last page, and the last one can be partial.
        var block = ends.lowerBound
        while block < ends.upperBound {
            if needsOld(block, plan, now, last) {
                let next = block + 1
                let both = next < ends.upperBound && needsOld(next, plan, now, last)
                try pages.read(block..<(both ? next + 1 : next), to: Int(block - run.lowerBound))
                if both { block = next }
            }
            block = block + 1 < ends.lowerBound + 2 ? block + 1 : max(block + 1, ends.upperBound - 1)
        }
        if let former = plan.former, !plan.formerIsAdjacent, needsOld(former, plan, now, last) {
            try pages.read(former..<former + 1, to: Int(run.count))
        }
    }

    /// Undoes a growth that failed: cuts the file back, makes sure that the old last page says LAST, and syncs.
    private func undoGrowth(_ plan: WritePlan, _ now: FileState) {
        do throws(VolumeError) {
            try cut(toSize: now.size)
            let last = lastBlock(size: now.size)
            if now.pageZero == .pending {
                // Page 0 still waits to be written. A later step writes it again.
                context.epochs.keepOpen()
            } else if plan.former == last || plan.run.contains(last) {
                try rewritePage(last, in: now, toSize: now.size, tolerating: true, .other)
            }
            try store { () throws(Errno) in try backing.synchronize(dataOnly: true) }
        } catch {
            failedEnd()
        }
    }

    /// Writes at the end, wherever that is now (O_APPEND). Two machines that append to one file lose nothing.
    package func append(_ data: Span<UInt8>) throws(VolumeError) {
        guard !data.isEmpty else { return }
        try prepareToModify(.write)
        try holdingStore(exclusive: true) { () throws(VolumeError) in
            let now = snapshot
            let (end, overflow) = now.size.addingReportingOverflow(UInt64(data.count))
            guard !overflow, end <= geometry.maximumSize else { throw .refused(.EFBIG) }
            let last = lastBlock(size: now.size)
            let first = geometry.locate(now.size).block
            var plan = WritePlan(
                offset: now.size, end: end, newSize: end, first: first, final: geometry.locate(end - 1).block)
            if last < first { plan.former = last }
            try perform(plan, data, now, .write)
        }
        times.moved()
    }
}
