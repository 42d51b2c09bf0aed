// The daemon's log: standard error in the foreground, syslog otherwise.

import CLibrary
import CommandSupport
import HostSystem

/// The destination of the daemon's log lines.
final class DaemonLog: Sendable {
    private let toSystem = Lock(false)
    private let subject: String

    /// A log about one volume, on standard error.
    init(_ subject: String) { self.subject = subject }

    /// Sends further lines to syslog, because the terminal is gone.
    func moveToSystem() { toSystem.withLock { $0 = true } }

    /// Writes one line.
    func write(_ line: String, _ level: SystemLog.Level = .notice) {
        let text = Output.oneLine(line)
        if toSystem.withLock({ $0 }) {
            SystemLog.write(level, "protectfs: \(subject): \(text)")
        } else {
            Output.note("protectfs: \(text)")
        }
    }
}

/// The output of `--trace`: the current standard error, also while `ErrorCapture` holds the stream.
final class TraceOutput: Sendable {
    private let stream = Descriptor(taking: fcntl(2, F_DUPFD_CLOEXEC, 10))

    /// Writes one line.
    func write(_ line: String) { try? stream.write(Output.oneLine(line) + "\n") }
}
