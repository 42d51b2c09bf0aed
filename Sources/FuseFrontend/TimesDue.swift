// Which files' new times the kernel has still to send, and on behalf of which thread.

internal import HostSystem
internal import Synchronization

/// Finds files on which the kernel keeps an error that is nobody's.
///
/// After a change of a file's names or attributes a kernel that owns times sends the new one as SETATTR, on behalf of the
/// thread that made the change. Where that is killed before a worker has the request, the kernel drops it and keeps EIO in the
/// inode (`fuse_flush_time_update`, `mapping_set_error`): the next read past the page cache says it, or the next close,
/// whoever asks. So a file whose SETATTR did not come is opened and closed by the helper before anybody else opens it.
/// (fsync says it as well, once: that record also tells of pages that were lost, and is left alone.)
///
/// By the same record a SETATTR with the kernel's own time is told from one with a program's: it comes before the change
/// returns to the thread, and so before anything else that the thread may ask for.
final class TimesDue: Sendable {
    private struct State: Sendable {
        /// By node number: the threads that changed the file and whose SETATTR is not there, and which change that was.
        var threads: [UInt64: [Int32: UInt64]] = [:]
        /// Changes so far, which numbers them.
        var changes: UInt64 = 0
    }
    private let state = Lock(State())
    /// Files in `threads`, so that nobody takes the lock where there are none.
    private let count = Atomic<Int>(0)

    /// A SETATTR for the file will come from `thread`, if that lives.
    func add(_ number: UInt64, _ thread: Int32) {
        state.withLock { state in
            state.changes += 1
            state.threads[number, default: [:]][thread] = state.changes
            count.store(state.threads.count, ordering: .releasing)
        }
    }

    /// It has come; whether it was due, and so the kernel's own and not a program's.
    func settle(_ number: UInt64, _ thread: Int32) -> Bool {
        guard count.load(ordering: .acquiring) > 0 else { return false }
        return state.withLock { state in
            guard state.threads[number]?.removeValue(forKey: thread) != nil else { return false }
            if state.threads[number]?.isEmpty == true { state.threads[number] = nil }
            count.store(state.threads.count, ordering: .releasing)
            return true
        }
    }

    /// The last of the changes that a SETATTR for the file may be missing of; nil where none is.
    func lastChange(_ number: UInt64) -> UInt64? {
        guard count.load(ordering: .acquiring) > 0 else { return nil }
        return state.withLock { $0.threads[number]?.values.max() }
    }

    /// Forgets what changes of the file until `change`, or all, are missing.
    func remove(_ number: UInt64, until change: UInt64 = .max) {
        guard count.load(ordering: .acquiring) > 0 else { return }
        state.withLock { state in
            guard let left = state.threads[number]?.filter({ $0.value > change }) else { return }
            state.threads[number] = left.isEmpty ? nil : left
            count.store(state.threads.count, ordering: .releasing)
        }
    }
}
