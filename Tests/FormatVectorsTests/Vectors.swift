// The vectors of docs/volume-format-vectors.json, as loosely typed as they are.

// protectfs: plain Foundation: JSON of this repository.
import Foundation

struct Vectors {
    let all: [String: Any]

    init() throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../docs/volume-format-vectors.json")
        all = try JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [String: Any] ?? [:]
    }

    func entries(_ kind: String) -> [Vector] {
        (all[kind] as? [[String: Any]] ?? []).map { Vector(fields: $0) }
    }

    var pages: [[UInt8]] {
        (all["pages"] as? [String] ?? []).map { Vector.bytes($0) }
    }
}

struct Vector {
    let fields: [String: Any]

    var comment: String { text("comment") }
    /// Whether the vector must be refused.
    var isRefused: Bool { fields["expect"] as? String == "refuse" }
    /// Whether a newer version made the object.
    var isNewer: Bool { fields["expect"] as? String == "newer" }
    /// Whether the vector's object can be used.
    var isAccepted: Bool { !isRefused && !isNewer }
    var expected: Vector { Vector(fields: fields["expect"] as? [String: Any] ?? [:]) }
    var expectedText: String { text("expect") }
    var expectedNumber: UInt64 { number("expect") }

    func text(_ name: String) -> String { fields[name] as? String ?? "" }
    func has(_ name: String) -> Bool { fields[name] is String }
    func isTrue(_ name: String) -> Bool { fields[name] as? Bool == true }
    func number(_ name: String) -> UInt64 { (fields[name] as? NSNumber)?.uint64Value ?? .max }
    func signed(_ name: String) -> Int64 { (fields[name] as? NSNumber)?.int64Value ?? .max }
    func list(_ name: String) -> [Vector] { (fields[name] as? [[String: Any]] ?? []).map { Vector(fields: $0) } }
    func numbers(_ name: String) -> [Int] { (fields[name] as? [NSNumber] ?? []).map(\.intValue) }
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
