// The vectors of docs/judge/volume-format-vectors.json, as loosely typed as they are.

import Control
import HostSystem

struct Vectors {
    /// Parsed once for all tests.
    private static let document = Result {
        // Three levels above this file is the repository.
        let file = HostPath(#filePath).parent.parent.parent.appending("docs/judge/volume-format-vectors.json")
        return try JSONValue(parsing: readFile(file, limit: 1 << 24))
    }

    private let all: JSONValue

    init() throws {
        all = try Self.document.get()
    }

    func entries(_ kind: String) -> [Vector] { Vector(fields: all).list(kind) }

    var pages: [[UInt8]] {
        (all["pages"]?.elements ?? []).map { Vector.bytes($0.text ?? "") }
    }
}

struct Vector {
    fileprivate let fields: JSONValue

    var comment: String { text("comment") }
    /// Whether the vector must be refused.
    var isRefused: Bool { expectedText == "refuse" }
    /// Whether a newer version made the object.
    var isNewer: Bool { expectedText == "newer" }
    /// Whether the vector's object can be used.
    var isAccepted: Bool { !isRefused && !isNewer }
    var expected: Vector { member("expect") }
    var expectedText: String { text("expect") }
    var expectedNumber: UInt64 { number("expect") }
    /// The members, if all of them are strings.
    var texts: [String: String]? {
        guard let members = fields.members else { return nil }
        let texts = members.compactMap { member in member.value.text.map { (member.key, $0) } }
        return texts.count == members.count ? Dictionary(uniqueKeysWithValues: texts) : nil
    }

    func text(_ name: String) -> String { fields[name]?.text ?? "" }
    func has(_ name: String) -> Bool { fields[name] != nil }
    func isTrue(_ name: String) -> Bool { fields[name]?.bool == true }
    func number(_ name: String) -> UInt64 { fields[name]?.integer.map { UInt64(bitPattern: $0) } ?? .max }
    func signed(_ name: String) -> Int64 { fields[name]?.integer ?? .max }
    func list(_ name: String) -> [Vector] { (fields[name]?.elements ?? []).map { Vector(fields: $0) } }
    func member(_ name: String) -> Vector { Vector(fields: fields[name] ?? .null) }
    func numbers(_ name: String) -> [Int] { (fields[name]?.elements ?? []).compactMap(\.integer).map(Int.init) }
    func hex(_ name: String) -> [UInt8] { Self.bytes(text(name)) }
    func ascii(_ name: String) -> [UInt8] { Array(text(name).utf8) }

    static func bytes(_ text: String) -> [UInt8] {
        let digits = Array(text.utf8).compactMap { Character(UnicodeScalar($0)).hexDigitValue }
        return stride(from: 0, to: digits.count - 1, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }
}

func hex(_ bytes: some Sequence<UInt8>) -> String {
    bytes.map { (byte: UInt8) in (byte < 16 ? "0" : "") + String(byte, radix: 16) }.joined()
}

/// The `count` bytes that `body` writes.
func filled(_ count: Int, _ body: (inout MutableSpan<UInt8>) throws -> Void) rethrows -> [UInt8] {
    var result = [UInt8](repeating: 0, count: count)
    var bytes = result.mutableSpan
    try body(&bytes)
    return result
}
