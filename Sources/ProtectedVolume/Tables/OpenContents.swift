// The nodes whose content is open, and the order of opens.

internal import HostSystem
internal import Synchronization

/// The nodes with open content, for a lock of the volume. Thread-safe.
///
/// A node's stripe is held while its content is opened, shared or finally closed, also across calls to the store. The lock of the
/// list is held for a look only.
final class OpenContents: Sendable {
    /// The opens that wait at a time. Each keeps a thread from serving the kernel, and a mount may have no more than four.
    private static let mostWaiting = 2

    private let nodes = Lock<[UInt64: Node]>([:])
    private let stripes = Stripes()
    /// The opens that wait for the handles of others.
    private let waiting = Atomic<Int>(0)

    /// All nodes with open content.
    var all: [Node] { nodes.withLock { Array($0.values) } }

    func insert(_ node: Node) { nodes.withLock { $0[node.number] = node } }

    func remove(_ node: Node) { nodes.withLock { $0[node.number] = nil } }

    /// The lock for opening and finally closing a node's content.
    func stripe(_ node: Node) -> Lock<Void> { stripes[node] }

    /// Lets an open wait while others are in its way, unless too many wait already.
    func waitForOthers(milliseconds: UInt64, while isInTheWay: () -> Bool) {
        defer { waiting.subtract(1, ordering: .relaxed) }
        guard waiting.add(1, ordering: .relaxed).newValue <= Self.mostWaiting else { return }
        let end = monotonicNanoseconds() + milliseconds * 1_000_000
        while isInTheWay(), monotonicNanoseconds() < end { sleep(milliseconds: 2) }
    }
}
