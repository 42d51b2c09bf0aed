// Starts every thread of this package. A thread has a name, blocks signals and runs one closure.
// The pointers that are unwrapped here are never null, because pthread provides them.
// swift-format-ignore-file: NeverForceUnwrap

internal import CLibrary
internal import CLinuxShim
internal import Synchronization

/// A thread. It continues to run when this object is released.
@safe package final class BackgroundThread: @unchecked Sendable {
    private let body: @Sendable () -> Void
    private let name: String
    private let signal: Int32?
    private var thread: pthread_t?
    private static let failures = Atomic<Int>(0)

    /// The number of threads that the system has refused to this process.
    package static var failureCount: Int { failures.load(ordering: .relaxed) }

    /// Whether the system would make this many more threads now. Makes them, and ends them.
    package static func canStart(_ count: Int) -> Bool {
        let gate = Gate()
        var threads: [BackgroundThread] = []
        while threads.count < count {
            let thread = BackgroundThread(name: "trial", stackSize: 64 << 10) { gate.wait() }
            guard let thread else { break }
            threads.append(thread)
        }
        gate.open()
        for thread in threads { thread.join() }
        return threads.count == count
    }

    /// Starts a thread that runs `body`; nil if the system cannot make one.
    /// - Parameters:
    ///   - name: at most 15 bytes.
    ///   - stackSize: in bytes; nil for the system's default.
    ///   - signal: the one signal that the thread receives. The main thread receives all others.
    package init?(
        name: String, stackSize: Int? = nil, receiving signal: Int32? = nil, _ body: @escaping @Sendable () -> Void
    ) {
        self.body = body
        self.name = name
        self.signal = signal
        var attributes = pthread_attr_t()
        unsafe pthread_attr_init(&attributes)
        if let stackSize { unsafe pthread_attr_setstacksize(&attributes, stackSize) }
        defer { unsafe pthread_attr_destroy(&attributes) }
        var thread = pthread_t()
        let context = unsafe Unmanaged.passRetained(self).toOpaque()
        let result = unsafe pthread_create(
            &thread, &attributes,
            { context in
                // This takes the reference that `passRetained` made above.
                let me = unsafe Unmanaged<BackgroundThread>.fromOpaque(context!).takeRetainedValue()
                me.run()
                return nil
            }, context)
        guard result == 0 else {
            unsafe Unmanaged<BackgroundThread>.fromOpaque(context).release()
            Self.failures.add(1, ordering: .relaxed)
            return nil
        }
        self.thread = thread
    }

    private func run() {
        var blocked = sigset_t()
        unsafe sigfillset(&blocked)
        if let signal { unsafe sigdelset(&blocked, signal) }
        unsafe pthread_sigmask(SIG_SETMASK, &blocked, nil)
        unsafe pfs_name_thread(name)
        body()
    }

    /// Waits until the closure has returned. Call it at most once.
    package func join() {
        guard let thread else { return }
        pthread_join(thread, nil)
        self.thread = nil
    }

    /// The calling thread's ID (gettid(2)), which `Request.process` holds.
    package static var currentNumber: Int32 { pfs_thread_id() }

    deinit {
        if let thread { pthread_detach(thread) }
    }
}

/// Sleeps for `milliseconds`.
package func sleep(milliseconds: UInt32) {
    sleep(microseconds: milliseconds * 1000)
}

/// Sleeps for `microseconds`.
package func sleep(microseconds: UInt32) {
    usleep(microseconds)
}
