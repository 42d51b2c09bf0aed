// What a mount has changed and not synced, on stores whose syncfs(2) makes nothing durable.

internal import HostSystem
internal import KeyFiles

/// The files and directories that were changed and not synced since. Bounded: `Volume` syncs them when there are too many.
///
/// Each node in here is held, so that its place follows renames. A file that is open is not dropped before it closes.
/// Thread-safe: its lock guards the table, and is held for a look only.
final class UnsyncedNodes: Sendable {
    /// The number of nodes at which they are synced, about 5 MiB.
    private static let most = 8192

    private struct Contents {
        var nodes: [UInt64: Node] = [:]
        var isSettling = false
    }

    private let contents = Lock(Contents())
    private let known: NodeTable

    /// - Parameter known: the volume's nodes.
    init(of known: NodeTable) { self.known = known }

    func insert(_ node: Node) {
        known.hold(node)
        let isNew = contents.withLock { $0.nodes.updateValue(node, forKey: node.number) == nil }
        if !isNew { known.unhold(node) }
    }

    /// Whether the caller must settle, as only one thread does at a time.
    func beginSettling() -> Bool {
        contents.withLock { contents in
            guard contents.nodes.count > Self.most, !contents.isSettling else { return false }
            contents.isSettling = true
            return true
        }
    }

    func endSettling() { contents.withLock { $0.isSettling = false } }

    /// Takes out the nodes that fit, and syncs each, without the lock.
    ///
    /// - Throws: the first error; the rest is synced nevertheless.
    func synchronize(
        where fits: (Node) -> Bool = { _ in true }, _ sync: (Node) throws(VolumeError) -> Void
    ) throws(VolumeError) {
        let taken = contents.withLock { contents in
            let taken = contents.nodes.values.filter(fits)
            for node in taken { contents.nodes[node.number] = nil }
            return taken
        }
        var failure: VolumeError?
        for node in taken {
            do throws(VolumeError) { try sync(node) } catch { failure = failure ?? error }
            known.unhold(node)
        }
        if let failure { throw failure }
    }
}
