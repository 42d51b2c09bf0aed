// What comes before a change of a file, and what makes it complete and durable.

internal import BackingStore
internal import HostSystem
package import KeyFiles
internal import Keybag
internal import VolumeFormat

extension FileContent {
    /// Writes page 0 if it still waits since the file was created. Called before link, setxattr, class change, lock and
    /// release.
    package func flushHeader() throws(VolumeError) { _ = try flushedHeader() }

    /// The same.
    /// - Returns: the backing file's length and time, if it was written and they are known.
    func flushedHeader() throws(VolumeError) -> LengthAndTime? {
        guard state.withLock({ $0.pageZero == .pending }) else { return nil }
        return try holding(0..<1, exclusive: true) { () throws(VolumeError) in
            let (isPending, size) = state.withLock { ($0.pageZero == .pending, $0.size) }
            guard isPending else { return nil }
            let time = times.time
            do throws(VolumeError) {
                let isKept = try times.preserving(time) { () throws(VolumeError) in
                    try rewriteHeader(.other) { (_, _) in }
                }
                guard isKept, let time, size == 0 else { return nil }
                return LengthAndTime(length: UInt64(PageGeometry.pageSize), time)
            } catch {
                context.epochs.keepOpen()
                throw error
            }
        }
    }

    /// fsync(2), or fdatasync(2): everything written so far is durable when it returns.
    package func synchronize(dataOnly: Bool) throws(VolumeError) {
        try flushHeader()
        try synchronizeBacking(dataOnly: dataOnly)
    }

    /// Whether the file is listed as changed, or this mount has made it.
    package var isListed: Bool { state.withLock { $0.durability.isListed } }

    /// Lists the file as changed, once, so that a check after a crash finds it. Durable when it returns.
    private func listChange() throws(VolumeError) {
        guard !isListed else { return }
        let now = snapshot
        try context.epochs.begin(above: max(now.version, context.seen?.version(of: now.header.fileID) ?? 0))
        try context.epochs.changed.cover(inode)
        state.withLock { $0.listed() }
    }

    /// Prepares a file for a modification: lists it as changed, checks its identity after a wipe, writes rule R0's new header, applies rule R5.
    func prepareToModify(_ access: Operation) throws(VolumeError) {
        guard !context.isReadOnly else { throw .readOnly }
        try checkIdentity()
        try refresh()
        try requireChangeable()
        try listChange()
        let now = snapshot
        if now.recovery.repair == .none, now.pageZero != .missing { return }
        // Syncing pages that a killed process left may take long, so it happens before the whole file is held.
        if now.recovery.repair == .full, lastBlock(size: now.size) > context.mendAtOnce {
            try synchronizeBacking(dataOnly: true)
        }
        try holding(RangeLock.everything, exclusive: true) { () throws(VolumeError) in
            try mend(access)
        }
    }

    /// Writes a page 0 that waits, and restores a modification time that a late write has changed. Call it when the last
    /// writer's handle is closed, and when the last of all is: nothing of our own changes the backing file then.
    /// - Returns: the backing file's length and time, if they are known.
    @discardableResult
    package func settle() throws(VolumeError) -> LengthAndTime? {
        if let written = try flushedHeader() { return written }
        guard let time = times.putBack() else { return nil }
        let now = snapshot
        guard now.pageZero == .written, now.recovery.repair == .none else { return nil }
        return geometry.backingLength(size: now.size).map { LengthAndTime(length: $0, time) }
    }
}
