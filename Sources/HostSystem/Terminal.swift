// Uses the terminal: reads lines, with or without echo.

import CLibrary
import CLinuxShim
import Synchronization

/// The controlling terminal and the standard streams.
package enum Terminal {
    /// True if the stream (0, 1 or 2) is a terminal.
    package static func isTerminal(_ stream: Int32) -> Bool { isatty(stream) == 1 }

    /// The longest line that `ask` reads, in bytes.
    private static let longestLine = 4096

    /// Shows `question` on the controlling terminal and reads one line with echo, at most 4,096 bytes.
    ///
    /// - Throws: ENXIO or ENOTTY without a terminal.
    package static func ask(_ question: String) throws(SystemError) -> [UInt8] {
        let terminal = try Descriptor(opening: HostPath("/dev/tty"), O_RDWR | O_NOCTTY)
        guard isatty(terminal.number) == 1 else { throw .last("isatty", "/dev/tty") }
        try terminal.write(question)
        var line = [UInt8](repeating: 0, count: longestLine)
        var bytes = line.mutableSpan
        let count = try readLine(from: terminal, into: &bytes)
        return Array(line.prefix(count))
    }

    /// Reads one line byte by byte, so that the bytes after it remain in the stream.
    ///
    /// - Parameters:
    ///   - deadline: the time (CLOCK_MONOTONIC, in nanoseconds) after which reading ends with ETIMEDOUT.
    ///   - wait: runs before each read. Its failure ends reading.
    package static func readLine(
        from descriptor: borrowing Descriptor, into buffer: inout MutableSpan<UInt8>, deadline: UInt64? = nil,
        wait: () throws(SystemError) -> Void = {}
    ) throws(SystemError) -> Int {
        var count = 0
        while true {
            var byte: UInt8 = 0
            if let deadline { try descriptor.waitForInput(until: deadline) }
            try wait()
            let got = unsafe CLibrary.read(descriptor.number, &byte, 1)
            if got < 0 {
                if errno == EINTR { continue }
                throw .last("read")
            }
            if got == 0 {
                if count == 0 { throw SystemError(code: EPIPE, call: "read") }
                return count
            }
            if byte == UInt8(ascii: "\n") { return count }
            guard count < buffer.count else { throw SystemError(code: E2BIG, call: "read") }
            buffer[count] = byte
            count += 1
        }
    }
}

/// The controlling terminal without echo, as long as this value lives.
///
/// The keys of the terminal, whichever they are, send their signals, and other processes may send the same. A signal is taken only
/// while `read` waits. It restores echo before it stops the process; one that ends it makes `read` fail, and `raiseCaught` has its
/// effect when the caller has cleaned up. A shell that continues the process has set the terminal as it likes, so echo is then
/// turned off again.
package struct QuietTerminal: ~Copyable {
    private static let deadly = [
        SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGALRM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGPROF, SIGXCPU, SIGPWR,
    ]
    private static let stopping = [SIGTSTP, SIGTTIN, SIGTTOU]
    private static let signals = deadly + stopping + [SIGCONT]
    /// The signal that came; 0 if none did.
    private static let caught = Atomic<Int32>(0)
    /// Whether a signal has ended a prompt.
    package static var hasSignal: Bool { caught.load(ordering: .relaxed) != 0 }

    private let terminal: Descriptor
    private let original: termios
    private let outside: SignalState

    /// What the signals did, and which were blocked.
    private struct SignalState {
        var actions: [(signal: Int32, action: sigaction)] = []
        var mask = sigset_t()

        /// Blocks the signals and catches them, except those that this process was started to ignore.
        static func take() -> SignalState {
            var state = SignalState()
            var blocked = sigset_t()
            unsafe sigemptyset(&blocked)
            for signal in signals { unsafe sigaddset(&blocked, signal) }
            unsafe pthread_sigmask(SIG_BLOCK, &blocked, &state.mask)
            for signal in signals {
                var before = sigaction()
                unsafe sigaction(signal, nil, &before)
                if unsafe pfs_is_ignored(&before) != 0 { continue }
                pfs_handle_signal(signal) { number in
                    // One that ends the process is never forgotten for another one.
                    switch number {
                    case SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT:
                        _ = QuietTerminal.caught.compareExchange(expected: 0, desired: number, ordering: .relaxed)
                    default: QuietTerminal.caught.store(number, ordering: .relaxed)
                    }
                }
                state.actions.append((signal, before))
            }
            return state
        }

        func restore() {
            for (signal, action) in actions {
                var action = action
                unsafe sigaction(signal, &action, nil)
            }
            var mask = mask
            unsafe pthread_sigmask(SIG_SETMASK, &mask, nil)
        }
    }

    /// Turns echo off.
    ///
    /// - Throws: ENXIO or ENOTTY without a terminal.
    package static func open() throws(SystemError) -> QuietTerminal {
        let terminal = try Descriptor(opening: HostPath("/dev/tty"), O_RDWR | O_NOCTTY)
        var original = termios()
        waitForForeground(terminal.number)
        guard unsafe tcgetattr(terminal.number, &original) == 0 else { throw .last("tcgetattr", "/dev/tty") }
        let quiet = QuietTerminal(terminal, original)
        try quiet.beQuiet()
        return quiet
    }

    private init(_ terminal: consuming Descriptor, _ original: termios) {
        self.terminal = terminal
        self.original = original
        // The variable exists before the handler can run. A signal that has ended an earlier prompt ends this one.
        _ = Self.hasSignal
        outside = .take()
    }

    deinit {
        Self.beLoud(terminal.number, original)
        outside.restore()
    }

    private func beQuiet() throws(SystemError) {
        var quiet = original
        quiet.c_lflag &= ~tcflag_t(ECHO)
        quiet.c_lflag |= tcflag_t(ICANON | IEXTEN | ISIG)
        guard unsafe tcsetattr(terminal.number, TCSAFLUSH, &quiet) == 0 else { throw .last("tcsetattr", "/dev/tty") }
    }

    /// Whether the terminal is this process's. A shell takes it when the process is stopped.
    private static func isInForeground(_ number: Int32) -> Bool {
        let group = tcgetpgrp(number)
        return group < 0 || group == getpgrp()
    }

    /// In the background, stops this process until it is in the foreground. No signal may be blocked, so that it can be ended.
    private static func waitForForeground(_ number: Int32) {
        // Once: if nothing stops it, as without a shell's job control, setting the terminal says what is wrong.
        if !isInForeground(number) { raise(SIGTTOU) }
    }

    /// Restores echo, unless the terminal is a shell's by now.
    private static func beLoud(_ number: Int32, _ original: termios) {
        guard isInForeground(number) else { return }
        var original = original
        unsafe tcsetattr(number, TCSAFLUSH, &original)
    }

    /// Shows `prompt` and reads one line into `buffer`. The line's bytes enter no memory but `buffer`. The newline is not stored.
    ///
    /// - Throws: E2BIG if the line is longer than the buffer, EPIPE if the input ends before a newline, and EINTR after a signal
    ///   that ends the process.
    package func read(prompt: String, into buffer: inout MutableSpan<UInt8>) throws(SystemError) -> Int {
        while true {
            try terminal.write(prompt)
            do throws(SystemError) {
                let number = terminal.number
                var mask = outside.mask
                let count = try Terminal.readLine(from: terminal, into: &buffer) { () throws(SystemError) in
                    // Only here are the signals not blocked, so none comes between the look at `caught` and the wait.
                    while unsafe pfs_wait_for_input(number, &mask) < 0, errno == EINTR, !Self.hasSignal {}
                    if Self.hasSignal { throw SystemError(code: EINTR, call: "read") }
                }
                try? terminal.write("\n")
                return count
            } catch {
                try? terminal.write("\n")
                let signal = Self.caught.load(ordering: .relaxed)
                guard Self.stopping.contains(signal) || signal == SIGCONT else { throw error }
                Self.caught.store(0, ordering: .relaxed)
                try pause(signal)
            }
        }
    }

    /// Stops this process, as the signal would have done, until something continues it. After SIGCONT it was stopped already.
    private func pause(_ signal: Int32) throws(SystemError) {
        if signal != SIGCONT { Self.beLoud(terminal.number, original) }
        outside.restore()
        if signal != SIGCONT { raise(signal) }
        Self.waitForForeground(terminal.number)
        _ = SignalState.take()
        try beQuiet()
    }

    /// Lets the signal that has ended a prompt, if one has, end the process.
    package static func raiseCaught() {
        let signal = caught.exchange(0, ordering: .relaxed)
        if signal != 0 { raise(signal) }
    }
}

extension Descriptor {
    /// Waits until something can be read, or the other end is closed.
    ///
    /// - Parameter deadline: CLOCK_MONOTONIC, in nanoseconds.
    /// - Throws: ETIMEDOUT.
    package borrowing func waitForInput(until deadline: UInt64) throws(SystemError) {
        while true {
            let now = monotonicNanoseconds()
            guard now < deadline else { throw SystemError(code: ETIMEDOUT, call: "poll") }
            var input = pollfd(fd: number, events: Int16(POLLIN), revents: 0)
            let left = Int32(clamping: (deadline - now) / 1_000_000 + 1)
            if unsafe poll(&input, 1, left) > 0 { return }
        }
    }
}
