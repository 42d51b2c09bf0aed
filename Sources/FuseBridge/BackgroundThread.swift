// A named thread that runs one closure to its end, with all signals blocked.
// pthread gives the pointers unwrapped here in every case.
// swift-format-ignore-file: NeverForceUnwrap

internal import CLinuxShim
internal import Glibc

/// A thread beside the workers: notifier, helper, timer.
@safe public final class BackgroundThread: @unchecked Sendable {
    private let body: @Sendable () -> Void
    private let name: String
    private var thread: pthread_t?

    /// Starts a thread that runs `body`; nil when none can be made.
    /// - Parameter name: at most 15 bytes.
    public init?(name: String, _ body: @escaping @Sendable () -> Void) {
        self.body = body
        self.name = name
        var thread = pthread_t()
        let context = unsafe Unmanaged.passRetained(self).toOpaque()
        let result = unsafe pthread_create(
            &thread, nil,
            { context in
                // The reference made above for this thread.
                let me = unsafe Unmanaged<BackgroundThread>.fromOpaque(context!).takeRetainedValue()
                blockSignals()
                unsafe pfs_name_thread(me.name)
                me.body()
                return nil
            }, context)
        guard result == 0 else {
            unsafe Unmanaged<BackgroundThread>.fromOpaque(context).release()
            return nil
        }
        self.thread = thread
    }

    /// Waits until the closure has returned. At most one caller, once.
    public func join() {
        guard let thread else { return }
        pthread_join(thread, nil)
        self.thread = nil
    }

    /// The calling thread's number, as `Request.process` names it.
    public static var currentNumber: Int32 { pfs_thread_id() }

    deinit {
        if let thread { pthread_detach(thread) }
    }
}

/// Signals are the main thread's.
func blockSignals(except signal: Int32? = nil) {
    var all = sigset_t()
    unsafe sigfillset(&all)
    if let signal { unsafe sigdelset(&all, signal) }
    unsafe pthread_sigmask(SIG_BLOCK, &all, nil)
}

/// Sleeps for `milliseconds`.
public func sleep(milliseconds: UInt32) {
    usleep(milliseconds * 1000)
}
