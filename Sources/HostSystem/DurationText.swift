// Durations as mount options and configuration files have them.

/// A duration in words such as `10m`.
package enum DurationText {
    /// Parses `90`, `90s`, `10m`, `2h`, `1d`, or several of these in a row (`1h30m`). Nil for anything else.
    package static func seconds(_ text: String) -> UInt64? {
        var total: UInt64 = 0
        var number: UInt64?
        for character in text.utf8 {
            if (48...57).contains(character) {
                let (product, overflow) = (number ?? 0).multipliedReportingOverflow(by: 10)
                let (sum, overflowToo) = product.addingReportingOverflow(UInt64(character - 48))
                if overflow || overflowToo { return nil }
                number = sum
                continue
            }
            let units: [UInt8: UInt64] = [
                UInt8(ascii: "s"): 1, UInt8(ascii: "m"): 60, UInt8(ascii: "h"): 3600, UInt8(ascii: "d"): 86400,
            ]
            guard let count = number, let unit = units[character] else { return nil }
            let (product, overflow) = count.multipliedReportingOverflow(by: unit)
            let (sum, overflowToo) = total.addingReportingOverflow(product)
            if overflow || overflowToo { return nil }
            total = sum
            number = nil
        }
        if let number {
            // A bare number counts seconds, but only alone.
            return total == 0 && !text.isEmpty ? number : nil
        }
        return text.isEmpty ? nil : total
    }
}
