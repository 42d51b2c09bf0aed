// Modes that are changed for a moment, so that a daemon without privileges can serve its user's files of any mode.

import CLibrary
internal import HostSystem
internal import Synchronization

/// Keeps modes that are raised for a moment (`HostObject.withOwnerAccess`) from being seen, and from undoing changes of modes.
///
/// One thread at a time changes a mode: a second one would restore the first one's raised mode. The lock is held over `body`'s
/// calls to the objects. A body may raise another object's mode, in the same thread.
///
/// Calls to the daemon's own mount have a lock of their own. Its workers answer them, and take the lock of the store for that.
final class OwnerAccess: Sendable {
    /// Root needs no permission, so nothing is raised.
    static let isNeeded = !Credentials.isRoot

    /// For objects of a store.
    static let store = OwnerAccess()
    /// For objects of the daemon's own mount (`HostDirectory.find`).
    static let ownMount = OwnerAccess()

    private let lock = Lock<Void>(())
    /// The thread that has the lock; 0 for none.
    private let holder = Atomic<Int32>(0)
    /// The number of modes that are raised now.
    private let raised = Atomic<Int>(0)
    /// The number of times that one was raised or restored.
    private let changes = Atomic<UInt64>(0)

    /// Runs `body`, which changes modes, alone.
    func changing<Result: ~Copyable>(
        if isConcerned: Bool = true, _ body: () throws(Errno) -> Result
    ) throws(Errno) -> Result {
        guard Self.isNeeded, isConcerned else { return try body() }
        let own = BackgroundThread.currentNumber
        guard holder.load(ordering: .relaxed) != own else { return try body() }
        return try lock.withLock { (_) throws(Errno) in
            holder.store(own, ordering: .relaxed)
            defer { holder.store(0, ordering: .relaxed) }
            return try body()
        }
    }

    /// Runs `body`, which raises a mode and restores it. Called within `changing`.
    func raising<Result: ~Copyable>(_ body: () throws(Errno) -> Result) throws(Errno) -> Result {
        raised.add(1, ordering: .sequentiallyConsistent)
        changes.add(1, ordering: .sequentiallyConsistent)
        defer {
            changes.add(1, ordering: .sequentiallyConsistent)
            raised.subtract(1, ordering: .sequentiallyConsistent)
        }
        return try body()
    }

    /// Runs `body`, which reads a status. Runs it again, alone, if it may have seen a raised mode.
    func reading<Result: ~Copyable>(_ body: () throws(Errno) -> Result) throws(Errno) -> Result {
        guard Self.isNeeded else { return try body() }
        let before = changes.load(ordering: .sequentiallyConsistent)
        if raised.load(ordering: .sequentiallyConsistent) == 0 {
            let result = try body()
            if changes.load(ordering: .sequentiallyConsistent) == before { return result }
        }
        return try changing(body)
    }
}
