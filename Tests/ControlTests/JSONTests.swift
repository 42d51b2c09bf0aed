// Tests untrusted JSON: accepted JSON reads back as it was written, all other input is refused.

import HostSystem
import Testing

@testable import Control

@Suite struct JSONTests {
    @Test(arguments: [
        "null", "true", "false", "0", "-1", "9223372036854775807", "1.5", "-2.5e+10", "\"\"",
        "\"a\\u0000b\\n\\\"\\\\\"",
        "[]", "[1,[2,[]]]", "{}", "{\"a\":1,\"b\":{\"c\":null}}", "\"ü€𝄞\"",
    ])
    func roundTrips(_ text: String) throws {
        let value = try JSONValue(parsing: Array(text.utf8))
        #expect(try JSONValue(parsing: value.serialized()) == value)
        #expect(!value.serialized().contains(0x0a))
    }

    @Test func escapes() throws {
        #expect(try JSONValue(parsing: Array(#""\ud834\udd1e\/\b\f\r\t\u00e4""#.utf8)) == "𝄞/\u{8}\u{c}\r\tä")
        #expect(JSONValue.string("\u{1}\u{7f}").line == #""\u0001\u007f""#)
        // Separators of lines and paragraphs, and their neighbours.
        #expect(JSONValue.string("\u{2027}\u{2028}\u{2029}\u{202a}").line == "\"\u{2027}\\u2028\\u2029\u{202a}\"")
        // C1 controls, and their neighbours.
        #expect(JSONValue.string("\u{80}\u{9b}\u{9f}\u{a0}üÀ").line == "\"\\u0080\\u009b\\u009f\u{a0}üÀ\"")
    }

    /// A path that is not UTF-8 has its bytes beside it, and comes back from them.
    @Test func paths() throws {
        let (plain, other) = (HostPath("/ü\n"), HostPath(bytes: [0x2f, 0xff]))
        let written: JSONValue = ["a": .path(plain), "b": .path(other), "c": .array([.path(plain), .path(other)])]
        #expect(
            written.line
                == #"{"a":"/ü\n","b":"/�","bHex":"2fff","c":["/ü\n","/�"],"cHex":["2fc3bc0a","2fff"]}"#)
        let read = try JSONValue(parsing: written.serialized())
        for value in [written, read] {
            #expect(value.path("a") == plain)
            #expect(value.path("b") == other)
            #expect(value.path("d") == nil)
        }
    }

    @Test(arguments: [
        "", " ", "nul", "nullx", "01", "1.", ".5", "+1", "-", "1e", "1e999", "[1,]", "[", "[1", "{", "{\"a\"}",
        "{\"a\":}",
        "{a:1}", "{\"a\":1,}", "\"", "\"\\x\"", "\"\\ud834\"", "\"\\udd1e\"", "\"\\u12g4\"", "\"\n\"", "1 2", "'a'",
        "\u{feff}1", "NaN", "{\"a\":1,\"a\":2}",
    ])
    func refuses(_ text: String) {
        #expect(throws: JSONError.self) { _ = try JSONValue(parsing: Array(text.utf8)) }
    }

    @Test func brokenUTF8AndDepth() {
        for bytes in [[0x22, 0xff, 0x22], [0x22, 0xc0, 0x80, 0x22], [0x22, 0xed, 0xa0, 0x80, 0x22], [0xff]] as [[UInt8]]
        {
            #expect(throws: JSONError.self) { _ = try JSONValue(parsing: bytes) }
        }
        let deep = [UInt8](repeating: UInt8(ascii: "["), count: 60_000)
        #expect(throws: JSONError.depth) { _ = try JSONValue(parsing: deep) }
        let allowed = String(repeating: "[", count: 16) + String(repeating: "]", count: 16)
        #expect((try? JSONValue(parsing: Array(allowed.utf8))) != nil)
    }

    /// No bytes make the parser trap, and what it accepts is stable.
    @Test func randomBytes() {
        var generator = SystemRandomNumberGenerator()
        let alphabet = Array("{}[]\",:0123456789.eE+-\\u truefalsn\u{e4}".utf8)
        for _ in 0..<20_000 {
            let count = Int.random(in: 0..<24, using: &generator)
            let bytes = (0..<count).map { _ in alphabet.randomElement(using: &generator) ?? 0 }
            if let value = try? JSONValue(parsing: bytes) {
                #expect((try? JSONValue(parsing: value.serialized())) == value)
            }
        }
    }
}
