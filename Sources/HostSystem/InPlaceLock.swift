// A lock that is stored in the object that owns it.

internal import CLinuxShim
public import Synchronization

/// A mutual-exclusion lock around the value that it guards, for objects that are made with each request: it takes no
/// allocation, as it is a part of its owner. Nothing can wait for a change of the value; see `Gate`.
///
/// The lock is not recursive. It lets one thread through, whichever comes first. `Synchronization.Mutex` would hand it to the thread
/// that has waited longest (FUTEX_LOCK_PI), so each request of a busy file would wait for several switches of threads; and it
/// asks the kernel for the thread's number each time.
@usableFromInline package struct InPlaceLock<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
    @usableFromInline let barrier = Barrier()
    @usableFromInline let storage: InPlaceStorage<Value>

    /// Makes an unlocked lock around `value`.
    package init(_ value: consuming sending Value) { storage = InPlaceStorage(value) }

    /// Runs `body` with the value while the lock is held.
    @inlinable package func withLock<Result: ~Copyable, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        barrier.enter()
        defer { barrier.leave() }
        return try storage.withValue(body)
    }
}

#if THREAD_SANITIZER || !hasFeature(RawLayout)
    /// The thread sanitizer does not understand the barrier, so under it pthread's mutex guards the value; and where the compiler has
    /// no raw layout.
    @usableFromInline package struct InPlaceStorage<Value: ~Copyable>: ~Copyable, Sendable {
        @usableFromInline let lock: Lock<Value>

        init(_ value: consuming sending Value) { lock = Lock(value) }

        @inlinable func withValue<Result: ~Copyable, Failure: Error>(
            _ body: (inout Value) throws(Failure) -> Result
        ) throws(Failure) -> Result { try lock.withLock(body) }
    }
#else
    /// Room for a value inside its owner, at an address that does not change. Only the holder of the barrier may touch it.
    @_rawLayout(like: Value, movesAsLike)
    @usableFromInline package struct InPlaceStorage<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
        init(_ value: consuming sending Value) { unsafe address.initialize(to: value) }

        deinit { unsafe address.deinitialize(count: 1) }

        /// Raw storage is never copied or kept in registers, so the borrowed value is where the owner has it.
        @unsafe @inlinable var address: UnsafeMutablePointer<Value> {
            unsafe withUnsafePointer(to: self) {
                unsafe UnsafeMutableRawPointer(mutating: $0).assumingMemoryBound(to: Value.self)
            }
        }

        @inlinable func withValue<Result: ~Copyable, Failure: Error>(
            _ body: (inout Value) throws(Failure) -> Result
        ) throws(Failure) -> Result { try body(&(unsafe address.pointee)) }
    }
#endif

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
