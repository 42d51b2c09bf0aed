// Writes JSON in one line.

import HostSystem
import VolumeFormat

extension JSONValue {
    /// The value in one line, without a newline at its end.
    package func serialized() -> [UInt8] {
        var bytes: [UInt8] = []
        write(to: &bytes)
        return bytes
    }

    /// The value in one line as text.
    package var line: String { String(decoding: serialized(), as: UTF8.self) }

    private func write(to bytes: inout [UInt8]) {
        switch self {
        case .null: bytes += "null".utf8
        case .bool(let value): bytes += (value ? "true" : "false").utf8
        case .integer(let value): bytes += String(value).utf8
        // JSON cannot represent infinity and NaN.
        case .number(let value): bytes += (value.isFinite ? String(value) : "null").utf8
        case .string(let text): Self.write(text, to: &bytes)
        case .path(let path): Self.write(String(decoding: path.bytes, as: UTF8.self), to: &bytes)
        case .array(let elements):
            Self.writeList(elements, "[", "]", to: &bytes) { element, bytes in element.write(to: &bytes) }
        case .object(let members):
            let all = members.flatMap { member in [member] + [member.hexadecimal].compactMap { $0 } }
            Self.writeList(all, "{", "}", to: &bytes) { member, bytes in
                Self.write(member.key, to: &bytes)
                bytes.append(UInt8(ascii: ":"))
                member.value.write(to: &bytes)
            }
        }
    }

    private static func writeList<Element>(
        _ elements: [Element], _ opening: String, _ closing: String, to bytes: inout [UInt8],
        _ body: (Element, inout [UInt8]) -> Void
    ) {
        bytes += opening.utf8
        for (index, element) in elements.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            body(element, &bytes)
        }
        bytes += closing.utf8
    }

    private static func write(_ text: String, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "\""))
        for unit in text.utf8 {
            switch unit {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes += [UInt8(ascii: "\\"), unit]
            case 0x0a: bytes += "\\n".utf8
            case 0x09: bytes += "\\t".utf8
            case 0x0d: bytes += "\\r".utf8
            case 0..<0x20, 0x7f: bytes += "\\u00".utf8 + Hexadecimal.encode([unit])
            // U+0080 to U+009F, which control a terminal, too. This byte begins no other character.
            case 0x80..<0xa0 where bytes.last == 0xc2:
                bytes.removeLast()
                bytes += "\\u00".utf8 + Hexadecimal.encode([unit])
            // U+2028 and U+2029, which end a line for some programs.
            case 0xa8...0xa9 where bytes.suffix(2) == [0xe2, 0x80]:
                bytes.removeLast(2)
                bytes += "\\u20".utf8 + Hexadecimal.encode([unit - 0x80])
            default: bytes.append(unit)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }
}
