// Standard output and standard error: the only place that writes to them.

import Glibc
import HostSystem
import SodiumKit

/// The program's two streams.
enum Output {
    /// Writes text as it is; a reader that went away, or a stream that is closed, ends the program. For commands that have
    /// changed nothing; others say what they have done with `done`.
    static func print(_ text: String) {
        do throws(SystemError) { try write(text) } catch { end(error) }
    }

    /// Writes text as it is.
    static func write(_ text: String) throws(SystemError) {
        let bytes = Array(text.utf8)
        // The array owns the bytes for the length of the call.
        try write(bytes.span)
    }

    private static func write(_ bytes: Span<UInt8>) throws(SystemError) {
        let stream = Descriptor(taking: 1)
        var failure: SystemError?
        do throws(SystemError) { try stream.write(bytes) } catch { failure = error }
        // It stays open after an error too.
        _ = stream.release()
        if let failure { throw failure }
    }

    /// Makes what was written reach its file: some file systems report only now that it does not fit.
    static func flush() throws(SystemError) {
        guard fsync(1) != 0 else { return }
        // Terminals, pipes and sockets have nothing to be synchronised.
        if ![EINVAL, ENOTSUP, EROFS].contains(errno) { throw .last("fsync", "standard output") }
    }

    /// Ends a command that has changed something: writes `text`. If that fails, standard error says what was done, and the exit
    /// code says that it was done.
    static func done(_ what: String, _ text: String, _ code: ExitCode = .success) -> ExitCode {
        do throws(SystemError) {
            try write(text)
            try flush()
            return code
        } catch {
            Self.error("\(what), but standard output cannot be written: \(error.reason)")
            return .unsaid
        }
    }

    private static func end(_ error: SystemError) -> Never {
        // A reader that closed the pipe has read what it wanted.
        if error.code != EPIPE { Self.error("cannot write to standard output: \(error.reason)") }
        exit(ExitCode.failure.number)
    }

    /// Shows a recovery code, before it becomes valid: text around a secret that goes from locked memory to the stream and
    /// nowhere else.
    ///
    /// - Throws: where it cannot be written; `kept` says what stays as it was.
    static func show(
        _ before: String, secret: borrowing SecretBytes, _ after: String, kept: String
    ) throws(CommandFailure) {
        do throws(SystemError) {
            try write(before)
            try write(secret: secret)
            try write(after)
            try flush()
        } catch {
            throw .init(
                .failure,
                "the new recovery code cannot be written to standard output (\(error.reason)), so it is not valid; \(kept)"
            )
        }
    }

    /// Refuses early if standard output is closed: for text that is shown only once.
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
        do throws(SystemError) { try write(secret: secret) } catch { end(error) }
    }

    private static func write(secret: borrowing SecretBytes) throws(SystemError) {
        try secret.withBytes { (bytes) throws(SystemError) in try write(bytes) }
    }
}
