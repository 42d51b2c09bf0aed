// Base64url without padding, decoded strictly, so that each byte sequence has exactly one text.

/// RFC 4648 §5 without padding. Trailing bits must be zero, because otherwise two backing names would give one name.
package enum Base64URL {
    /// Characters for `count` bytes.
    package static func encodedLength(of count: Int) -> Int {
        (count * 4 + 2) / 3
    }

    /// Bytes in `count` characters. Nil if no text has that many.
    package static func decodedLength(of count: Int) -> Int? {
        count % 4 == 1 ? nil : count * 3 / 4
    }

    /// Writes the text of `bytes` at `offset` and gives its length. Traps if it does not fit.
    @discardableResult
    package static func encode(_ bytes: Span<UInt8>, into text: inout MutableSpan<UInt8>, at offset: Int = 0) -> Int {
        var target = offset
        var pending: UInt32 = 0
        var bits: UInt32 = 0
        for index in 0..<bytes.count {
            pending = (pending << 8 | UInt32(bytes[index])) & 0xffff
            bits += 8
            while bits >= 6 {
                bits -= 6
                text.storeLittleEndian(character(UInt8(pending >> bits & 63)), at: target)
                target += 1
            }
        }
        if bits > 0 {
            text.storeLittleEndian(character(UInt8(pending << (6 - bits) & 63)), at: target)
            target += 1
        }
        return target - offset
    }

    /// The text of `bytes`.
    package static func encode(_ bytes: Span<UInt8>) -> [UInt8] {
        var text = [UInt8](repeating: 0, count: encodedLength(of: bytes.count))
        var raw = text.mutableSpan
        encode(bytes, into: &raw)
        return text
    }

    /// Writes the bytes that `text` encodes to the start of `bytes` and gives their number.
    ///
    /// Nil for any text that `encode` does not produce; `bytes` is then partly overwritten. Traps if they do not fit.
    package static func decode(_ text: Span<UInt8>, into bytes: inout MutableSpan<UInt8>) -> Int? {
        guard let length = decodedLength(of: text.count) else { return nil }
        precondition(length <= bytes.count)
        var target = 0
        var pending: UInt32 = 0
        var bits: UInt32 = 0
        for index in 0..<text.count {
            guard let value = value(of: text[index]) else { return nil }
            pending = (pending << 6 | UInt32(value)) & 0xffff
            bits += 6
            if bits >= 8 {
                bits -= 8
                bytes.storeLittleEndian(UInt8(pending >> bits & 255), at: target)
                target += 1
            }
        }
        guard pending & ((1 << bits) - 1) == 0 else { return nil }
        return target
    }

    /// The bytes that `text` encodes. Nil for any text that `encode` does not produce.
    package static func decode(_ text: Span<UInt8>) -> [UInt8]? {
        guard let length = decodedLength(of: text.count) else { return nil }
        var bytes = [UInt8](repeating: 0, count: length)
        var raw = bytes.mutableSpan
        guard decode(text, into: &raw) != nil else { return nil }
        return bytes
    }

    private static func character(_ value: UInt8) -> UInt8 {
        switch value {
        case 0..<26: 0x41 + value
        case 26..<52: 0x61 + value - 26
        case 52..<62: 0x30 + value - 52
        case 62: 0x2d
        default: 0x5f
        }
    }

    private static func value(of character: UInt8) -> UInt8? {
        switch character {
        case 0x41...0x5a: character - 0x41
        case 0x61...0x7a: character - 0x61 + 26
        case 0x30...0x39: character - 0x30 + 52
        case 0x2d: 62
        case 0x5f: 63
        default: nil
        }
    }
}
