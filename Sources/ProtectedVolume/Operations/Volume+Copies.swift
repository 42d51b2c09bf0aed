// Refuses changes of metadata that come after a new copy has taken the inode's place.

internal import BackingStore
internal import HostSystem
internal import KeyFiles

extension Volume {
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
