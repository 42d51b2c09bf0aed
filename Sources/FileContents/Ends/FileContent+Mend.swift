// Mends the middle of a long file after a crash, a few blocks at a time, in the background.
//
// Until then, page 0 is sealed under an epoch that ended badly, which stays listed until a complete check. So the
// file's crash damage is tolerated while it is open, when it is opened again, after a clean unmount, and after another
// crash.

internal import BackingStore
internal import HostSystem
package import KeyFiles
internal import VolumeFormat

extension FileContent {
    /// Whether the middle waits to be mended.
    package var isUnmended: Bool { state.withLock { $0.recovery.unmended != nil } }

    /// Whether the middle waits, and nothing that a newer version has made was met in it.
    package var canBeMended: Bool { state.withLock { $0.recovery.unmended?.isStopped == false } }

    /// Checks or mends a part of the middle; false when nothing is left. Only for a thread that does not serve requests.
    ///
    /// The whole middle is checked before anything is written.
    ///
    /// - Throws: `.locked` if the class is closed. Mending continues later. `.newer` if a newer version has made a block;
    ///   from then on, until the file is opened anew.
    package func mendSome() throws(VolumeError) -> Bool {
        let now = snapshot
        guard let rest = now.recovery.unmended, now.recovery.repair == .none else { return false }
        if rest.isStopped { throw .newer(.block) }
        let end = min(rest.end, lastBlock(size: now.size))
        if rest.progress.next < end {
            try checkSome(rest.progress.next..<end, isSparse: now.header.flags.contains(.holes))
            return true
        }
        if !rest.isCounted {
            try setHolesWhereLong()
            return true
        }
        guard let range = rest.progress.waiting.first, range.lowerBound < end else {
            try finishMending()
            return false
        }
        let limit = min(range.upperBound, end)
        let from =
            now.header.flags.contains(.holes)
            ? backing.nextDataBlock(from: range.lowerBound, below: limit) : range.lowerBound
        let blocks = from..<min(from + context.mendStep, limit)
        // Holds only blocks exclusively that must be rewritten, so that readers continue.
        if try mend(blocks, isDry: true) { _ = try mend(blocks, isDry: false) }
        advance { $0.mended(upTo: blocks.upperBound) }
        return true
    }

    /// Checks the first of `blocks`. Pages without data in the store need no check.
    private func checkSome(_ blocks: Range<UInt64>, isSparse: Bool) throws(VolumeError) {
        let from = backing.nextDataBlock(from: blocks.lowerBound, below: blocks.upperBound)
        let step = from..<min(from + context.mendStep, blocks.upperBound)
        let needsMending: Bool
        do throws(VolumeError) { needsMending = try mend(step, isDry: true) } catch {
            if case .newer = error {
                _ = state.withLock { $0.advance { $0.isStopped = true } }
                context.mending.stop(mendingKey)
            }
            throw error
        }
        advance { progress in
            if !isSparse, from > blocks.lowerBound { progress.add(blocks.lowerBound..<from) }
            if needsMending { progress.add(step) }
            progress.next = step.upperBound
        }
    }

    private func advance(_ change: (inout MendingProgress) -> Void) {
        guard let rest = state.withLock({ $0.advance { change(&$0.progress) } }) else { return }
        context.mending.advance(mendingKey, to: rest.progress)
    }

    /// - Returns: whether a block had to be rewritten.
    private func mend(_ blocks: Range<UInt64>, isDry: Bool) throws(VolumeError) -> Bool {
        guard !blocks.isEmpty else { return false }
        return try holding(blocks, exclusive: !isDry) { () throws(VolumeError) -> Bool in
            // The file was cut meanwhile. The last page is complete, and the later pages are gone.
            let now = snapshot
            let left = blocks.lowerBound..<max(blocks.lowerBound, min(blocks.upperBound, lastBlock(size: now.size)))
            guard !left.isEmpty, now.recovery.unmended != nil else { return false }
            if isDry { return try repairMiddle(left, now, .other, isDry: true) }
            var isChanged = false
            // Backups see the end of mending only: each step would move the stored time by a second.
            try times.preserving { () throws(VolumeError) in isChanged = try repairMiddle(left, now, .other) }
            return isChanged
        }
    }

    /// Sets HOLES if the store has lost more pages than can be sealed quickly. The running time must not depend on the
    /// number of lost pages.
    private func setHolesWhereLong() throws(VolumeError) {
        let now = snapshot
        guard let rest = now.recovery.unmended else { return }
        if !now.header.flags.contains(.holes),
            backing.holes(below: rest.end, most: context.mostSealedHoles) > context.mostSealedHoles
        {
            try holding(RangeLock.everything, exclusive: true) { () throws(VolumeError) in
                guard snapshot.recovery.unmended != nil else { return }
                try times.preserving { () throws(VolumeError) in
                    try rewriteHeader(.other) { (_, header) in header.flags.insert(.holes) }
                }
            }
            reportEvidence(.madeSparse, page: 1)
        }
        _ = state.withLock { $0.advance { $0.isCounted = true } }
    }

    /// The first block from `block` on that may have something to verify. Skips pages without data in the store where they
    /// may be holes. If they are holes that a crash has left, reports the first one.
    /// - Parameter isNext: whether the caller goes on behind `block - 1`, so that holes before it were reported.
    package func skippingHoles(from block: UInt64, isNext: Bool) -> UInt64 {
        let now = snapshot
        let last = lastBlock(size: now.size)
        guard now.recovery.isTolerant || now.header.flags.contains(.holes) else { return block }
        guard block > 0, block < last else { return block }
        let data = backing.nextDataBlock(from: block, below: last)
        guard data > block else { return block }
        let isReported = isNext && block > 1 && backing.nextDataBlock(from: block - 1, below: last) == data
        if !now.header.flags.contains(.holes), !isReported { reportEvidence(.zeroPage, page: block) }
        return data
    }

    /// Makes the mended blocks durable first. Then page 0 gets this mount's epoch, and crash damage is no longer
    /// tolerated.
    private func finishMending() throws(VolumeError) {
        try synchronizeBacking(dataOnly: true)
        try holding(0..<1, exclusive: true) { () throws(VolumeError) in
            let rest = snapshot.recovery.unmended
            guard rest != nil, snapshot.recovery.repair == .none else { return }
            state.withLock { $0.setUnmended(nil) }
            do throws(VolumeError) {
                try times.preserving(isNews: true) { () throws(VolumeError) in
                    try rewriteHeader(.other) { (_, _) in }
                }
            } catch {
                state.withLock { $0.setUnmended(rest) }
                throw error
            }
            state.withLock { $0.mendedAll() }
            context.mending.forget(mendingKey)
        }
    }

    /// Prepares a cut that ends the file in page `block` while the middle waits. After the cut a crash must find the
    /// end there. So zeros and blocks that say LAST are sealed again, and holes too, because an earlier page may say
    /// LAST. Then the file is synced. The caller holds the file.
    func makeFirm(_ block: UInt64, _ now: FileState, _ access: Operation) throws(VolumeError) {
        guard now.recovery.unmended != nil else { return }
        _ = try repairMiddle(block..<block + 1, now, access, sealsHoles: true)
        try synchronizeBacking(dataOnly: true)
    }

    /// Performs all of rule R5's repair now, and writes R0's header. `fsck` does this before it closes an epoch.
    package func repair() throws(VolumeError) {
        try prepareToModify(.other)
        while try mendSome() {}
        try flushHeader()
        try synchronizeBacking(dataOnly: true)
    }
}
