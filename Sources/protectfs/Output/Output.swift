// Standard output and standard error: the only place that writes to them.

import Glibc
import HostSystem
import SodiumKit

/// The program's two streams.
enum Output {
    /// Writes text as it is; a reader that went away ends the program.
    static func print(_ text: String) {
        let stream = Descriptor(taking: 1)
        do { try stream.write(text) } catch { exit(ExitCode.failure.number) }
        _ = stream.release()
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
        let isDone = secret.withBytes { bytes in (try? stream.write(bytes)) != nil }
        _ = stream.release()
        if !isDone { exit(ExitCode.failure.number) }
    }
}
