// Truncates files, in the order of steps in docs/judge/volume-format.md.

internal import BackingStore
internal import HostSystem
package import KeyFiles
package import VolumeFormat

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
                state.withLock { $0.size = size }
            } onFailure: { _ in
                failedEnd()
            }
            return
        }
        if newLast == 0 {
            try rewritePage(0, in: now, toSize: size, access, onFailure: { _ in failedEnd() })
            // From now on the file on disk ends in page 0.
            state.withLock { $0.size = size }
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
            state.withLock { $0.size = size }
            try synchronizeBacking(dataOnly: true)
        } onFailure: { _ in
            failedEnd()
        }
    }
}
