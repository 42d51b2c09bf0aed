// Times of day for people and programs, and the clock that also counts the time of a suspend.

import CLibrary
internal import CLinuxShim

/// The host's clocks.
package enum WallClock {
    /// Seconds since 1970. Negative before, as on a board without a battery.
    package static var seconds: Int64 { Int64(time(CLOCK_REALTIME).tv_sec) }

    /// Nanoseconds since 1970 (CLOCK_REALTIME, clock_gettime(2)). 0 before 1970, and the largest number after 2554.
    package static var nanoseconds: UInt64 { nanoseconds(CLOCK_REALTIME) }

    /// Nanoseconds on CLOCK_BOOTTIME, which also runs while the machine is suspended.
    package static var bootNanoseconds: UInt64 { nanoseconds(CLOCK_BOOTTIME) }

    private static func time(_ clock: clockid_t) -> timespec {
        var time = timespec()
        unsafe clock_gettime(clock, &time)
        return time
    }

    private static func nanoseconds(_ clock: clockid_t) -> UInt64 {
        let time = time(clock)
        let (whole, isLate) = UInt64(clamping: time.tv_sec).multipliedReportingOverflow(by: 1_000_000_000)
        return isLate || whole > .max - 1_000_000_000 ? .max : whole + UInt64(clamping: time.tv_nsec)
    }

    /// `seconds` since 1970 as local time, "2026-11-21 23:05:07".
    package static func local(_ seconds: Int64) -> String {
        var time = time_t(seconds)
        var parts = unsafe tm()
        unsafe localtime_r(&time, &parts)
        var buffer = [CChar](repeating: 0, count: 64)
        let count = unsafe strftime(&buffer, buffer.count, "%Y-%m-%d %H:%M:%S", &parts)
        return String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
