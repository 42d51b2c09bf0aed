// Sets the size, reserves space, punches holes and zeroes ranges, in the order of steps in docs/judge/volume-format.md.

internal import BackingStore
internal import HostSystem
package import KeyFiles
package import VolumeFormat

/// The modes of fallocate(2).
package enum AllocationMode: Sendable, Equatable {
    /// Reserves space and extends the file.
    case reserve
    /// Reserves space, also past the end, and leaves the size alone.
    case reserveKeepingSize
    /// Makes a hole without changing the size.
    case punch
    /// Zeroes a range, extending the file.
    case zero
    /// Zeroes a range without changing the size.
    case zeroKeepingSize
}

extension FileContent {
    /// Sets the size. Added bytes read as zeros.
    ///
    /// - Parameter access: `.handleSize` (ftruncate), `.truncatePath`, or `.open` (O_TRUNC).
    package func truncate(to size: UInt64, access: Operation = .handleSize) throws(VolumeError) {
        guard size <= geometry.maximumSize else { throw .refused(.EFBIG) }
        try prepareToModify(access)
        let seen = snapshot
        if size < seen.size, lastBlock(size: size) > 0 || !isMarked(seen) { try syncAhead() }
        try holding(RangeLock.everything, exclusive: true) { () throws(VolumeError) in
            let now = snapshot
            try judge(access)
            if size > now.size { try extend(to: size, now, access) }
            if size < now.size { try shrink(to: size, now, access) }
            times.moved()
        }
    }

    /// Extends with zeros. The caller holds the whole file.
    func extend(to size: UInt64, _ now: FileState, _ access: Operation) throws(VolumeError) {
        let last = lastBlock(size: now.size)
        let newLast = lastBlock(size: size)
        let plan = WritePlan(
            offset: size, end: size, newSize: size, first: newLast, final: newLast,
            former: newLast > last ? last : nil)
        try perform(plan, Span<UInt8>(), now, access)
    }

    /// Refuses a change of a part of `block` if a newer version has made it, before other pages are written for it.
    func requireKnown(_ block: UInt64, _ now: FileState, _ access: Operation) throws(VolumeError) {
        _ = try repairMiddle(block..<block + 1, now, access, isDry: true)
    }

    /// Drops the bytes after `size`. The caller holds the whole file.
    func shrink(to size: UInt64, _ now: FileState, _ access: Operation) throws(VolumeError) {
        let last = lastBlock(size: now.size)
        let newLast = lastBlock(size: size)
        if newLast == last {
            // No page is dropped, so the length changes first, then the page.
            try rewritePage(last, in: now, toSize: size, access) { () throws(VolumeError) in
                guard let length = geometry.backingLength(size: size) else { throw .invalid }
                try store { () throws(Errno) in try backing.truncate(to: length) }
                state.withLock { $0.wasCut(to: size) }
            } onFailure: { _ in
                failedEnd()
            }
            return
        }
        if newLast == 0 {
            try rewritePage(0, in: now, toSize: size, access, onFailure: { _ in failedEnd() })
            // From now on the file on disk ends in page 0.
            state.withLock { $0.wasCut(to: size) }
            do throws(VolumeError) {
                if !isMarked(now) { try synchronizeBacking(dataOnly: true) }
                try cut(toSize: size)
            } catch {
                failedEnd()
                throw error
            }
            return
        }
        try requireKnown(newLast, now, access)
        try makeFirm(newLast, now, access)
        try mark(access)
        try rewritePage(newLast, in: now, toSize: size, access) { () throws(VolumeError) in
            try cut(toSize: size)
            state.withLock { $0.wasCut(to: size) }
            try synchronizeBacking(dataOnly: true)
        } onFailure: { _ in
            failedEnd()
        }
    }

    /// fallocate(2).
    package func allocate(
        _ mode: AllocationMode, at offset: UInt64, length: UInt64, access: Operation = .handleSize
    ) throws(VolumeError) {
        let (end, overflow) = offset.addingReportingOverflow(length)
        guard length > 0 else { throw .invalid }
        guard !overflow, end <= geometry.maximumSize else { throw .refused(.EFBIG) }
        try prepareToModify(access)
        try flushHeader()
        switch mode {
        case .reserve: try reserve(offset..<end, access)
        case .reserveKeepingSize:
            try judge(access)
            try reserve(offset..<end)
        case .punch, .zero, .zeroKeepingSize:
            try syncAhead()
            var rest = try holding(RangeLock.everything, exclusive: true) { () throws(VolumeError) -> Range<UInt64> in
                try judge(access)
                let old = size
                if mode == .zero, end > old { try extend(to: end, snapshot, access) }
                return try zero(offset..<max(offset, min(end, old)), access)
            }
            while !rest.isEmpty {
                let part = rest.lowerBound..<min(rest.upperBound, rest.lowerBound + Self.punchedAtOnce)
                try holding(part, exclusive: true) { () throws(VolumeError) in try punchWhatIsLeft(of: part) }
                rest = part.upperBound..<rest.upperBound
            }
        }
        times.moved()
    }

    /// The number of pages punched in one hold. Freeing them takes the store some time.
    static var punchedAtOnce: UInt64 { 16_384 }

    /// Extends with all pages held. Reserves with no page held, because reserving does not change what the file reads
    /// as.
    private func reserve(_ positions: Range<UInt64>, _ access: Operation) throws(VolumeError) {
        let (old, growth) = try holding(RangeLock.everything, exclusive: true) {
            () throws(VolumeError) -> (UInt64, UInt64) in
            try judge(access)
            let old = size
            if positions.upperBound > old { try extendWithHoles(to: positions.upperBound, access) }
            return (old, snapshot.durability.growth)
        }
        do throws(VolumeError) {
            try reserve(positions)
        } catch {
            // A refused reservation restores the size, unless the file has grown meanwhile.
            try holding(RangeLock.everything, exclusive: true) { () throws(VolumeError) in
                let now = snapshot
                guard positions.upperBound > old, now.size == positions.upperBound, now.durability.growth == growth
                else { return }
                try shrink(to: old, now, access)
            }
            throw error
        }
    }

    /// Page 0, the last page and later pages are never holes, even if the file was cut meanwhile.
    private func punchWhatIsLeft(of pages: Range<UInt64>) throws(VolumeError) {
        let last = lastBlock(size: size)
        guard pages.lowerBound < last else { return }
        try punch(pages.lowerBound..<min(pages.upperBound, last))
    }

    /// HOLES is set first, so that the reserved pages may be zeros.
    private func extendWithHoles(to end: UInt64, _ access: Operation) throws(VolumeError) {
        let now = snapshot
        if lastBlock(size: end) > lastBlock(size: now.size) + 1, !now.header.flags.contains(.holes) {
            try rewriteHeader(access) { (_, header) in header.flags.insert(.holes) }
        }
        try extend(to: end, snapshot, access)
    }

    private func reserve(_ positions: Range<UInt64>) throws(VolumeError) {
        let blocks = geometry.blocks(holding: positions)
        guard !blocks.isEmpty else { return }
        let start = PageGeometry.offset(ofPage: blocks.lowerBound)
        try store { () throws(Errno) in
            try backing.allocate(at: start, length: PageGeometry.offset(ofPage: blocks.upperBound) - start)
        }
    }

    /// Zeroes a range inside of the file. It first makes HOLES durable, then marks the file if it grew, then zeroes the
    /// partial blocks. The caller then punches the hole.
    ///
    /// - Returns: the pages that the caller must still punch, without other holds. If there are any, the file is
    ///   marked, because it may grow before they are punched.
    private func zero(_ positions: Range<UInt64>, _ access: Operation) throws(VolumeError) -> Range<UInt64> {
        guard positions.lowerBound < positions.upperBound else { return 0..<0 }
        let blocks = geometry.blocks(holding: positions)
        let last = lastBlock(size: size)
        // The whole pages, except page 0 and the last one, which are never holes.
        var whole = blocks
        if whole.lowerBound == 0 || geometry.start(ofBlock: whole.lowerBound) < positions.lowerBound {
            whole = whole.lowerBound + 1..<max(whole.upperBound, whole.lowerBound + 1)
        }
        if !whole.isEmpty, geometry.start(ofBlock: whole.upperBound) > positions.upperBound || whole.upperBound > last {
            whole = whole.lowerBound..<whole.upperBound - 1
        }
        if !whole.isEmpty {
            let now = snapshot
            for block in [blocks.lowerBound, blocks.upperBound - 1] where block > 0 && !whole.contains(block) {
                try requireKnown(block, now, access)
            }
            if !now.header.flags.contains(.holes) {
                try rewriteHeader(access) { (_, header) in header.flags.insert(.holes) }
                try synchronizeBacking(dataOnly: true)
            } else if now.durability.holesMayBeLost {
                // A write past the end has set HOLES, and the flag may not be durable.
                try synchronizeBacking(dataOnly: true)
            }
            if now.durability.growth != now.durability.syncedGrowth || whole.count > Self.punchedAtOnce {
                try mark(access)
            }
        }
        // The pages between the two partial ends are skipped.
        for block in whole.isEmpty ? blocks : blocks.lowerBound..<whole.lowerBound {
            try zeroPart(of: block, positions, access)
        }
        if !whole.isEmpty {
            for block in whole.upperBound..<max(blocks.upperBound, whole.upperBound) {
                try zeroPart(of: block, positions, access)
            }
            let first = whole.lowerBound..<min(whole.upperBound, whole.lowerBound + Self.punchedAtOnce)
            try punch(first)
            return first.upperBound..<whole.upperBound
        }
        return 0..<0
    }

    private func zeroPart(
        of block: UInt64, _ positions: Range<UInt64>, _ access: Operation
    ) throws(VolumeError) {
        let now = snapshot
        let start = geometry.start(ofBlock: block)
        let from = max(start, positions.lowerBound)
        let to = min(start + UInt64(geometry.capacity(ofBlock: block)), positions.upperBound)
        let zeros = [UInt8](repeating: 0, count: Int(to - from))
        let plan = WritePlan(offset: from, end: to, newSize: now.size, first: block, final: block)
        try perform(plan, zeros.span, now, access)
    }

    private func punch(_ pages: Range<UInt64>) throws(VolumeError) {
        let start = PageGeometry.offset(ofPage: pages.lowerBound)
        do throws(Errno) {
            try backing.punchHole(at: start, length: PageGeometry.offset(ofPage: pages.upperBound) - start)
        } catch {
            guard error == .EOPNOTSUPP else { throw .store(error) }
            // A page of zeros counts as a hole too.
            let zeros = [UInt8](repeating: 0, count: 64 * PageGeometry.pageSize)
            var page = pages.lowerBound
            while page < pages.upperBound {
                let count = min(64, pages.upperBound - page)
                try store { () throws(Errno) in
                    try backing.write(
                        zeros.span.extracting(0..<Int(count) * PageGeometry.pageSize),
                        at: PageGeometry.offset(ofPage: page))
                }
                page += count
            }
        }
    }
}
