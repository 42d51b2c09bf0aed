// Mends the middle of a long file that a crash has left: a few blocks at a time, in the background.
//
// While it waits, page 0 is sealed under an epoch that ended badly and is listed so until a complete check. So the file is
// tolerated while it is open, when it is opened again, after a clean unmount, and after another crash.

internal import BackingStore
internal import HostSystem
internal import VolumeFormat

extension FileContent {
    var mendingKey: MendingKey { MendingKey(inode: inode, fileID: fileID) }

    /// Whether the middle waits to be mended.
    package var isUnmended: Bool { state.withLock { $0.recovery.unmended != nil } }

    /// Continues where mending was, when the file is opened again in the mount that mended its ends.
    func resumeMending(pageZero epoch: UInt32) {
        guard context.epochs.isSuspect(epoch), let next = context.mending.next(mendingKey) else { return }
        state.withLock { state in
            state.recovery.unmended = Unmended(epoch: epoch, next: next, end: lastBlock(size: state.size))
            state.recovery.repair = .none
            // Durable since the ends were mended.
            state.durability.pageZeroIsOurs = true
            state.durability.isMarked = true
            state.durability.holesMayBeLost = state.header.flags.contains(.holes)
        }
    }

    /// Mends some of a middle that waits; false when nothing is left. For a thread that does not serve requests.
    ///
    /// - Throws: `.locked` where the class is closed: another time.
    package func mendSome() throws(VolumeError) -> Bool {
        let now = snapshot
        guard let rest = now.recovery.unmended, now.recovery.repair == .none else { return false }
        if !rest.isCounted {
            try setHolesWhereLong()
            return true
        }
        let end = min(rest.end, lastBlock(size: now.size))
        let from = now.header.flags.contains(.holes) ? nextDataBlock(from: rest.next, below: end) : rest.next
        guard from < end else {
            try finishMending()
            return false
        }
        let blocks = from..<min(from + context.mendStep, end)
        // Readers continue: only blocks that must be rewritten are held exclusively.
        if try mend(blocks, isDry: true) { _ = try mend(blocks, isDry: false) }
        state.withLock { $0.recovery.unmended?.next = blocks.upperBound }
        context.mending.advance(mendingKey, to: blocks.upperBound)
        return true
    }

    /// - Returns: whether there was something to rewrite.
    private func mend(_ blocks: Range<UInt64>, isDry: Bool) throws(VolumeError) -> Bool {
        try holding(blocks, exclusive: !isDry) { () throws(VolumeError) -> Bool in
            // Cut meanwhile: the last page is whole, and what was behind it is gone.
            let now = snapshot
            let left = blocks.lowerBound..<max(blocks.lowerBound, min(blocks.upperBound, lastBlock(size: now.size)))
            guard !left.isEmpty, now.recovery.unmended != nil else { return false }
            if isDry { return try repairMiddle(left, now, .other, isDry: true) }
            var isChanged = false
            try preservingTime { () throws(VolumeError) in isChanged = try repairMiddle(left, now, .other) }
            return isChanged
        }
    }

    /// Sets HOLES where the store has lost more than it takes a moment to seal: the time must not follow what is not there.
    private func setHolesWhereLong() throws(VolumeError) {
        let now = snapshot
        guard let rest = now.recovery.unmended else { return }
        if !now.header.flags.contains(.holes), holes(below: rest.end) > context.mostSealedHoles {
            try holding(RangeLock.everything, exclusive: true) { () throws(VolumeError) in
                guard snapshot.recovery.unmended != nil else { return }
                try preservingTime { () throws(VolumeError) in
                    try rewriteHeader(.other) { (_, header) in header.flags.insert(.holes) }
                }
            }
            reportEvidence(.madeSparse, page: 1)
        }
        state.withLock { $0.recovery.unmended?.isCounted = true }
    }

    /// Pages from 1 on that the store holds no data for; no more are counted than it takes to be many.
    func holes(below end: UInt64) -> UInt64 {
        var count: UInt64 = 0
        var position: UInt64 = 1
        while position < end, count <= context.mostSealedHoles {
            let data = nextDataBlock(from: position, below: end)
            count += data - position
            guard data < end, let hole = try? backing.nextHole(from: PageGeometry.offset(ofPage: data)) else { break }
            position = max(data + 1, PageGeometry.pages(backingLength: hole))
        }
        return count
    }

    /// The first block from `block` on that the store holds data for, `end` at most; `block` where it cannot say.
    func nextDataBlock(from block: UInt64, below end: UInt64) -> UInt64 {
        guard block < end else { return end }
        do throws(Errno) {
            let data = try backing.nextData(from: PageGeometry.offset(ofPage: block))
            return min(end, max(block, PageGeometry.pages(backingLength: data)))
        } catch {
            return error == .ENXIO ? end : block
        }
    }

    /// The first position from `position` on where there may be something to verify: pages that the store holds no data for are
    /// skipped, where they may be holes. Where a crash has left them they are reported, by the first one.
    func skippingHoles(from position: UInt64) -> UInt64 {
        let now = snapshot
        let last = lastBlock(size: now.size)
        guard now.recovery.isTolerant || now.header.flags.contains(.holes) else { return position }
        let block = geometry.locate(position).block
        guard block > 0, block < last else { return position }
        let data = nextDataBlock(from: block, below: last)
        guard data > block else { return position }
        if !now.header.flags.contains(.holes) { reportEvidence(.zeroPage, page: block) }
        return geometry.start(ofBlock: data)
    }

    /// What was mended is durable first; then page 0 gets this mount's epoch, and nothing is tolerated any more.
    private func finishMending() throws(VolumeError) {
        try synchronizeBacking(dataOnly: true)
        try holding(0..<1, exclusive: true) { () throws(VolumeError) in
            let rest = snapshot.recovery.unmended
            guard rest != nil, snapshot.recovery.repair == .none else { return }
            state.withLock { $0.recovery.unmended = nil }
            do throws(VolumeError) {
                try preservingTime { () throws(VolumeError) in try rewriteHeader(.other) { (_, _) in } }
            } catch {
                state.withLock { $0.recovery.unmended = rest }
                throw error
            }
            state.withLock { $0.recovery.isTolerant = false }
            context.mending.forget(mendingKey)
        }
    }

    /// Before a cut that ends the file in page `block`, while the middle waits: a crash after the cut must find the end there.
    /// So zeros become a block, holes too, as a page before them may say LAST; and so does a block that says LAST itself. What
    /// stands there is durable then. The file is held.
    func makeFirm(_ block: UInt64, _ now: FileState, _ access: Operation) throws(VolumeError) {
        guard now.recovery.unmended != nil else { return }
        _ = try repairMiddle(block..<block + 1, now, access, sealsHoles: true)
        try synchronizeBacking(dataOnly: true)
    }
}
