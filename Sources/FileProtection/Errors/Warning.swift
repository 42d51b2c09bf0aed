// Writes a warning to standard error, and never ends or delays the program.

import CLibrary

/// `FileHandle.write` of Foundation on Linux ends the process if standard error is closed or full. A warning that cannot
/// be written is left out.
package enum Warning {
    /// Writes a line. Call it without a lock, because a terminal may be slow.
    package static func write(_ line: String, to descriptor: Int32 = 2) {
        // A pipe that can be written has room for this many bytes.
        let bytes = Array((line + "\n").utf8.prefix(4096))
        var place = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        guard unsafe poll(&place, 1, 0) == 1, place.revents & Int16(POLLOUT) != 0 else { return }
        var (pipe, before, pending) = (sigset_t(), sigset_t(), sigset_t())
        unsafe sigemptyset(&pipe)
        unsafe sigaddset(&pipe, SIGPIPE)
        unsafe sigpending(&pending)
        guard unsafe pthread_sigmask(SIG_BLOCK, &pipe, &before) == 0 else { return }
        if unsafe CLibrary.write(descriptor, bytes, bytes.count) < 0, errno == EPIPE,
            unsafe sigismember(&pending, SIGPIPE) == 0
        {
            // The signal of this write. One that was pending before belongs to the program.
            var none = timespec()
            _ = unsafe sigtimedwait(&pipe, nil, &none)
        }
        unsafe pthread_sigmask(SIG_SETMASK, &before, nil)
    }
}
