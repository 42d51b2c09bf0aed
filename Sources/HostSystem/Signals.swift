// Waits for signals in one thread, and protects a process that holds secrets.

import CLibrary
import CLinuxShim

/// A set of signals that every thread blocks and one thread waits for.
package struct SignalSet: Sendable {
    private let numbers: [Int32]

    /// Blocks `numbers` in the calling thread and in the threads that it starts later. Call it before starting a
    /// thread.
    package init(blocking numbers: [Int32]) {
        self.numbers = numbers
        var set = sigset_t()
        unsafe sigemptyset(&set)
        for number in numbers { unsafe sigaddset(&set, number) }
        unsafe pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// A descriptor that is ready while a signal of the set is pending. `wait` takes the signal.
    package func descriptor() throws(SystemError) -> Descriptor {
        var set = sigset_t()
        unsafe sigemptyset(&set)
        for number in numbers { unsafe sigaddset(&set, number) }
        let result = unsafe pfs_signal_descriptor(&set)
        guard result >= 0 else { throw .last("signalfd") }
        return Descriptor(taking: result)
    }

    /// Waits for the next signal of the set; nil if `timeout` (in seconds) passes first.
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

/// Whether this process was started to ignore a signal, as by nohup(1), or ignores it since.
package func isIgnored(_ signal: Int32) -> Bool {
    var action = sigaction()
    return unsafe sigaction(signal, nil, &action) == 0 && pfs_is_ignored(&action) != 0
}

/// Settings of a process that holds keys, made at its start (prctl(2), setrlimit(2)).
package enum ProcessHardening {
    /// Forbids memory dumps, core files and backtraces, and ignores SIGPIPE so that writing to a closed pipe fails with
    /// EPIPE.
    package static func apply() throws(SystemError) {
        guard pfs_make_undumpable() == 0 else { throw .last("prctl") }
        guard pfs_forbid_core_files() == 0 else { throw .last("setrlimit") }
        // Swift's runtime installs a backtracer if it finds one. The backtracer prints registers and the memory that
        // they point to. It cannot work on a process that is not dumpable, so a crashed daemon would hang together with
        // its mount.
        pfs_forget_crash_handlers()
        signal(SIGPIPE, SIG_IGN)
    }

    /// Opens missing standard streams on /dev/null. Otherwise the first file that the process opens would take the
    /// number of a stream: the program would write to it, or replace it when it leaves the terminal. Every command
    /// calls this before it opens anything. False if /dev/null cannot be opened.
    package static func openStandardStreams() -> Bool { pfs_open_standard_streams() == 0 }

    /// Raises the soft limit of open files to the hard one.
    package static func raiseOpenFiles() { _ = pfs_raise_open_files() }

    /// Takes the limits of file sizes and processor time away, or raises them to the hard ones. They are meant for the programs of
    /// a session, and would end a process that serves others, or refuse what those write.
    /// - Returns: what stays limited, for a person.
    package static func liftLimits() -> [String] {
        let finite = pfs_lift_limits()
        return (finite & 1 != 0 ? ["the size of files (ulimit -Hf)"] : [])
            + (finite & 2 != 0 ? ["processor time (ulimit -Ht)"] : [])
    }

    /// Closes all inherited descriptors from `first` on, which would otherwise stay open as long as the process lives.
    /// Call it before opening anything.
    package static func closeInherited(from first: Int32) { _ = pfs_close_from(first) }

    /// Returns free memory to the kernel. A password hash leaves half a MiB in the heap arena of its thread, and in
    /// time in all arenas.
    package static func trimHeap() { pfs_trim_heap() }

    /// Has the C library overwrite all memory that is freed, also by libraries that move what they enlarge. It starts the program
    /// again in this process, so nothing may have been done yet, and no argument be hidden.
    package static func wipeFreedMemory() { unsafe pfs_wipe_freed_memory(CommandLine.unsafeArgv) }

    /// Writes stars over an argument of this process, from a given byte on, because any user can read the arguments of
    /// a running process. `index` 0 is the program's name.
    package static func hideArgument(_ index: Int, from byte: Int) { pfs_hide_argument(index, byte) }

    /// Sets the process name that ps(1) and top(1) show, at most 15 bytes.
    package static func setName(_ name: String) {
        _ = unsafe HostPath(name).withCString { unsafe pfs_set_process_name($0) }
    }
}

/// Writes to the system log (syslog(3)).
package enum SystemLog {
    /// The severity of a line.
    package enum Level: Int32, Sendable { case error = 3, warning = 4, notice = 5, info = 6 }

    /// Writes one line. It does not interpret a newline in it.
    package static func write(_ level: Level, _ line: String) {
        unsafe HostPath(line).withCString { unsafe pfs_syslog(level.rawValue, $0) }
    }
}
