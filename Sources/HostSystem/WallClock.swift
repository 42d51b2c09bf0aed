// Times of day for people and programs, and the clock that also counts the time of a suspend.

import CLibrary
internal import CLinuxShim

/// The host's clocks.
package enum WallClock {
    /// Seconds since 1970.
    package static var seconds: Int64 { Int64(nanoseconds / 1_000_000_000) }

    /// Nanoseconds since 1970 (CLOCK_REALTIME, clock_gettime(2)).
    package static var nanoseconds: UInt64 { nanoseconds(CLOCK_REALTIME) }

    /// Nanoseconds on CLOCK_BOOTTIME, which also runs while the machine is suspended.
    package static var bootNanoseconds: UInt64 { nanoseconds(CLOCK_BOOTTIME) }

    private static func nanoseconds(_ clock: clockid_t) -> UInt64 {
        var time = timespec()
        unsafe clock_gettime(clock, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
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
