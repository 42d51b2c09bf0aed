// Detects at lookup and open that another program, such as a sync client, has changed a file below the mount.

internal import BackingStore
internal import FileContents
internal import HostSystem
internal import KeyFiles

extension Volume {
    /// Whether to look for external changes. They matter without `-o shared`, because the kernel then caches a file's
    /// pages and attributes for a long time.
    private var looksForChanges: Bool { !options.isShared }

    /// Remembers length and time of a closed file if none are known yet.
    func noteLastSeen(_ node: Node, _ status: Status) {
        guard looksForChanges, node.kind == .file else { return }
        node.state.withLock { state in
            if state.handles == 0, state.lastSeen == nil { state.lastSeen = LengthAndTime(status) }
        }
    }

    /// Forgets length and time while our own change is under way; `noteLastSeen` or the last release follows.
    func forgetLastSeen(_ node: Node) {
        node.state.withLock { $0.lastSeen = nil }
    }

    /// Abandons a closed file's node, and returns true, if another program has changed the file.
    ///
    /// The kernel keeps the pages and the size of an inode that it knows. So the file gets a new node, and with it a
    /// new inode. The old one cannot be opened any more. The lookup after ESTALE finds the new one.
    func leaveIfChanged(_ node: Node, _ status: Status) -> Bool {
        guard looksForChanges, node.kind == .file else { return false }
        let isLeft = node.state.withLock { state in
            guard let known = state.lastSeen, known != LengthAndTime(status), state.handles == 0 else { return false }
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
        noteLastSeen(entry.node, status)
        return entry
    }

    /// Abandons a known node whose file was changed. Reads `status` again first: our own change may have come between.
    private func compare(_ status: Status, in parent: Node, _ name: EntryName) throws(VolumeError) -> Status {
        guard looksForChanges, let node = nodes.known(InodeKey(status)), node.kind == .file,
            node.state.withLock({ $0.handles == 0 && $0.lastSeen.map { $0 != LengthAndTime(status) } ?? false })
        else { return status }
        guard let again = try self.status(of: name, in: directory(parent)) else { throw .noEntry }
        if InodeKey(again) == node.key { _ = leaveIfChanged(node, again) }
        return again
    }

    /// Finds what another machine has changed in a file that is open here: its class, above all. Waits for that machine,
    /// so it must not be called with the stripe, on which the opens of other files wait.
    func refreshOpen(_ node: Node) throws(VolumeError) {
        guard let content = content(of: node) else { return }
        defer {
            // It was closed meanwhile, and its keys were wiped.
            if self.content(of: node) !== content { content.wipeKeys() }
        }
        do throws(VolumeError) { try content.refresh(always: true) } catch {
            // Else it is opened anew.
            if self.content(of: node) === content { throw error }
        }
    }
}
