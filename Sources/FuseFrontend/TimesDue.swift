// Which files' new times the kernel has still to send, and on behalf of which thread.

internal import Locks
internal import Synchronization

/// Finds files on which the kernel keeps an error that is nobody's.
///
/// After a change of a file's names or attributes a kernel that owns times sends the new one as SETATTR, on behalf of the
/// thread that made the change. Where that is killed before a worker has the request, the kernel drops it and keeps EIO in the
/// inode (`fuse_flush_time_update`, `mapping_set_error`): the next read past the page cache says it, or the next close,
/// whoever asks. So a file whose SETATTR did not come is opened and closed by the helper before anybody else opens it.
/// (fsync says it as well, once: that record also tells of pages that were lost, and is left alone.)
final class TimesDue: Sendable {
    /// By node number: the threads that changed the file and whose SETATTR is not there.
    private let threads = Lock([UInt64: Set<Int32>]())
    /// Files in `threads`, so that nobody takes its lock where there are none.
    private let count = Atomic<Int>(0)

    /// A SETATTR for the file will come from `thread`, if that lives.
    func add(_ number: UInt64, _ thread: Int32) {
        threads.withLock { threads in
            threads[number, default: []].insert(thread)
            count.store(threads.count, ordering: .releasing)
        }
    }

    /// It has come.
    func settle(_ number: UInt64, _ thread: Int32) {
        guard count.load(ordering: .acquiring) > 0 else { return }
        threads.withLock { threads in
            guard threads[number]?.remove(thread) != nil else { return }
            if threads[number]?.isEmpty == true { threads[number] = nil }
            count.store(threads.count, ordering: .releasing)
        }
    }

    /// Forgets the file; whether a SETATTR for it was missing.
    func remove(_ number: UInt64) -> Bool {
        guard count.load(ordering: .acquiring) > 0 else { return false }
        return threads.withLock { threads in
            defer { count.store(threads.count, ordering: .releasing) }
            return threads.removeValue(forKey: number) != nil
        }
    }
}
