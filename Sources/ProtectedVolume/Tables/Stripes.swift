// A fixed number of locks for any number of nodes.

internal import HostSystem

/// Locks that are chosen by a node's number. Two nodes may share one, so a thread never holds two.
struct Stripes: Sendable {
    private let locks = (0..<64).map { _ in Lock(()) }

    subscript(node: Node) -> Lock<Void> { locks[Int(node.number % UInt64(locks.count))] }
}
