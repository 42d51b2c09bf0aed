// Bytes as hexadecimal digits.

/// Two digits for each byte.
package enum Hexadecimal {
    private static let digits = Array("0123456789abcdef".utf8)

    /// The digits of `bytes` in lower case, as ASCII.
    package static func encode(_ bytes: some Sequence<UInt8>) -> [UInt8] {
        var result: [UInt8] = []
        for byte in bytes {
            result.append(digits[Int(byte >> 4)])
            result.append(digits[Int(byte & 15)])
        }
        return result
    }

    /// The digits of `bytes` in lower case.
    package static func text(_ bytes: some Sequence<UInt8>) -> String { String(decoding: encode(bytes), as: UTF8.self) }

    /// The bytes that the digits encode, in either case. Nil for anything else, and for an odd number of digits.
    package static func decode(_ text: some Sequence<UInt8>) -> [UInt8]? {
        var result: [UInt8] = []
        var high: UInt8?
        for unit in text {
            guard let value = value(ofDigit: unit) else { return nil }
            if let first = high { result.append(first << 4 | value) }
            high = high == nil ? value : nil
        }
        return high == nil ? result : nil
    }

    /// The value of an ASCII digit, in either case. Nil for anything else.
    package static func value(ofDigit unit: UInt8) -> UInt8? {
        switch unit {
        case 0x30...0x39: unit - 0x30
        case 0x41...0x46: unit - 0x41 + 10
        case 0x61...0x66: unit - 0x61 + 10
        default: nil
        }
    }
}
