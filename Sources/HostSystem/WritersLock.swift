// What `RWLock` cannot have: an inlinable type sees every import of its file.

internal import CLibrary
internal import CLinuxShim

/// Initialises a lock that prefers writers.
/// - Returns: 0, or an errno.
func initializeWritersLock(_ lock: UnsafeMutablePointer<pthread_rwlock_t>) -> Int32 {
    unsafe pfs_init_writers_lock(lock)
}
