// The recovery code as text: 16 secret bytes and 22 checksum bits as 30 base-32 symbols, 6 groups of 5.

/// Crockford base-32 text of a recovery code. It works on spans that the caller keeps in locked memory.
package enum RecoveryCode {
    /// Secret bytes.
    package static let byteCount = 16
    /// Symbols.
    package static let symbolCount = 30
    /// Characters as written: 6 groups of 5 with hyphens between.
    package static let textLength = 35
    /// The longest text that is read.
    package static let longestText = 256
    /// The prefix of the 16 bytes in the checksum's hash (BLAKE2b-256 without a key).
    package static let checksumPrefix: StaticString = "protectfs1/recovery\0"

    /// The checksum from the first 3 bytes of the hash: its first 22 bits.
    package static func checksum(hash: Span<UInt8>) -> UInt32 {
        (UInt32(hash[0]) << 16 | UInt32(hash[1]) << 8 | UInt32(hash[2])) >> 2
    }

    /// Writes the 35 characters for 16 `bytes` and their checksum. Traps if either is shorter.
    package static func encode(_ bytes: Span<UInt8>, checksum: UInt32, into text: inout MutableSpan<UInt8>) {
        precondition(bytes.count == byteCount)
        var target = 0
        for symbol in 0..<symbolCount {
            var value: UInt8 = 0
            for bit in symbol * 5..<symbol * 5 + 5 {
                let set: UInt8 =
                    bit < 128
                    ? bytes[bit / 8] >> (7 - UInt8(bit % 8)) & 1
                    : UInt8(truncatingIfNeeded: checksum >> UInt32(149 - bit) & 1)
                value = value << 1 | set
            }
            if symbol > 0, symbol % 5 == 0 {
                text.storeLittleEndian(0x2d as UInt8, at: target)
                target += 1
            }
            text.storeLittleEndian(character(value), at: target)
            target += 1
        }
    }

    /// Reads a code as typed into 16 `bytes` and gives the checksum in it. Nil if the text is not a code.
    ///
    /// Case, spaces, hyphens and line ends are ignored; O is 0, I and L are 1. The caller checks the checksum and wipes
    /// `bytes`.
    package static func decode(_ text: Span<UInt8>, into bytes: inout MutableSpan<UInt8>) -> UInt32? {
        guard text.count <= longestText else { return nil }
        precondition(bytes.count >= byteCount)
        var symbols = 0
        var pending: UInt64 = 0
        var bits = 0
        var written = 0
        for index in 0..<text.count {
            let unit = text[index]
            if unit == 0x20 || unit == 0x2d || unit == 0x0a || unit == 0x0d || unit == 0x09 { continue }
            guard symbols < symbolCount, let value = value(of: unit) else { return nil }
            symbols += 1
            pending = pending << 5 | UInt64(value)
            bits += 5
            if bits >= 8, written < byteCount {
                bits -= 8
                bytes.storeLittleEndian(UInt8(truncatingIfNeeded: pending >> UInt64(bits)), at: written)
                written += 1
                pending &= (1 << UInt64(bits)) - 1
            }
        }
        guard symbols == symbolCount else { return nil }
        return UInt32(truncatingIfNeeded: pending)
    }

    private static func character(_ value: UInt8) -> UInt8 {
        switch value {
        case 0..<10: 0x30 + value
        case 10..<18: 0x41 + value - 10
        case 18..<20: 0x4a + value - 18
        case 20..<22: 0x4d + value - 20
        case 22..<27: 0x50 + value - 22
        default: 0x56 + value - 27
        }
    }

    private static func value(of character: UInt8) -> UInt8? {
        let upper = character >= 0x61 && character <= 0x7a ? character - 0x20 : character
        switch upper {
        case 0x30...0x39: return upper - 0x30
        case 0x4f: return 0
        case 0x49, 0x4c: return 1
        case 0x41...0x48: return upper - 0x41 + 10
        case 0x4a, 0x4b: return upper - 0x4a + 18
        case 0x4d, 0x4e: return upper - 0x4d + 20
        case 0x50...0x54: return upper - 0x50 + 22
        case 0x56...0x5a: return upper - 0x56 + 27
        default: return nil
        }
    }
}
