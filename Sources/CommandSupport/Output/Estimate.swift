// How far a long work is, in words.

import HostSystem

/// The share of a work that is done, and the time that is left. The work began when this was made.
package struct Estimate {
    private let started = monotonicNanoseconds()

    /// The work begins now.
    package init() {}

    /// Such as "12 %, 40 s left", without the time if nothing can be said of it yet.
    package func text(_ done: UInt64, of total: UInt64) -> String {
        // What appears meanwhile can raise the count above the total.
        let done = min(done, total)
        let text = "\(total == 0 ? 100 : Int(Double(done) / Double(total) * 100)) %"
        let now = monotonicNanoseconds()
        let elapsed = Double(now > started ? now - started : 0) / 1e9
        guard elapsed >= 1, done > 0 else { return text }
        return text + ", \(Self.duration(elapsed * Double(total - done) / Double(done))) left"
    }

    private static func duration(_ seconds: Double) -> String {
        let seconds = Int(min(max(seconds, 0), 1e9)) + 1
        if seconds < 90 { return "\(seconds) s" }
        return seconds < 5400 ? "\((seconds + 30) / 60) min" : "\((seconds + 1800) / 3600) h"
    }
}
