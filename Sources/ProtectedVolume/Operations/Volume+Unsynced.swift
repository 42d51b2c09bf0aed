// What a mount has changed and not synced, on stores whose syncfs(2) makes nothing durable.

internal import BackingStore
internal import FileContents
internal import HostSystem
package import KeyFiles

/// The files and directories that were changed and not synced since. Thread-safe. Bounded: `Volume` syncs them when
/// there are too many.
///
/// Each node in here is held, so that its place follows renames. A file that is open is not dropped before it closes.
final class UnsyncedNodes: Sendable {
    /// The number of nodes at which they are synced, about 5 MiB.
    static let most = 8192

    private struct Contents {
        var nodes: [UInt64: Node] = [:]
        var isSettling = false
    }

    private let contents = Lock(Contents())

    /// - Returns: whether the node was not in here.
    func insert(_ node: Node) -> Bool { contents.withLock { $0.nodes.updateValue(node, forKey: node.number) == nil } }

    /// Whether the caller must settle, as only one thread does at a time.
    func beginSettling() -> Bool {
        contents.withLock { contents in
            guard contents.nodes.count > Self.most, !contents.isSettling else { return false }
            contents.isSettling = true
            return true
        }
    }

    func endSettling() { contents.withLock { $0.isSettling = false } }

    /// Takes out the nodes that fit.
    func take(_ fits: (Node) -> Bool) -> [Node] {
        contents.withLock { contents in
            let taken = contents.nodes.values.filter(fits)
            for node in taken { contents.nodes[node.number] = nil }
            return taken
        }
    }
}

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
        nodes.hold(node)
        if !unsynced.insert(node) { nodes.unhold(node) }
        guard unsynced.beginSettling() else { return }
        let closed = unsynced.take { node in node.state.withLock { $0.content == nil } }
        // Crash damage must stay tolerated in what could not be synced. No caller can receive the error.
        do throws(VolumeError) { try synchronize(taken: closed) } catch { content.epochs.keepOpen() }
        unsynced.endSettling()
    }

    /// Makes everything durable that this mount has changed, on a store whose syncfs(2) does not. Does nothing on others.
    ///
    /// - Throws: the store's first error; the rest is synced nevertheless.
    package func synchronizeChanges() throws(VolumeError) {
        guard let unsynced else { return }
        try synchronize(taken: unsynced.take { _ in true })
    }

    private func synchronize(taken nodes: [Node]) throws(VolumeError) {
        var failure: VolumeError?
        for node in nodes {
            do throws(VolumeError) { try synchronizeInStore(node) } catch { failure = failure ?? error }
            self.nodes.unhold(node)
        }
        if let failure { throw failure }
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
