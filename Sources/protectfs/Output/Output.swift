// Standard output and standard error: the only place that writes to them.

import Glibc
import HostSystem
import SodiumKit

/// The program's two streams.
enum Output {
    /// Writes text as it is; a reader that went away, or a stream that is closed, ends the program.
    static func print(_ text: String) {
        let stream = Descriptor(taking: 1)
        do throws(SystemError) { try stream.write(text) } catch { end(error) }
        _ = stream.release()
    }

    private static func end(_ error: SystemError) -> Never {
        // A reader that went away has seen what it wanted.
        if error.code != EPIPE { Self.error("cannot write to standard output: \(error.reason)") }
        exit(ExitCode.failure.number)
    }

    /// Refuses before anything is done where standard output is closed: for what is shown once and never again.
    static func requireOpen() throws(CommandFailure) {
        let flags = fcntl(1, F_GETFL)
        guard flags < 0 || flags & O_ACCMODE == O_RDONLY else { return }
        throw .init(.failure, "standard output is closed, so the recovery code would be lost; nothing was changed")
    }

    /// Writes a line.
    static func line(_ text: String = "") { print(text + "\n") }

    /// Writes one line of error with the program's name.
    static func error(_ message: String) { note("protectfs: \(oneLine(message))") }

    /// Writes one line to standard error.
    static func note(_ message: String) {
        let stream = Descriptor(taking: 2)
        try? stream.write(message + "\n")
        _ = stream.release()
    }

    /// Control characters out, so that a hostile name cannot write to the terminal or make a second line.
    static func oneLine(_ text: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            let isControl = scalar.value < 0x20 || (0x7F..<0xA0).contains(scalar.value)
            result.unicodeScalars.append(isControl ? "?" : scalar)
        }
        return result
    }
}

extension Output {
    /// Writes secret text to standard output straight from locked memory.
    static func print(secret: borrowing SecretBytes) {
        let stream = Descriptor(taking: 1)
        do throws(SystemError) {
            try secret.withBytes { (bytes) throws(SystemError) in try stream.write(bytes) }
        } catch {
            end(error)
        }
        _ = stream.release()
    }
}
