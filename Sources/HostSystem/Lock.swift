// Locks that own the value they guard. They use pthread, which the thread sanitizer understands.

public import CLibrary

/// A mutual-exclusion lock around the value that it guards.
///
/// The lock is not recursive. It uses pthread_mutex_lock(3), because `Synchronization.Mutex` raises false alarms under
/// the thread sanitizer on Linux.
@safe @usableFromInline package final class Lock<Value: ~Copyable>: @unchecked Sendable {
    @usableFromInline let mutex: UnsafeMutablePointer<pthread_mutex_t>
    @usableFromInline var guarded: Guarded<Value>

    /// Makes an unlocked lock around `value`.
    package init(_ value: consuming sending Value) {
        unsafe mutex = .allocate(capacity: 1)
        unsafe mutex.initialize(to: pthread_mutex_t())
        guarded = Guarded(value: value)
        // The address does not change during the object's life, as pthread requires.
        let result = unsafe pthread_mutex_init(mutex, nil)
        precondition(result == 0, "pthread_mutex_init failed")
    }

    deinit {
        unsafe pthread_mutex_destroy(mutex)
        unsafe mutex.deinitialize(count: 1)
        unsafe mutex.deallocate()
    }

    /// Runs `body` with the value while the lock is held.
    @inlinable package func withLock<Result: ~Copyable, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        unsafe pthread_mutex_lock(mutex)
        defer { unsafe pthread_mutex_unlock(mutex) }
        return try body(&guarded.value)
    }

    /// Waits on `condition` until `body` returns a result. All waiters of a condition must use the same lock.
    ///
    /// `body` runs with the lock held. If it returns nil, the call waits for the next signal. Returns nil if `deadline`
    /// passes first.
    /// - Parameter deadline: on CLOCK_MONOTONIC, in nanoseconds; nil waits for ever.
    package func wait<Result>(
        on condition: Condition, until deadline: UInt64? = nil, _ body: (inout Value) -> Result?
    ) -> Result? {
        unsafe pthread_mutex_lock(mutex)
        defer { unsafe pthread_mutex_unlock(mutex) }
        while true {
            if let result = body(&guarded.value) { return result }
            if unsafe !condition.wait(mutex, until: deadline) { return body(&guarded.value) }
        }
    }
}

/// A value that occupies memory even if it is `Void`.
///
/// A field without size has the address of its object. The thread sanitizer would mistake an access to it for a write
/// to the object's class.
@usableFromInline struct Guarded<Value: ~Copyable>: ~Copyable {
    @usableFromInline var value: Value
    private var room: UInt8 = 0

    init(value: consuming Value) {
        self.value = value
    }
}

/// A condition variable on CLOCK_MONOTONIC for `Lock.wait`.
@safe package final class Condition: @unchecked Sendable {
    private let condition: UnsafeMutablePointer<pthread_cond_t>

    /// Makes a condition with no waiters.
    package init() {
        unsafe condition = .allocate(capacity: 1)
        unsafe condition.initialize(to: pthread_cond_t())
        var attributes = pthread_condattr_t()
        unsafe pthread_condattr_init(&attributes)
        unsafe pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        let result = unsafe pthread_cond_init(condition, &attributes)
        unsafe pthread_condattr_destroy(&attributes)
        precondition(result == 0, "pthread_cond_init failed")
    }

    deinit {
        unsafe pthread_cond_destroy(condition)
        unsafe condition.deinitialize(count: 1)
        unsafe condition.deallocate()
    }

    /// Wakes every waiter.
    package func broadcast() {
        unsafe pthread_cond_broadcast(condition)
    }

    /// Waits with `mutex` held; false when `deadline` has passed.
    fileprivate func wait(_ mutex: UnsafeMutablePointer<pthread_mutex_t>, until deadline: UInt64?) -> Bool {
        guard let deadline else {
            unsafe pthread_cond_wait(condition, mutex)
            return true
        }
        var time = timespec(
            tv_sec: Int(deadline / 1_000_000_000), tv_nsec: Int(deadline % 1_000_000_000))
        return unsafe pthread_cond_timedwait(condition, mutex, &time) != ETIMEDOUT
    }
}

/// Nanoseconds on CLOCK_MONOTONIC, which `Lock.wait` uses for deadlines.
package func monotonicNanoseconds() -> UInt64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

/// The time that a processor has spent on this thread, in nanoseconds.
package func threadNanoseconds() -> UInt64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

/// The time between two readings of one clock; 0 if `end` was read before `start`.
///
/// Two threads can read the clock in one order and take a lock in the other. A negative difference would trap.
package func nanoseconds(from start: UInt64, to end: UInt64) -> UInt64 { end > start ? end - start : 0 }
