// Standard output and standard error. Only this file writes to them.

import CLibrary
import Control
package import HostSystem
package import SodiumKit
import Synchronization
import VolumeFormat

/// The program's two streams.
package enum Output {
    /// Writes text unchanged. If the reader is gone or the stream is closed, the program ends. For commands that have changed
    /// nothing; others report their changes with `done`.
    package static func print(_ text: String) {
        do throws(SystemError) { try write(text) } catch { end(error) }
    }

    /// Writes bytes unchanged. The program ends as for text.
    static func print(bytes: [UInt8]) {
        do throws(SystemError) { try write(bytes) } catch { end(error) }
    }

    /// Writes text unchanged.
    package static func write(_ text: String) throws(SystemError) { try write(Array(text.utf8)) }

    /// Writes bytes unchanged.
    package static func write(bytes: [UInt8]) throws(SystemError) { try write(bytes) }

    private static func write(_ bytes: [UInt8]) throws(SystemError) {
        // The array owns the bytes during the call.
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

    /// Flushes written text to its file, because some file systems report only now that it does not fit.
    package static func flush() throws(SystemError) {
        guard fsync(1) != 0 else { return }
        // Terminals, pipes and sockets cannot be synchronised.
        if ![EINVAL, ENOTSUP, EROFS].contains(errno) { throw .last("fsync", "standard output") }
    }

    /// Ends a command that has changed something by writing `text`. If that fails, standard error reports the changes, and the
    /// exit code says that they were made. The code of a failure stays.
    package static func done(_ what: String, _ text: String, _ code: ExitCode = .success) -> ExitCode {
        do throws(SystemError) {
            try write(text)
            try flush()
            return code
        } catch {
            let said = code == .success ? ExitCode.unsaid : code
            fail(.init(said, "\(what), but standard output cannot be written: \(error.reason)"))
            return said
        }
    }

    private static func end(_ error: SystemError) -> Never {
        // A reader that closed the pipe has read enough.
        if error.code != EPIPE { fail(.init(.failure, "cannot write to standard output: \(error.reason)")) }
        exit(ExitCode.failure.number)
    }

    /// Shows a recovery code before it becomes valid. The secret goes from locked memory to the stream and nowhere else.
    ///
    /// - Throws: if it cannot be written. `kept` says what was not changed.
    package static func show(
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

    /// Refuses early if standard output is closed, for text that is shown only once.
    package static func requireOpen() throws(CommandFailure) {
        let flags = fcntl(1, F_GETFL)
        guard flags < 0 || flags & O_ACCMODE == O_RDONLY else { return }
        throw .init(.failure, "standard output is closed, so the recovery code would be lost; nothing was changed")
    }

    /// Writes a line.
    package static func line(_ text: String = "") { print(text + "\n") }

    /// Writes a path as a line: byte for byte for programs, without control characters on a terminal.
    package static func line(path: HostPath) {
        if Terminal.isTerminal(1) { return line(oneLine(path.description)) }
        do throws(SystemError) { try write(path.bytes + [UInt8(ascii: "\n")]) } catch { end(error) }
    }

    /// Whether standard error gets JSON, too: with --json.
    package static var reportsJSON: Bool {
        get { isJSON.load(ordering: .relaxed) }
        set { isJSON.store(newValue, ordering: .relaxed) }
    }
    private static let isJSON = Atomic(false)
    /// The beginning of each line of standard error that is not JSON.
    private static let program = "protectfs: "

    /// Reports a failure in one line of standard error.
    ///
    /// - Parameter exit: the exit code, if it is not that of the failure.
    package static func fail(_ failure: CommandFailure, exit: ExitCode? = nil) {
        guard reportsJSON else { return error(failure.message) }
        let fields = failure.fields(exit: exit) + [("message", .string(oneLine(failure.message)))]
        toStandardError(JSONValue.fields([("error", .fields(fields))]).line)
    }

    /// Writes one line to standard error, after the program's name.
    package static func error(_ message: String) { note(program + message) }

    /// Writes one line to standard error.
    package static func note(_ message: String) {
        let message = oneLine(message)
        guard reportsJSON else { return toStandardError(message) }
        let text = message.hasPrefix(program) ? String(message.dropFirst(program.count)) : message
        toStandardError(JSONValue.fields([("note", .string(text))]).line)
    }

    /// The messages of another protectfs that are in a pipe, without the program's name.
    package static func lines(waitingIn pipe: borrowing Descriptor) -> [String] {
        var bytes: [UInt8] = []
        while bytes.count < 1 << 16 {
            var part = [UInt8](repeating: 0, count: 4096)
            var span = part.mutableSpan
            // Only a moment, because a daemon that it has started may keep the other end open.
            guard (try? pipe.waitForInput(until: monotonicNanoseconds() + 50_000_000)) != nil,
                let count = try? pipe.read(into: &span, atOnce: true), count > 0
            else { break }
            bytes += part.prefix(count)
        }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map {
            String($0.hasPrefix(program) ? $0.dropFirst(program.count) : $0)
        }
    }

    private static func toStandardError(_ line: String) {
        let stream = Descriptor(taking: 2)
        try? stream.write(line + "\n")
        _ = stream.release()
    }

    /// Replaces characters that a hostile name could have to control the terminal, make a second line, or hide what it is.
    package static func oneLine(_ text: String) -> String {
        // Most text is of these characters alone, and then stays as it is.
        if text.utf8.allSatisfy({ (0x20..<0x7f).contains($0) }) { return text }
        var result = ""
        for scalar in text.unicodeScalars {
            result.unicodeScalars.append(UnshownCharacter.contains(scalar) ? "?" : scalar)
        }
        return result
    }
}

extension Output {
    /// Writes secret text to standard output straight from locked memory.
    package static func print(secret: borrowing SecretBytes) {
        do throws(SystemError) { try write(secret: secret) } catch { end(error) }
    }

    private static func write(secret: borrowing SecretBytes) throws(SystemError) {
        try secret.withBytes { (bytes) throws(SystemError) in try write(bytes) }
    }
}
