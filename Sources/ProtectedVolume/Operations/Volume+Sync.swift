// Makes changes durable: for fsync(2), and at an unmount where syncfs(2) of the store makes nothing durable.

internal import BackingStore
internal import FileContents
internal import HostSystem
package import KeyFiles

extension Volume {
    /// Syncs a file, for fsync(2). Syncs records and companions on its path once, then the file.
    package func synchronize(_ node: Node, dataOnly: Bool) throws(VolumeError) {
        var directory = node.state.withLock { $0.place?.parent }
        while let current = directory {
            try synchronizeRecords(current)
            directory = current.state.withLock { $0.place?.parent }
        }
        if let content = content(of: node) { try content.synchronize(dataOnly: dataOnly) }
        try synchronizeLateRecords(of: content(of: node))
    }

    private func synchronizeRecords(_ node: Node) throws(VolumeError) {
        guard let state = node.directory else { return }
        let (changes, synced) = state.contents.withLock { ($0.changes, $0.syncedChanges) }
        guard changes != synced else { return }
        let directory = try self.directory(node)
        try below { () throws(Errno) in try directory.synchronize() }
        state.contents.withLock { $0.syncedChanges = max($0.syncedChanges, changes) }
    }

    /// Syncs a directory, for fsync(2). Of a removed one nothing is left to sync.
    package func synchronizeDirectory(_ node: Node) throws(VolumeError) {
        guard !node.isUnlinked else { return }
        node.directory?.setNeedsSync()
        try synchronize(node, dataOnly: false)
        try synchronizeRecords(node)
    }

    /// Notes that a file or directory was changed. Call it after the change, without a lock.
    func noteChange(_ node: Node) {
        content(of: node)?.forgetAccessLook()
        guard let unsynced, node.kind == .file || node.kind == .directory else { return }
        unsynced.insert(node)
        guard unsynced.beginSettling() else { return }
        // Crash damage must stay tolerated in what could not be synced. No caller can receive the error.
        do throws(VolumeError) {
            try unsynced.synchronize(where: { $0.state.withLock { $0.content == nil } }) { (node) throws(VolumeError) in
                try synchronizeInStore(node)
            }
        } catch { content.epochs.keepOpen() }
        unsynced.endSettling()
    }

    /// Makes everything durable that this mount has changed, on a store whose syncfs(2) does not. Does nothing on others.
    ///
    /// - Throws: the store's first error; the rest is synced nevertheless.
    package func synchronizeChanges() throws(VolumeError) {
        try unsynced?.synchronize { (node) throws(VolumeError) in try synchronizeInStore(node) }
    }

    private func synchronizeInStore(_ node: Node) throws(VolumeError) {
        do throws(VolumeError) {
            if node.kind == .directory {
                let directory = try directory(node)
                return try below { () throws(Errno) in try directory.synchronize() }
            }
            let file = if let content = content(of: node) { content.backing } else { try openBacking(node) }
            try below { () throws(Errno) in try file.synchronize(dataOnly: false) }
        } catch {
            // What has no name needs no sync, and with another object this mount has nothing to do. ESTALE is what a network file
            // system says of an object that another machine has removed.
            let isGone = error == .noEntry || error == .store(.ENOENT) || error == .store(.ESTALE)
            guard node.isUnlinked || error == .stale || isGone else { throw error }
        }
    }
}
