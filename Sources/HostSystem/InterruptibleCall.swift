// A system call that waits, and that another thread can end.

internal import CLibrary
internal import CLinuxShim

/// A system call that waits for long, in a thread of its own. Another thread can end it.
///
/// The thread must receive `InterruptibleCall.signal`, and the call must return EINTR after it.
package final class InterruptibleCall: Sendable {
    /// Interrupts a call. Its handler does nothing.
    package static let signal: Int32 = {
        pfs_handle_signal(SIGURG) { _ in }
        return SIGURG
    }()

    // In Musl the number of a thread is a pointer.
    private struct State: @unchecked Sendable {
        var thread: pthread_t?
        var isCancelled = false
        var isDone = false
    }
    private let state = Lock(State())

    /// A call that has not begun.
    package init() {}

    /// Whether it is over.
    package var isDone: Bool { state.withLock { $0.isDone } }

    /// Decides that the call is to end. `wake` must follow until it is over.
    package func cancel() { state.withLock { $0.isCancelled = true } }

    /// Wakes the thread, once. A signal that comes just before the call begins has no effect.
    package func wake() {
        // The thread cannot end while the lock is held and the state has its number.
        state.withLock { state in
            if let thread = state.thread { pthread_kill(thread, Self.signal) }
        }
    }

    /// Runs the call, in the calling thread, until it succeeds, fails or is to end. Call it once.
    /// - Returns: its error, EINTR if it was ended, nil if it succeeded.
    package func run(_ call: () throws(Errno) -> Void) -> Errno? {
        state.withLock { $0.thread = pthread_self() }
        defer {
            state.withLock { state in
                state.thread = nil
                state.isDone = true
            }
        }
        while true {
            if state.withLock({ $0.isCancelled }) { return .EINTR }
            do throws(Errno) {
                try call()
                return nil
            } catch {
                guard error == .EINTR else { return error }
            }
        }
    }

    /// The call will not begin.
    package func giveUp() { state.withLock { $0.isDone = true } }
}
