// The numbers of epochs, which rise with time (docs/judge/volume-format.md, section 6.2).

/// An epoch is a u32 that is above every earlier one of this machine, and roughly the time at which it was drawn.
package enum Epoch {
    /// 2020-01-01 00:00 UTC, in seconds since 1970.
    package static let origin: Int64 = 1_577_836_800
    /// The last number. After it nothing can be written.
    package static let largest = UInt32.max

    /// The number to draw next. Nil if `highest` is the last one.
    ///
    /// - Parameters:
    ///   - highest: the highest number that is known; 0 for none.
    ///   - seconds: the time now, in seconds since 1970. A time before 2020, or after the last number, does not count.
    package static func next(after highest: UInt32, at seconds: Int64) -> UInt32? {
        guard highest < largest else { return nil }
        let (elapsed, overflows) = seconds.subtractingReportingOverflow(origin)
        return max(highest + 1, overflows ? 0 : UInt32(exactly: elapsed) ?? 0)
    }

    /// The highest number that a version of a file may have for this machine to follow it: about a year after the highest known one,
    /// and after now. A machine with a wrong clock must not use up the numbers of the others.
    package static func latest(after highest: UInt32, at seconds: Int64) -> UInt32 {
        let (elapsed, isTooEarly) = seconds.subtractingReportingOverflow(origin)
        let now = isTooEarly ? 0 : UInt32(clamping: elapsed)
        let (latest, overflows) = max(highest, now).addingReportingOverflow(1 << 25)
        return overflows ? largest - 1 : latest
    }

    /// The time of a number, in seconds since 1970: that of drawing it, if the clock was right and no higher number was known.
    package static func time(of epoch: UInt32) -> Int64 { origin + Int64(epoch) }
}
