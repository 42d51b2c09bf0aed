// A readers-writer lock that owns the value it guards.

public import CLibrary

/// A lock for many readers or one writer, around the value that it guards. It prefers writers, so that readers cannot
/// delay a lock of the volume for ever (pthread_rwlockattr_setkind_np(3)).
///
/// The lock is not recursive. A reader that takes it again while a writer waits would deadlock.
@safe @usableFromInline package final class RWLock<Value: ~Copyable>: @unchecked Sendable {
    @usableFromInline let lock: UnsafeMutablePointer<pthread_rwlock_t>
    @usableFromInline var guarded: Guarded<Value>

    /// Makes an unlocked lock around `value`.
    package init(_ value: consuming sending Value) {
        unsafe lock = .allocate(capacity: 1)
        unsafe lock.initialize(to: pthread_rwlock_t())
        guarded = Guarded(value: value)
        precondition(unsafe initializeWritersLock(lock) == 0, "pthread_rwlock_init failed")
    }

    deinit {
        unsafe pthread_rwlock_destroy(lock)
        unsafe lock.deinitialize(count: 1)
        unsafe lock.deallocate()
    }

    /// Runs `body` with the value. Other readers may run at the same time.
    @inlinable package func withReadLock<Result: ~Copyable, Failure: Error>(
        _ body: (borrowing Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        unsafe pthread_rwlock_rdlock(lock)
        defer { unsafe pthread_rwlock_unlock(lock) }
        return try body(guarded.value)
    }

    /// Runs `body` with exclusive access to the value.
    @inlinable package func withWriteLock<Result: ~Copyable, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        unsafe pthread_rwlock_wrlock(lock)
        defer { unsafe pthread_rwlock_unlock(lock) }
        return try body(&guarded.value)
    }
}
