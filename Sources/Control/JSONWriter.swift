// Writes JSON: in one line for the socket and `watch`, indented for people.

import VolumeFormat

extension JSONValue {
    /// The value in one line, without a newline at its end.
    package func serialized() -> [UInt8] {
        var bytes: [UInt8] = []
        write(to: &bytes, indentation: nil)
        return bytes
    }

    /// The value in one line as text.
    package var line: String { String(decoding: serialized(), as: UTF8.self) }

    /// The value over several lines, two spaces for each level.
    package func pretty() -> String {
        var bytes: [UInt8] = []
        write(to: &bytes, indentation: 0)
        return String(decoding: bytes, as: UTF8.self)
    }

    private func write(to bytes: inout [UInt8], indentation: Int?) {
        switch self {
        case .null: bytes += "null".utf8
        case .bool(let value): bytes += (value ? "true" : "false").utf8
        case .integer(let value): bytes += String(value).utf8
        // JSON cannot represent infinity and NaN.
        case .number(let value): bytes += (value.isFinite ? String(value) : "null").utf8
        case .string(let text): Self.write(text, to: &bytes)
        case .array(let elements):
            Self.writeList(elements, "[", "]", to: &bytes, indentation: indentation) { element, bytes, level in
                element.write(to: &bytes, indentation: level)
            }
        case .object(let members):
            Self.writeList(members, "{", "}", to: &bytes, indentation: indentation) { member, bytes, level in
                Self.write(member.key, to: &bytes)
                bytes += (level == nil ? ":" : ": ").utf8
                member.value.write(to: &bytes, indentation: level)
            }
        }
    }

    private static func writeList<Element>(
        _ elements: [Element], _ opening: String, _ closing: String, to bytes: inout [UInt8], indentation: Int?,
        _ body: (Element, inout [UInt8], Int?) -> Void
    ) {
        bytes += opening.utf8
        let inner = indentation.map { $0 + 2 }
        for (index, element) in elements.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            newline(inner, to: &bytes)
            body(element, &bytes, inner)
        }
        if !elements.isEmpty { newline(indentation, to: &bytes) }
        bytes += closing.utf8
    }

    private static func newline(_ indentation: Int?, to bytes: inout [UInt8]) {
        guard let indentation else { return }
        bytes.append(UInt8(ascii: "\n"))
        bytes += [UInt8](repeating: UInt8(ascii: " "), count: indentation)
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
            default: bytes.append(unit)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }
}
