// Signals that a long work asks for, so that it ends in an orderly way.

import CLibrary
import HostSystem

/// Turns SIGINT, SIGTERM and SIGHUP into a question that the work asks. A second signal ends the program, which must be safe too.
package final class Interruption: Sendable {
    private let asked = Lock(false)

    /// Whether a signal has come.
    package var isAsked: Bool { asked.withLock { $0 } }

    /// From now on, in every thread made after this.
    ///
    /// - Parameter number: the exit code after a second signal.
    package init(exit number: Int32) {
        let signals = SignalSet(blocking: [SIGINT, SIGTERM, SIGHUP])
        let asked = asked
        let thread = BackgroundThread(name: "signals") {
            while signals.wait() != nil {
                let isSecond = asked.withLock { asked in
                    defer { asked = true }
                    return asked
                }
                if isSecond { _exit(number) }
            }
        }
        if thread == nil { Output.error("cannot start the thread for signals: the work cannot be interrupted") }
    }
}
