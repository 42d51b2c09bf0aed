// Rewrites single pages: page 0 with its header, and the last page. Marks files.

internal import BackingStore
internal import KeyFiles
internal import Keybag
internal import HostSystem
internal import SodiumKit
internal import VolumeFormat

extension FileContent {
    /// Rewrites page 0 with a header that `change` has changed. A page 0 that waits is written now.
    ///
    /// The caller holds page 0 exclusively. Not durable when it returns.
    /// - Parameters:
    ///   - newKeys: other keys to seal with. The caller installs them when the page is written.
    ///   - change: runs while the state lock is held.
    func rewriteHeader(
        _ access: Operation, newKeys: FileKeys? = nil,
        _ change: (borrowing HeldKeys, inout FileHeader) throws(VolumeError) -> Void
    ) throws(VolumeError) {
        let now = snapshot
        var header = now.header
        let isWritten = now.pageZero == .written
        var pages = PageRewriter(self, now, pageCount: 1)
        if isWritten { try pages.read(0..<1) }
        try pages.withKeys(access, encryptions: 1) {
            (keys: borrowing HeldKeys, plain: inout MutableSpan<UInt8>, pages: inout PageRewriter) throws(VolumeError)
            in
            if isWritten {
                var codec = pages.codec()
                try pages.open(
                    0, block: 0, &codec, into: &plain, keeping: geometry.payloadLength(ofBlock: 0, size: now.size))
            } else {
                plain.zero(0..<geometry.firstCapacity)
            }
            try change(keys, &header)
            context.authenticate(&header)
            var codec = PageCodec(geometry: geometry, keys: newKeys ?? fileKeys, header: header)
            try pages.seal(plain.span, at: 0, block: 0, size: now.size, &codec)
        }
        try pages.write(0..<1, at: 0)
        state.withLock { $0.wrote(header: header) }
        if now.recovery.unmended == nil { wroteEnd(under: pages.epoch) }
    }

    /// Rewrites one page as it must be in a file of `newSize` bytes. The caller holds it exclusively.
    ///
    /// - Parameters:
    ///   - tolerating: whether a LAST or a length that does not fit `now` is taken as it is.
    ///   - before: runs when the page is sealed and not yet written.
    ///   - onFailure: gets an error of `before` or of the write.
    func rewritePage(
        _ block: UInt64, in now: FileState, toSize newSize: UInt64, tolerating: Bool = false, _ access: Operation,
        before: () throws(VolumeError) -> Void = { () throws(VolumeError) in },
        onFailure: (VolumeError) -> Void = { _ in }
    ) throws(VolumeError) {
        let judged = tolerating ? now.tolerating(true) : now
        let kept =
            block > lastBlock(size: now.size) ? 0 : geometry.payloadLength(ofBlock: block, size: min(now.size, newSize))
        var pages = PageRewriter(self, judged, pageCount: 1)
        try pages.read(block..<block + 1)
        try pages.withKeys(access, encryptions: 1) {
            (_, plain: inout MutableSpan<UInt8>, pages: inout PageRewriter) throws(VolumeError) in
            var codec = pages.codec()
            try pages.open(0, block: block, &codec, into: &plain, keeping: kept)
            try pages.seal(plain.span, at: 0, block: block, size: newSize, &codec)
        }
        do throws(VolumeError) {
            try before()
            try pages.write(0..<1, at: block)
        } catch {
            onFailure(error)
            throw error
        }
        if block == 0 { state.withLock { $0.wrotePageZero() } }
        if block > 0 ? block == lastBlock(size: newSize) : now.recovery.unmended == nil { wroteEnd(under: pages.epoch) }
    }

    /// Page 0, under this mount's epoch, or the last page was written.
    func wroteEnd(under epoch: UInt32) {
        guard state.withLock({ $0.wroteEnd(under: epoch) }) else { return }
        context.seen?.wrote(fileID, epoch)
    }

    /// Whether the file is marked. Not known if other machines write: each of them writes page 0 under its own epoch.
    func isMarked(_ now: FileState) -> Bool { now.durability.isMarked && !context.isShared }

    /// Marks the file: makes a page 0 with this mount's epoch durable. This happens at most once per file and mount,
    /// unless other machines write. The caller holds page 0.
    func mark(_ access: Operation) throws(VolumeError) {
        let now = snapshot
        guard !isMarked(now) else { return }
        if !now.durability.pageZeroIsOurs || context.isShared {
            try times.preserving { () throws(VolumeError) in try rewriteHeader(access) { (_, _) in } }
        }
        try synchronizeBacking(dataOnly: true)
    }

    /// Syncs the backing file and remembers what that has made durable.
    func synchronizeBacking(dataOnly: Bool) throws(VolumeError) {
        let before = snapshot
        try store { () throws(Errno) in try backing.synchronize(dataOnly: dataOnly) }
        guard let version = state.withLock({ $0.synced(since: before) }) else { return }
        context.seen?.synced(before.header.fileID, version)
    }

    /// Syncs before a step that holds the whole file and syncs, so that other requests can read during this sync. Files
    /// that are short, or have little to sync, are synced only in that step.
    func syncAhead() throws(VolumeError) {
        let now = snapshot
        guard lastBlock(size: now.size) > Self.mostUnsynced, now.durability.unsyncedPages > Self.mostUnsynced else {
            return
        }
        try synchronizeBacking(dataOnly: true)
    }

    /// The number of pages that a sync writes quickly.
    private static var mostUnsynced: UInt64 { 4096 }
}
