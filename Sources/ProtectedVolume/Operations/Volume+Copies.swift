// The moment in which the new copy of a file takes the file's name, and the changes of names beside it.

internal import BackingStore
internal import HostSystem
internal import KeyFiles

extension Volume {
    /// Runs the test of a name and the rename of a new copy over it, while no name changes. Else a save that renames a file over
    /// it in this moment would be lost, or a file that is removed would come back.
    func replacing<Result>(_ body: () throws(VolumeError) -> Result) throws(VolumeError) -> Result {
        try copies.withWriteLock { (count) throws(VolumeError) in
            let result = try body()
            count += 1
            return result
        }
    }

    /// Runs `body`, which looks at names and changes one of them by `changing`, with the number of copies so far. Runs it again
    /// if a copy has taken one of the names in between.
    func retryingAfterCopies<Result>(
        _ body: (UInt64) throws(VolumeError) -> Result
    ) throws(VolumeError) -> Result {
        for _ in 0..<16 {
            do throws(VolumeError) {
                return try body(copies.withReadLock { $0 })
            } catch {
                guard error == .refused(.EAGAIN) else { throw error }
            }
        }
        throw .refused(.EBUSY)
    }

    /// Runs the call to the store that changes names. No copy takes a name meanwhile. The lock is held for this call alone.
    /// - Parameters:
    ///   - number: the number of copies before the names were looked at.
    ///   - isSame: whether they still belong to the same objects. Asked if there was a copy since.
    func changing(
        since number: UInt64, isSame: () throws(VolumeError) -> Bool, _ body: () throws(Errno) -> Void
    ) throws(VolumeError) {
        try copies.withReadLock { (count) throws(VolumeError) in
            if count != number, !(try isSame()) { throw .refused(.EAGAIN) }
            try below(body)
        }
    }

    /// Throws `.stale` if a copy has taken the inode's place: what is changed here would be lost. The kernel then looks the name
    /// up again and repeats a call by path; a call by an open handle fails. Called before a change of metadata.
    func requireCurrent(_ node: Node) throws(VolumeError) {
        if isReplaced(node) { throw .stale }
    }

    /// The same after a change of metadata. A copy that was made of what was there before is given up.
    func settleChange(of node: Node) throws(VolumeError) {
        if isReplacedAfterChange(node) { throw .stale }
    }

    /// Tells a copy that is being made that metadata has changed, and asks whether one has taken the inode's place already.
    func isReplacedAfterChange(_ node: Node) -> Bool {
        node.state.withLock { $0.metadataChanges += 1 }
        return isReplaced(node)
    }

    /// Whether a copy has taken the inode's place. Waits until one that is about to has done so, or has given up. Do not call it
    /// with a stripe.
    private func isReplaced(_ node: Node) -> Bool {
        let (isBeingReplaced, isReplaced) = node.state.withLock { ($0.isBeingReplaced, $0.isReplaced) }
        guard isBeingReplaced else { return isReplaced }
        return opened.stripe(node).withLock { _ in node.state.withLock { $0.isReplaced } }
    }

    /// Throws `.stale` for an inode that another one has replaced and that no program has open, so that it is looked up again.
    func requireShown(_ node: Node) throws(VolumeError) {
        if node.state.withLock({ $0.isSuperseded && $0.handles == 0 }) { throw .stale }
    }

    /// Whether an entry still belongs to the object that had this status; for nil, whether it is still free.
    func isSame(_ entry: EntryName, in directory: BackingDirectory, _ before: Status?) throws(VolumeError) -> Bool {
        try status(of: entry, in: directory)?.inode == before?.inode
    }
}
