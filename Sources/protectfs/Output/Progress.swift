// Progress of long work, on a terminal only, on standard error.

import CLibrary
import HostSystem

/// One line that is overwritten, at most ten times a second. It shows nothing if standard error is not a terminal.
final class Progress: Sendable {
    /// Whether standard error is a terminal.
    let isShown = Terminal.isTerminal(2)
    private let last = Lock<UInt64>(0)

    /// Replaces the shown text by `text`.
    func show(_ text: @autoclosure () -> String) {
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
    func end() {
        guard isShown else { return }
        write("\r\u{1B}[K")
    }

    private func write(_ text: String) {
        let stream = Descriptor(taking: 2)
        try? stream.write(text)
        _ = stream.release()
    }
}
