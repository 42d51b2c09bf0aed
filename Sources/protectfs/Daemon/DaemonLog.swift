// The daemon's log: standard error in the foreground, syslog otherwise.

import Glibc
import HostSystem

/// Where lines of the daemon go.
final class DaemonLog: Sendable {
    private let toSystem = Lock(false)
    private let subject: String

    /// A log about one volume, on standard error.
    init(_ subject: String) { self.subject = subject }

    /// From now on to syslog: there is no terminal any more.
    func moveToSystem() { toSystem.withLock { $0 = true } }

    /// One line.
    func write(_ line: String, _ level: SystemLog.Level = .notice) {
        let text = Output.oneLine(line)
        if toSystem.withLock({ $0 }) {
            SystemLog.write(level, "protectfs: \(subject): \(text)")
        } else {
            Output.note("protectfs: \(text)")
        }
    }
}

/// Where lines of `--trace` go: standard error as it is now, also while `ErrorCapture` holds the stream.
final class TraceOutput: Sendable {
    private let stream = Descriptor(taking: fcntl(2, F_DUPFD_CLOEXEC, 10))

    /// One line.
    func write(_ line: String) { try? stream.write(Output.oneLine(line) + "\n") }
}
