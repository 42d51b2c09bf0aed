// Progress of long work, on a terminal only, on standard error.

import CLibrary
import HostSystem

/// One line that is overwritten, at most ten times a second. It shows nothing if standard error is not a terminal.
package final class Progress: Sendable {
    /// Whether standard error is a terminal.
    package let isShown = Terminal.isTerminal(2)
    private let last = Lock<UInt64>(0)

    /// Nothing is shown yet.
    package init() {}

    /// Replaces the shown text by `text`.
    package func show(_ text: @autoclosure () -> String) {
        guard isShown else { return }
        let isDue = last.withLock { last in
            let now = monotonicNanoseconds()
            guard now >= last + 100_000_000 else { return false }
            last = now
            return true
        }
        if isDue { write("\r\u{1B}[K" + Output.oneLine(text())) }
    }

    /// Removes the line.
    package func end() {
        guard isShown else { return }
        write("\r\u{1B}[K")
    }

    private func write(_ text: String) {
        let stream = Descriptor(taking: 2)
        try? stream.write(text)
        _ = stream.release()
    }
}
