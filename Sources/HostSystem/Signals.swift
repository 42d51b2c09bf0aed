// Signals taken synchronously by one thread, and what a process that holds secrets sets at its start.

import CLinuxShim
import Glibc

/// A set of signals that are blocked in every thread and waited for in one.
package struct SignalSet: Sendable {
    private let numbers: [Int32]

    /// Blocks `numbers` in the calling thread and those it starts later: call before the first thread is made.
    package init(blocking numbers: [Int32]) {
        self.numbers = numbers
        var set = sigset_t()
        unsafe sigemptyset(&set)
        for number in numbers { unsafe sigaddset(&set, number) }
        unsafe pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// Waits for the next of them; nil when `timeout` (seconds) has passed.
    package func wait(timeout: Int? = nil) -> Int32? {
        var set = sigset_t()
        unsafe sigemptyset(&set)
        for number in numbers { unsafe sigaddset(&set, number) }
        while true {
            let got: Int32
            if let timeout {
                var limit = timespec(tv_sec: timeout, tv_nsec: 0)
                got = unsafe sigtimedwait(&set, nil, &limit)
            } else {
                got = unsafe sigwaitinfo(&set, nil)
            }
            if got > 0 { return got }
            if errno != EINTR { return nil }
        }
    }
}

/// What a process that holds keys does first (prctl(2), setrlimit(2)).
package enum ProcessHardening {
    /// Makes the process undumpable and without core files or backtraces; EPIPE comes as an error and not as a signal.
    package static func apply() throws(SystemError) {
        guard pfs_make_undumpable() == 0 else { throw .last("prctl") }
        guard pfs_forbid_core_files() == 0 else { throw .last("setrlimit") }
        // Swift's runtime installs a backtracer where it finds one. It prints registers and the memory that they point to,
        // and it cannot work on a process that is not dumpable: a daemon that crashed would hang, and its mount with it.
        pfs_forget_crash_handlers()
        signal(SIGPIPE, SIG_IGN)
    }

    /// Opens the standard streams that the process was started without: else the first file that it opens would be taken
    /// for one of them, be written to, or be replaced when the terminal is left. Before anything is opened, in every
    /// command. False where there is no /dev/null to open.
    package static func openStandardStreams() -> Bool { pfs_open_standard_streams() == 0 }

    /// Raises the soft limit of open files to the hard one.
    package static func raiseOpenFiles() { _ = pfs_raise_open_files() }

    /// Closes what the process was started with from descriptor `first` on: it would be held as long as the process lives.
    /// Before anything is opened.
    package static func closeInherited(from first: Int32) { _ = pfs_close_from(first) }

    /// Gives free memory back to the kernel: a password hash leaves half a MiB in whichever of the heap's arenas its thread
    /// was given, and in time in all of them.
    package static func trimHeap() { pfs_trim_heap() }

    /// Writes stars over an argument that this process was started with, from a byte of it on: any user may read the
    /// arguments of every process for as long as it lives. `index` 0 is the program's name.
    package static func hideArgument(_ index: Int, from byte: Int) { pfs_hide_argument(index, byte) }

    /// Sets the name that ps(1) and top(1) show, at most 15 bytes.
    package static func setName(_ name: String) {
        _ = unsafe HostPath(name).withCString { unsafe pfs_set_process_name($0) }
    }
}

/// syslog(3) of one line.
package enum SystemLog {
    /// How serious a line is.
    package enum Level: Int32, Sendable { case error = 3, warning = 4, notice = 5, info = 6 }

    /// Writes one line; a newline in it is not interpreted.
    package static func write(_ level: Level, _ line: String) {
        unsafe HostPath(line).withCString { unsafe pfs_syslog(level.rawValue, $0) }
    }
}
