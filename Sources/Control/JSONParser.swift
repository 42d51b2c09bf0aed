// A strict parser for untrusted JSON. It limits the depth, so hostile input cannot exhaust the stack.

import VolumeFormat

/// Why the parser rejects its input.
package enum JSONError: Error, Equatable, Sendable {
    /// A syntax error at this byte.
    case syntax(offset: Int)
    /// More levels than `JSONValue.maximumDepth`.
    case depth
    /// Two members of one object have the same name.
    case duplicateKey
}

extension JSONValue {
    /// The most levels of arrays and objects that the parser accepts.
    package static let maximumDepth = 16

    /// Parses one value. Only white space may surround it.
    package init(parsing bytes: [UInt8]) throws(JSONError) {
        var parser = JSONParser(bytes: bytes)
        self = try parser.value(depth: 0)
        parser.skipSpace()
        guard parser.position == bytes.count else { throw .syntax(offset: parser.position) }
    }
}

/// A cursor over bytes. Every method moves it past the bytes that it has read.
private struct JSONParser {
    let bytes: [UInt8]
    var position = 0

    private var next: UInt8? { position < bytes.count ? bytes[position] : nil }
    private var failure: JSONError { .syntax(offset: position) }

    mutating func skipSpace() {
        while let byte = next, byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09 { position += 1 }
    }

    mutating func value(depth: Int) throws(JSONError) -> JSONValue {
        skipSpace()
        guard let first = next else { throw failure }
        switch first {
        case UInt8(ascii: "{"): return .object(try object(depth: depth + 1))
        case UInt8(ascii: "["): return .array(try array(depth: depth + 1))
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        default: return try number()
        }
    }

    private mutating func word(_ word: String, _ value: JSONValue) throws(JSONError) -> JSONValue {
        let expected = Array(word.utf8)
        guard bytes.count - position >= expected.count,
            bytes[position..<position + expected.count].elementsEqual(expected)
        else { throw failure }
        position += expected.count
        return value
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard next == byte else { return false }
        position += 1
        return true
    }

    private mutating func array(depth: Int) throws(JSONError) -> [JSONValue] {
        guard depth <= JSONValue.maximumDepth else { throw .depth }
        position += 1
        var elements: [JSONValue] = []
        skipSpace()
        if take(UInt8(ascii: "]")) { return elements }
        while true {
            elements.append(try value(depth: depth))
            skipSpace()
            if take(UInt8(ascii: "]")) { return elements }
            guard take(UInt8(ascii: ",")) else { throw failure }
        }
    }

    private mutating func object(depth: Int) throws(JSONError) -> [JSONMember] {
        guard depth <= JSONValue.maximumDepth else { throw .depth }
        position += 1
        var members: [JSONMember] = []
        var keys: Set<String> = []
        skipSpace()
        if take(UInt8(ascii: "}")) { return members }
        while true {
            skipSpace()
            guard next == UInt8(ascii: "\"") else { throw failure }
            let key = try string()
            guard keys.insert(key).inserted else { throw .duplicateKey }
            skipSpace()
            guard take(UInt8(ascii: ":")) else { throw failure }
            members.append(JSONMember(key, try value(depth: depth)))
            skipSpace()
            if take(UInt8(ascii: "}")) { return members }
            guard take(UInt8(ascii: ",")) else { throw failure }
        }
    }

    private mutating func string() throws(JSONError) -> String {
        let start = position
        position += 1
        var units: [UInt8] = []
        while let byte = next {
            position += 1
            switch byte {
            case UInt8(ascii: "\""):
                guard let text = String(validating: units, as: UTF8.self) else { throw .syntax(offset: start) }
                return text
            case UInt8(ascii: "\\"): units += String(try escape()).utf8
            case 0..<0x20: throw .syntax(offset: position - 1)
            default: units.append(byte)
            }
        }
        throw failure
    }

    private mutating func escape() throws(JSONError) -> Character {
        guard let byte = next else { throw failure }
        position += 1
        switch byte {
        case UInt8(ascii: "\""): return "\""
        case UInt8(ascii: "\\"): return "\\"
        case UInt8(ascii: "/"): return "/"
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{c}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"):
            var code = try hexadecimal()
            if code >> 10 == 0xd800 >> 10 {
                // This is the first half of a surrogate pair, so the second half must follow.
                guard take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")) else { throw failure }
                let low = try hexadecimal()
                guard low >> 10 == 0xdc00 >> 10 else { throw failure }
                code = 0x10000 + (code & 0x3ff) << 10 + (low & 0x3ff)
            }
            guard let scalar = Unicode.Scalar(code) else { throw failure }
            return Character(scalar)
        default: throw .syntax(offset: position - 1)
        }
    }

    private mutating func hexadecimal() throws(JSONError) -> UInt32 {
        var code: UInt32 = 0
        for _ in 0..<4 {
            guard let byte = next, let digit = Hexadecimal.value(ofDigit: byte) else { throw failure }
            code = code << 4 | UInt32(digit)
            position += 1
        }
        return code
    }

    private mutating func digits() -> Int {
        let start = position
        while let byte = next, byte >= 0x30, byte <= 0x39 { position += 1 }
        return position - start
    }

    private mutating func number() throws(JSONError) -> JSONValue {
        let start = position
        _ = take(UInt8(ascii: "-"))
        if !take(UInt8(ascii: "0")) {
            guard digits() > 0 else { throw failure }
        }
        var isWhole = true
        if take(UInt8(ascii: ".")) {
            isWhole = false
            guard digits() > 0 else { throw failure }
        }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
            isWhole = false
            if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
            guard digits() > 0 else { throw failure }
        }
        let text = String(decoding: bytes[start..<position], as: UTF8.self)
        if isWhole, let value = Int64(text) { return .integer(value) }
        guard let value = Double(text), value.isFinite else { throw .syntax(offset: start) }
        return .number(value)
    }
}
