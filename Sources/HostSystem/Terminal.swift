// Uses the terminal: reads lines, with or without echo.

import CLinuxShim
import Glibc
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
    ///   - keys: bytes that end reading, each with its errno.
    ///   - deadline: the time (CLOCK_MONOTONIC, in nanoseconds) after which reading ends with ETIMEDOUT.
    package static func readLine(
        from descriptor: borrowing Descriptor, into buffer: inout MutableSpan<UInt8>, keys: [UInt8: Int32] = [:],
        deadline: UInt64? = nil
    ) throws(SystemError) -> Int {
        var count = 0
        while true {
            var byte: UInt8 = 0
            if let deadline { try descriptor.waitForInput(until: deadline) }
            let got = unsafe Glibc.read(descriptor.number, &byte, 1)
            if got < 0 {
                if errno == EINTR, !QuietTerminal.hasSignal { continue }
                throw .last("read")
            }
            if got == 0 {
                if count == 0 { throw SystemError(code: EPIPE, call: "read") }
                return count
            }
            if let code = keys[byte] { throw SystemError(code: code, call: "read") }
            if byte == UInt8(ascii: "\n") { return count }
            guard count < buffer.count else { throw SystemError(code: E2BIG, call: "read") }
            buffer[count] = byte
            count += 1
        }
    }
}

/// The controlling terminal without echo, as long as this value lives.
///
/// Echo is restored before a signal ends the process, and while ^Z has stopped it.
package struct QuietTerminal: ~Copyable {
    /// The keys that a terminal sends for ^C and ^Z.
    private static let (interruptKey, suspendKey): (UInt8, UInt8) = (3, 26)
    private static let signals = [SIGHUP, SIGINT, SIGQUIT, SIGTERM]
    /// The signal that came; 0 if none did.
    private static let caught = Atomic<Int32>(0)
    static var hasSignal: Bool { caught.load(ordering: .relaxed) != 0 }

    private let terminal: Descriptor
    private let original: termios
    /// What the signals did before.
    private let actions: [sigaction]

    /// Turns echo off.
    ///
    /// - Throws: ENXIO or ENOTTY without a terminal.
    package static func open() throws(SystemError) -> QuietTerminal {
        let terminal = try Descriptor(opening: HostPath("/dev/tty"), O_RDWR | O_NOCTTY)
        var original = termios()
        guard unsafe tcgetattr(terminal.number, &original) == 0 else { throw .last("tcgetattr", "/dev/tty") }
        let quiet = QuietTerminal(terminal, original)
        try quiet.beQuiet()
        return quiet
    }

    private init(_ terminal: consuming Descriptor, _ original: termios) {
        self.terminal = terminal
        self.original = original
        // The variable exists before the handler can run.
        Self.caught.store(0, ordering: .relaxed)
        var action = sigaction()
        unsafe action.__sigaction_handler.sa_handler = { number in
            QuietTerminal.caught.store(number, ordering: .relaxed)
        }
        actions = Self.signals.map { number in
            var before = sigaction()
            unsafe sigaction(number, &action, &before)
            return before
        }
    }

    deinit {
        Self.restore(terminal.number, original, actions)
    }

    private func beQuiet() throws(SystemError) {
        var quiet = original
        // Without ISIG, ^C and ^Z are read as bytes. VEOL and VEOL2 make them end the line, so that read(2) returns at once.
        quiet.c_lflag &= ~tcflag_t(ECHO | ISIG)
        quiet.c_lflag |= tcflag_t(ICANON | IEXTEN)
        unsafe withUnsafeMutableBytes(of: &quiet.c_cc) { keys in
            unsafe keys[Int(VEOL)] = Self.interruptKey
            unsafe keys[Int(VEOL2)] = Self.suspendKey
        }
        guard unsafe tcsetattr(terminal.number, TCSAFLUSH, &quiet) == 0 else { throw .last("tcsetattr", "/dev/tty") }
    }

    private static func restore(_ number: Int32, _ original: termios, _ actions: [sigaction]) {
        var original = original
        unsafe tcsetattr(number, TCSAFLUSH, &original)
        for (signal, action) in zip(signals, actions) {
            var action = action
            unsafe sigaction(signal, &action, nil)
        }
    }

    /// Shows `prompt` and reads one line into `buffer`. The line's bytes enter no memory but `buffer`. The newline is not stored.
    ///
    /// - Throws: E2BIG if the line is longer than the buffer, EPIPE if the input ends before a newline, and EINTR after ^C.
    package func read(prompt: String, into buffer: inout MutableSpan<UInt8>) throws(SystemError) -> Int {
        while true {
            try terminal.write(prompt)
            do throws(SystemError) {
                let count = try Terminal.readLine(
                    from: terminal, into: &buffer, keys: [Self.interruptKey: EINTR, Self.suspendKey: ECANCELED])
                try? terminal.write("\n")
                return count
            } catch {
                try? terminal.write("\n")
                let signal = Self.caught.exchange(0, ordering: .relaxed)
                if signal != 0 {
                    Self.restore(terminal.number, original, actions)
                    raise(signal)
                    throw error
                }
                guard error.code == ECANCELED else { throw error }
                var loud = original
                unsafe tcsetattr(terminal.number, TCSAFLUSH, &loud)
                // As the terminal would: the whole job stops.
                kill(0, SIGTSTP)
                try beQuiet()
            }
        }
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
