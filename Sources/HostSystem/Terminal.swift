// Uses the terminal: reads lines, with or without echo.

import CLinuxShim
import Glibc

/// The controlling terminal and the standard streams.
package enum Terminal {
    /// True if the stream (0, 1 or 2) is a terminal.
    package static func isTerminal(_ stream: Int32) -> Bool { isatty(stream) == 1 }

    /// Shows `prompt` on the controlling terminal and reads one line without echo into `buffer`.
    ///
    /// The line's bytes enter no memory but `buffer`. The newline is not stored.
    ///
    /// - Throws: E2BIG if the line is longer than the buffer, EPIPE if the input ends before a newline, ENXIO or ENOTTY
    ///   without a terminal, and EINTR after ^C, when echo has been restored.
    package static func readSecret(prompt: String, into buffer: inout MutableSpan<UInt8>) throws(SystemError) -> Int {
        let terminal = try Descriptor(opening: HostPath("/dev/tty"), O_RDWR | O_NOCTTY)
        var original = termios()
        guard unsafe tcgetattr(terminal.number, &original) == 0 else { throw .last("tcgetattr", "/dev/tty") }
        var quiet = original
        // Without ISIG, ^C is read as a byte. The code below restores echo and then throws EINTR.
        quiet.c_lflag &= ~tcflag_t(ECHO | ISIG)
        quiet.c_lflag |= tcflag_t(ICANON)
        // ^C also ends the line, so that read(2) returns at once.
        unsafe withUnsafeMutableBytes(of: &quiet.c_cc) { unsafe $0[Int(VEOL)] = 3 }
        guard unsafe tcsetattr(terminal.number, TCSAFLUSH, &quiet) == 0 else { throw .last("tcsetattr", "/dev/tty") }
        defer { unsafe tcsetattr(terminal.number, TCSAFLUSH, &original) }
        try terminal.write(prompt)
        defer { try? terminal.write("\n") }
        return try readLine(from: terminal, into: &buffer, interrupt: 3)
    }

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
    /// - Parameter interrupt: a byte that ends reading with EINTR.
    package static func readLine(
        from descriptor: borrowing Descriptor, into buffer: inout MutableSpan<UInt8>, interrupt: UInt8? = nil
    ) throws(SystemError) -> Int {
        var count = 0
        while true {
            var byte: UInt8 = 0
            let got = unsafe Glibc.read(descriptor.number, &byte, 1)
            if got < 0 {
                if errno == EINTR { continue }
                throw .last("read")
            }
            if got == 0 {
                if count == 0 { throw SystemError(code: EPIPE, call: "read") }
                return count
            }
            if let interrupt, byte == interrupt { throw SystemError(code: EINTR, call: "read") }
            if byte == UInt8(ascii: "\n") { return count }
            guard count < buffer.count else { throw SystemError(code: E2BIG, call: "read") }
            buffer[count] = byte
            count += 1
        }
    }
}
