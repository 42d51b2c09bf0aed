// A lock that is stored in the object that owns it.

internal import CLinuxShim
public import Synchronization

#if THREAD_SANITIZER
    /// `Synchronization.Mutex` raises false alarms under the thread sanitizer. So builds for it use pthread's mutex.
    @usableFromInline package typealias InPlaceStorage<Value: ~Copyable> = Lock<Value>
#else
    @usableFromInline package typealias InPlaceStorage<Value: ~Copyable> = Mutex<Value>
#endif

/// A mutual-exclusion lock around the value that it guards, for objects that are made with each request: it takes no
/// allocation, as it is a part of its owner. Nothing can wait for a change of the value; see `Gate`.
///
/// The lock is not recursive. `Synchronization.Mutex` owns the value. Alone it would be too slow under contention: it is handed to
/// the thread that has waited longest (FUTEX_LOCK_PI), so each request of a busy file would wait for several switches of
/// threads. So a barrier in front of it lets one thread through, whichever comes first.
@usableFromInline package struct InPlaceLock<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
    @usableFromInline let barrier = Barrier()
    @usableFromInline let storage: InPlaceStorage<Sent<Value>>

    /// Makes an unlocked lock around `value`.
    package init(_ value: consuming sending Value) { storage = InPlaceStorage(Sent(value)) }

    /// Runs `body` with the value while the lock is held.
    @inlinable package func withLock<Result: ~Copyable, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        barrier.enter()
        defer { barrier.leave() }
        return try storage.withLock { sent throws(Failure) in Sent(try body(&sent.value)) }.value
    }
}

/// Lets one thread at a time through, in no order. The word is 0 if it is free, 1 if a thread is inside, and 2 if others may wait
/// (U. Drepper, "Futexes Are Tricky", 2011, the second mutex).
@usableFromInline package struct Barrier: ~Copyable, Sendable {
    @usableFromInline let word = Atomic<UInt32>(0)

    init() {}

    @inlinable func enter() {
        let isIn = word.compareExchange(
            expected: 0, desired: 1, successOrdering: .acquiring, failureOrdering: .relaxed
        ).exchanged
        if !isIn { wait() }
    }

    @inlinable func leave() {
        if word.exchange(0, ordering: .releasing) == 2 { wakeOne() }
    }

    @usableFromInline func wait() {
        // The word is a part of an object that cannot be copied, so this is its only address as long as it lives.
        unsafe withUnsafePointer(to: word) { unsafe pfs_barrier_wait(UnsafeMutableRawPointer(mutating: $0)) }
    }

    @usableFromInline func wakeOne() {
        unsafe withUnsafePointer(to: word) { unsafe pfs_barrier_wake(UnsafeMutableRawPointer(mutating: $0)) }
    }
}

/// A value that only the holder of the lock reaches, which the compiler cannot see.
///
/// Not private, and neither are the types of guarded values: Swift 6.3.1 cannot link their metadata in debug builds.
@usableFromInline package struct Sent<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
    @usableFromInline var value: Value

    @inlinable init(_ value: consuming Value) { self.value = value }
}

/// A gate that opens once, for threads that wait for it.
package final class Gate: Sendable {
    private let isOpen = Lock(false)
    private let opened = Condition()

    /// Makes a closed gate.
    package init() {}

    /// Lets all threads through.
    package func open() {
        isOpen.withLock { $0 = true }
        opened.broadcast()
    }

    /// Waits until the gate is open. False if `deadline` (CLOCK_MONOTONIC, in nanoseconds) passes first.
    @discardableResult
    package func wait(until deadline: UInt64? = nil) -> Bool {
        isOpen.wait(on: opened, until: deadline) { $0 ? true : nil } ?? false
    }
}
