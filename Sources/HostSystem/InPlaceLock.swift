// A lock that is stored in the object that owns it.

#if !THREAD_SANITIZER
    public import Synchronization
#endif

#if THREAD_SANITIZER
    /// `Synchronization.Mutex` raises false alarms under the thread sanitizer. So builds for it use pthread's mutex.
    @usableFromInline package typealias InPlaceStorage<Value: ~Copyable> = Lock<Value>
#else
    @usableFromInline package typealias InPlaceStorage<Value: ~Copyable> = Mutex<Value>
#endif

/// A mutual-exclusion lock around the value that it guards, for objects that are made with each request: it takes no
/// allocation, as it is a part of its owner. Nothing can wait for a change of the value; see `Gate`.
///
/// The lock is not recursive. It is fair (FUTEX_LOCK_PI), which costs more under contention than `Lock`.
@usableFromInline package struct InPlaceLock<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
    @usableFromInline let storage: InPlaceStorage<Sent<Value>>

    /// Makes an unlocked lock around `value`.
    package init(_ value: consuming sending Value) { storage = InPlaceStorage(Sent(value)) }

    /// Runs `body` with the value while the lock is held.
    @inlinable package func withLock<Result: ~Copyable, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try storage.withLock { sent throws(Failure) in Sent(try body(&sent.value)) }.value
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
