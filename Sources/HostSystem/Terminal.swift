// The terminal: secrets without echo, its width, whether there is one.

import CLinuxShim
import Glibc

/// The controlling terminal and the standard streams.
package enum Terminal {
    /// True when the stream (0, 1 or 2) is a terminal.
    package static func isTerminal(_ stream: Int32) -> Bool { isatty(stream) == 1 }

    /// Columns of the terminal on standard output, 80 when unknown.
    package static var columns: Int {
        let found = Int(pfs_terminal_columns(1))
        return found > 0 ? found : 80
    }

    /// Shows `prompt` on the controlling terminal and reads one line without echo into `buffer`.
    ///
    /// The line's bytes go nowhere but into `buffer`; the newline is not kept. A line that is longer than the buffer is
    /// E2BIG; end of input before a newline is EPIPE; no terminal is ENXIO or ENOTTY.
    /// ^C ends it with EINTR, after echo has been put back.
    package static func readSecret(prompt: String, into buffer: inout MutableSpan<UInt8>) throws(SystemError) -> Int {
        let terminal = try Descriptor(opening: HostPath("/dev/tty"), O_RDWR | O_NOCTTY)
        var original = termios()
        guard unsafe tcgetattr(terminal.number, &original) == 0 else { throw .last("tcgetattr", "/dev/tty") }
        var quiet = original
        // ISIG off: ^C is read as a byte and answered as EINTR below, with echo put back first.
        quiet.c_lflag &= ~tcflag_t(ECHO | ISIG)
        quiet.c_lflag |= tcflag_t(ICANON)
        // ^C ends the line too, so that it is seen at once.
        unsafe withUnsafeMutableBytes(of: &quiet.c_cc) { unsafe $0[Int(VEOL)] = 3 }
        guard unsafe tcsetattr(terminal.number, TCSAFLUSH, &quiet) == 0 else { throw .last("tcsetattr", "/dev/tty") }
        defer { unsafe tcsetattr(terminal.number, TCSAFLUSH, &original) }
        try terminal.write(prompt)
        defer { try? terminal.write("\n") }
        return try readLine(from: terminal, into: &buffer, interrupt: 3)
    }

    /// The longest line that `ask` reads, in bytes.
    private static let longestLine = 4096

    /// Shows `question` on the controlling terminal and reads one line as it is typed, at most 4,096 bytes; no terminal is
    /// ENXIO or ENOTTY.
    package static func ask(_ question: String) throws(SystemError) -> [UInt8] {
        let terminal = try Descriptor(opening: HostPath("/dev/tty"), O_RDWR | O_NOCTTY)
        guard isatty(terminal.number) == 1 else { throw .last("isatty", "/dev/tty") }
        try terminal.write(question)
        var line = [UInt8](repeating: 0, count: longestLine)
        var bytes = line.mutableSpan
        let count = try readLine(from: terminal, into: &bytes)
        return Array(line.prefix(count))
    }

    /// Reads one line byte by byte, so that nothing behind it is taken from the stream.
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
