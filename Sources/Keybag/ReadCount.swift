// Counts the reads of a class between their test and their reply, so that a lock can wait for them.

import HostSystem
import Synchronization

/// A counter with a wait for zero, for one thread.
///
/// The order is sequentially consistent. A waiter registers before it looks, and a reader looks for waiters after it counts
/// down, so that no wake-up is lost.
final class ReadCount: Sendable {
    private let count = Atomic<Int>(0)
    private let waiters = Atomic<Int>(0)
    private let lock = Lock(0)
    private let condition = Condition()

    /// The number of reads that are counted now.
    var current: Int { count.load(ordering: .sequentiallyConsistent) }

    func begin() {
        count.add(1, ordering: .sequentiallyConsistent)
    }

    func end() {
        let left = count.subtract(1, ordering: .sequentiallyConsistent).newValue
        precondition(left >= 0, "endRead without beginRead")
        if left == 0, waiters.load(ordering: .sequentiallyConsistent) > 0 {
            // Taking the lock once ensures that a waiter looked before this, or looks after it.
            lock.withLock { _ in }
            condition.broadcast()
        }
    }

    /// Waits until nothing is counted. False if `deadline` (CLOCK_MONOTONIC, nanoseconds) passes first.
    func waitForZero(until deadline: UInt64) -> Bool {
        waiters.add(1, ordering: .sequentiallyConsistent)
        defer { waiters.subtract(1, ordering: .sequentiallyConsistent) }
        return lock.wait(on: condition, until: deadline) { _ in self.current == 0 ? true : nil } ?? false
    }
}
