// Repairs a file before its first modification after a crash: rule R0's new header, rule R5, or a simple cut.

internal import BackingStore
internal import KeyFiles
internal import Keybag
internal import HostSystem
internal import SodiumKit
internal import VolumeFormat

extension FileContent {
    /// Performs the repair that `prepareToModify` has found necessary. The caller holds the whole file.
    func mend(_ access: Operation) throws(VolumeError) {
        let now = snapshot
        if now.pageZero == .missing { return try startAnew(access) }
        switch now.recovery.repair {
        case .none: return
        case .end:
            try judge(access)
            try times.preserving(isNews: true) { () throws(VolumeError) in try cut(toSize: now.size) }
            // Otherwise a crash could restore the old length beside new pages.
            try synchronizeBacking(dataOnly: true)
            state.withLock { $0.mendedLength() }
        case .full:
            if context.isShared, try isWhole(now, access) {
                return state.withLock { $0.mendedEnds(isTolerant: false) }
            }
            try times.preserving(isNews: true) { () throws(VolumeError) in try repairAll(now, access) }
            reportEvidence(.repaired, page: 0)
        }
    }

    /// Whether a part of the file needs mending, before the first modification or after it.
    package var needsRepair: Bool {
        state.withLock { $0.recovery.repair != .none || $0.pageZero == .missing || $0.recovery.unmended != nil }
    }

    private func startAnew(_ access: Operation) throws(VolumeError) {
        try judge(access)
        try context.epochs.begin()
        try store { () throws(Errno) in
            // Attributes are bound to the lost ID. They cannot be read, and a check would report them as damaged.
            for name in try backing.attributeNames() where name.span.hasText(AttributeName.encryptedPrefix) {
                try backing.removeAttribute(name)
            }
            try backing.truncate(to: 0)
            try backing.synchronize(dataOnly: true)
            try backing.truncate(to: UInt64(PageGeometry.pageSize))
        }
        state.withLock { $0.startedAnew() }
    }

    /// Applies rule R5: sets the length, rewrites page 0 and the last page, and syncs. A short middle is mended before.
    /// With a long middle, page 0 is sealed under an epoch that ended badly, and keeps it until `mendSome` has mended
    /// the middle.
    private func repairAll(_ before: FileState, _ access: Operation) throws(VolumeError) {
        var now = before
        guard let length = geometry.backingLength(size: now.size) else { throw .damaged(.length) }
        let last = lastBlock(size: now.size)
        let waits = last > 1 && last > context.mendAtOnce
        if waits {
            let epoch = try context.epochs.suspect(now.recovery.suspectEpoch, now.recovery.unmended?.epoch)
            now = now.leaving(UnmendedRange(epoch: epoch, end: last))
        } else {
            now = now.leaving(nil)
            // All of it is checked before anything is written, because a newer version may have made a block.
            try repairMiddle(below: last, now, access, isDry: true)
            if context.isShared { now = now.with(try headerForHoles(below: last, access)) }
            try repairMiddle(below: last, now, access, isDry: false)
        }
        let found: UInt64
        do throws(Errno) { found = try backing.status().size } catch { throw .store(error) }
        if PageGeometry.pages(backingLength: found) > last + 1 {
            try cut(toSize: now.size)
        } else if found != length {
            try store { () throws(Errno) in try backing.truncate(to: length) }
        }
        if last > 0 { try rewritePage(0, in: now, toSize: now.size, tolerating: true, access) }
        try rewritePage(last, in: now, toSize: now.size, tolerating: true, access)
        let unmended = now.recovery.unmended
        state.withLock { $0.wroteEnds(leaving: unmended) }
        try synchronizeBacking(dataOnly: true)
        state.withLock { $0.mendedEnds(isTolerant: waits) }
        if waits { context.mending.add(mendingKey) }
    }

    /// Repairs all blocks between the ends, or looks at them. Skips pages without data in the store that can stay so.
    /// Only a file that other machines write, too, is long here.
    private func repairMiddle(
        below last: UInt64, _ now: FileState, _ access: Operation, isDry: Bool
    ) throws(VolumeError) {
        let skips = context.isShared && (isDry || now.header.flags.contains(.holes))
        var block: UInt64 = 1
        while block < last {
            if skips { block = backing.nextDataBlock(from: block, below: last) }
            let end = min(block + 64, last)
            if block < end { _ = try repairMiddle(block..<end, now, access, isDry: isDry) }
            block = end
        }
    }

    /// The header, with HOLES if the store has lost more pages than can be sealed quickly.
    private func headerForHoles(below last: UInt64, _ access: Operation) throws(VolumeError) -> FileHeader {
        if !header.flags.contains(.holes),
            backing.holes(below: last, most: context.mostSealedHoles) > context.mostSealedHoles
        {
            try rewriteHeader(access) { (_, header) in header.flags.insert(.holes) }
            reportEvidence(.madeSparse, page: 1)
        }
        return header
    }

    /// Rewrites those of `blocks` whose stored form differs from what they read as. Leaves blocks that do not verify
    /// unchanged.
    /// - Parameters:
    ///   - isDry: nothing is rewritten, and nothing reported.
    ///   - sealsHoles: zero pages become blocks with HOLES, too.
    /// - Returns: whether a block had to be rewritten. The caller holds `blocks`, exclusively unless it is dry.
    func repairMiddle(
        _ blocks: Range<UInt64>, _ now: FileState, _ access: Operation, isDry: Bool = false,
        sealsHoles: Bool = false
    ) throws(VolumeError) -> Bool {
        let mayBeHoles = now.header.flags.contains(.holes) && !sealsHoles
        var rewritten: [Int] = []
        var damaged: [UInt64] = []
        var pages = PageRewriter(self, now, pageCount: Int(blocks.count))
        try pages.read(blocks)
        try pages.withKeys(access, encryptions: isDry ? 0 : Int(blocks.count)) {
            (_, plain: inout MutableSpan<UInt8>, pages: inout PageRewriter) throws(VolumeError) in
            var codec = pages.codec()
            for (position, block) in blocks.enumerated() {
                do throws(VolumeError) {
                    switch try pages.open(position, block: block, &codec, into: &plain) {
                    case .zeros:
                        if mayBeHoles { continue }
                        plain.zero(0..<geometry.capacity(ofBlock: block))
                    case .block(let field):
                        if !field.isLast { continue }
                    }
                } catch {
                    guard case .damaged = error else { throw error }
                    damaged.append(block)
                    continue
                }
                rewritten.append(position)
                if !isDry { try pages.seal(plain.span, at: position, block: block, size: now.size, &codec) }
            }
        }
        if isDry { return !rewritten.isEmpty || !damaged.isEmpty }
        for position in rewritten {
            try pages.write(position..<position + 1, at: blocks.lowerBound + UInt64(position))
        }
        for block in damaged { reportEvidence(.damagedPage, page: block, in: now) }
        return !rewritten.isEmpty
    }

    /// Whether rule R5 has nothing to mend: another machine has written the file last, and did not crash. The caller holds all of it.
    ///
    /// Then nothing is rewritten or synced, although this mount will write page 0 under its own epoch: until that epoch is closed,
    /// which makes the whole file durable, it counts as one that ended badly.
    func isWhole(_ now: FileState, _ access: Operation) throws(VolumeError) -> Bool {
        guard !now.recovery.hasEvidence, now.pageZero == .written else { return false }
        let last = lastBlock(size: now.size)
        let mayHaveHoles = now.header.flags.contains(.holes)
        var block: UInt64 = 1
        while block < last {
            let data = backing.nextDataBlock(from: block, below: last)
            guard data == block || mayHaveHoles else { return false }
            let end = min(data + 64, last)
            if data < end, try repairMiddle(data..<end, now, access, isDry: true) { return false }
            block = end
        }
        return true
    }

    /// Continues mending when the file is opened again in the mount that mended its ends.
    func resumeMending(pageZero epoch: UInt32) {
        guard context.epochs.isSuspect(epoch), let progress = context.mending.resume(mendingKey) else { return }
        state.withLock { state in
            state.resumed(UnmendedRange(epoch: epoch, end: lastBlock(size: state.size), progress: progress))
        }
    }

    var mendingKey: MendingKey { MendingKey(inode: inode, fileID: fileID) }

    /// Notes that the end on disk may be wrong. It is tolerated, and mended before the next modification.
    func failedEnd() {
        context.epochs.endBadly()
        context.seen?.forget(fileID)
        context.mending.forget(mendingKey)
        state.withLock { $0.failedEnd() }
    }
}
