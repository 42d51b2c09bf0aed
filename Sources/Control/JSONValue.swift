// JSON values, for the control socket and for `--json`.

package import HostSystem
import VolumeFormat

/// A member of a JSON object.
package struct JSONMember: Sendable, Equatable {
    /// The member's name.
    package let key: String
    /// What the member holds; it may be null.
    package let value: JSONValue

    /// The end of the name of a member with the bytes of a path.
    static let bytes = "Hex"

    /// The member with the bytes of this one's path, or of its paths. Nil if all of them are UTF-8.
    var hexadecimal: JSONMember? {
        func isText(_ path: HostPath) -> Bool { String(validating: path.bytes, as: UTF8.self) != nil }
        switch value {
        case .path(let path) where !isText(path):
            return JSONMember(key + Self.bytes, .string(Hexadecimal.text(path.bytes)))
        case .array(let elements):
            let paths = elements.compactMap { element -> HostPath? in
                if case .path(let path) = element { path } else { nil }
            }
            guard !paths.allSatisfy(isText) else { return nil }
            return JSONMember(key + Self.bytes, .array(paths.map { .string(Hexadecimal.text($0.bytes)) }))
        default: return nil
        }
    }

    /// Names a value.
    package init(_ key: String, _ value: JSONValue) {
        self.key = key
        self.value = value
    }
}

/// A JSON value; objects keep the order of their members.
package enum JSONValue: Sendable, Equatable {
    /// null
    case null
    /// true or false
    case bool(Bool)
    /// A number without fraction or exponent that fits 64 bits.
    case integer(Int64)
    /// Any other number; never infinite or NaN when parsed.
    case number(Double)
    case string(String)
    /// A path, which need not be UTF-8. It is written as a string; an object's member NAME whose path is not UTF-8 gets NAMEHex
    /// beside it, which has its bytes. The parser does not make it.
    case path(HostPath)
    case array([JSONValue])
    /// An object. The parser rejects two members of the same name.
    case object([JSONMember])

    /// The object's member `key`; nil if there is none, or if this is not an object.
    package subscript(key: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members.first { $0.key == key }?.value
    }

    /// The string, if it is one.
    package var text: String? {
        if case .string(let text) = self { return text }
        return nil
    }

    /// The path that the object's member `key` was written from. Nil if there is none.
    package func path(_ key: String) -> HostPath? {
        if case .path(let path) = self[key] { return path }
        guard let text = self[key]?.text else { return nil }
        return self[key + JSONMember.bytes]?.text.flatMap { Hexadecimal.decode($0.utf8) }.map { HostPath(bytes: $0) }
            ?? HostPath(text)
    }

    /// The integer, if it is one.
    package var integer: Int64? {
        if case .integer(let value) = self { return value }
        return nil
    }

    /// The number, whole or not, if it is one.
    package var number: Double? {
        switch self {
        case .integer(let value): Double(value)
        case .number(let value): value
        default: nil
        }
    }

    /// The number as seconds from now, between 0 and a million. A daemon of another user may send any number.
    package var seconds: Double? {
        number.map { $0 > 0 ? min($0, 1e6) : 0 }
    }

    /// The truth value, if it is one.
    package var bool: Bool? {
        if case .bool(let value) = self { return value }
        return nil
    }

    /// The elements, if it is an array.
    package var elements: [JSONValue]? {
        if case .array(let elements) = self { return elements }
        return nil
    }

    /// The members, if it is an object.
    package var members: [JSONMember]? {
        if case .object(let members) = self { return members }
        return nil
    }

    /// An unsigned number; null if it exceeds 63 bits.
    package static func unsigned(_ value: UInt64) -> JSONValue {
        Int64(exactly: value).map { .integer($0) } ?? .null
    }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral, ExpressibleByNilLiteral
{
    /// A string.
    package init(stringLiteral value: String) { self = .string(value) }
    /// An integer.
    package init(integerLiteral value: Int64) { self = .integer(value) }
    /// A truth value.
    package init(booleanLiteral value: Bool) { self = .bool(value) }
    /// An array.
    package init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    /// An object, in the order written.
    package init(dictionaryLiteral elements: (String, JSONValue)...) {
        self = .object(elements.map { JSONMember($0.0, $0.1) })
    }
    /// null
    package init(nilLiteral: ()) { self = .null }
}
