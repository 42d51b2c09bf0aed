// Files that somebody else changes below the mount, such as a sync client: noticed when they are looked up or opened.

internal import BackingStore
internal import HostSystem

extension Volume {
    /// Whether the kernel keeps what it knows of a file for so long that changes below have to be looked for.
    private var looksForChanges: Bool { !options.isShared }

    /// Remembers what a closed file looks like below, where nothing is known yet.
    func noteFingerprint(_ node: Node, _ status: Status) {
        guard looksForChanges, node.kind == .file else { return }
        node.state.withLock { state in
            if state.handles == 0, state.fingerprint == nil { state.fingerprint = Fingerprint(status) }
        }
    }

    /// Forgets what a file looks like while a change of our own is under way; `noteFingerprint` or the last release follows.
    func forgetFingerprint(_ node: Node) {
        node.state.withLock { $0.fingerprint = nil }
    }

    /// Leaves a closed file's node for good if the file below is not as it was left: true then.
    ///
    /// The kernel keeps the pages and the size of an inode that it knows. So the file gets a new node, and with it a new
    /// inode, and the old one cannot be opened any more: a lookup that follows ESTALE finds the new one.
    func leaveIfChanged(_ node: Node, _ status: Status) -> Bool {
        guard looksForChanges, node.kind == .file else { return false }
        let isLeft = node.state.withLock { state in
            guard let known = state.fingerprint, known != Fingerprint(status), state.handles == 0 else { return false }
            state.isSuperseded = true
            return true
        }
        if isLeft { nodes.replaced(node) }
        return isLeft
    }

    /// The entry of a name just looked up or listed.
    func seen(_ status: Status, in parent: Node, _ name: EntryName) throws(VolumeError) -> Entry {
        let status = try compare(status, in: parent, name)
        let entry = try entry(status, in: parent, name)
        noteFingerprint(entry.node, status)
        return entry
    }

    /// Leaves a known node that is not what it was; reads `status` once more, as a change of our own may have come between.
    private func compare(_ status: Status, in parent: Node, _ name: EntryName) throws(VolumeError) -> Status {
        guard looksForChanges, let node = nodes.known(InodeKey(status)), node.kind == .file,
            node.state.withLock({ $0.handles == 0 && $0.fingerprint.map { $0 != Fingerprint(status) } ?? false })
        else { return status }
        guard let again = try self.status(of: name, in: directory(parent)) else { throw .noEntry }
        if InodeKey(again) == node.key { _ = leaveIfChanged(node, again) }
        return again
    }
}
