// Threads for connections: detached, with all signals blocked and a small stack.

import Glibc

private final class Work {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
}

/// Runs `body` in a thread of its own; false when none can be made.
func startThread(_ body: @escaping @Sendable () -> Void) -> Bool {
    var attributes = pthread_attr_t()
    unsafe pthread_attr_init(&attributes)
    unsafe pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
    // Enough for a password hash's clean-up of 64 KiB of stack; many connections must not cost much.
    unsafe pthread_attr_setstacksize(&attributes, 512 << 10)
    defer { unsafe pthread_attr_destroy(&attributes) }
    let work = unsafe Unmanaged.passRetained(Work(body))
    var thread = pthread_t()
    let result = unsafe pthread_create(
        &thread, &attributes,
        { argument in
            guard let argument = unsafe argument else { return nil }
            // The reference made above for this thread.
            let work = unsafe Unmanaged<Work>.fromOpaque(argument).takeRetainedValue()
            var all = sigset_t()
            unsafe sigfillset(&all)
            unsafe pthread_sigmask(SIG_BLOCK, &all, nil)
            work.body()
            return nil
        }, unsafe work.toOpaque())
    guard result == 0 else {
        unsafe work.release()
        return false
    }
    return true
}
