// An answer that waits for something outside, and that a signal to the program ends.

internal import CFuse3
internal import CLibrary
internal import HostSystem

/// An answer that another thread gives later. The kernel says when a signal has reached the program that waits for it.
package final class WaitingReply: @unchecked Sendable {
    private let reply: Lock<Reply?>
    private let interrupted: @Sendable () -> Void

    /// Takes the reply over. It must be taken out and answered before the session is closed.
    /// - Parameter interrupted: is called by a worker, now or later. It must be quick, and must not take the reply.
    package init(_ reply: consuming Reply, interrupted: @escaping @Sendable () -> Void) {
        let request = unsafe reply.request
        self.reply = Lock(reply)
        self.interrupted = interrupted
        // `take` releases it.
        let me = unsafe Unmanaged.passRetained(self).toOpaque()
        unsafe fuse_req_interrupt_func(
            request,
            { _, me in
                guard let me = unsafe me else { return }
                unsafe Unmanaged<WaitingReply>.fromOpaque(me).takeUnretainedValue().interrupted()
            }, me)
    }

    /// The reply. Only the first caller gets it. No call of `interrupted` runs or follows then.
    package func take() -> Reply? {
        guard let reply = self.reply.withLock({ $0.take() }) else { return nil }
        // libfuse holds the request's lock during a call, so this waits for one that runs.
        unsafe fuse_req_interrupt_func(reply.request, nil, nil)
        unsafe Unmanaged.passUnretained(self).release()
        return reply
    }
}
