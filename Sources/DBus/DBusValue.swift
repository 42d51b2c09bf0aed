// A value of D-Bus as a Swift value, for arguments and answers that are no secrets.

/// A value with its type. Secrets go through `DBusMessage.appendBytes` and `withBytes` instead, without a copy on the heap of Swift.
package indirect enum DBusValue: Sendable, Hashable {
    case byte(UInt8)
    case bool(Bool)
    case int16(Int16)
    case uint16(UInt16)
    case int32(Int32)
    case uint32(UInt32)
    case int64(Int64)
    case uint64(UInt64)
    case double(Double)
    case string(String)
    /// An object path.
    case path(String)
    case signature(String)
    /// A file descriptor. One that was read belongs to its message; the library duplicates one that is sent.
    case descriptor(Int32)
    /// `ay`.
    case bytes([UInt8])
    /// An array, with the signature of its elements.
    case array(of: String, [DBusValue])
    case structure([DBusValue])
    /// An array of entries, with the signatures of key and value.
    case dictionary(key: String, value: String, [Entry])
    case variant(DBusValue)

    /// A key of a dictionary with its value.
    package struct Entry: Sendable, Hashable {
        /// The key, of a basic type.
        package let key: DBusValue
        /// Of any type that the dictionary's type allows.
        package let value: DBusValue

        /// Makes an entry.
        package init(_ key: DBusValue, _ value: DBusValue) {
            self.key = key
            self.value = value
        }
    }

    /// Its type, as D-Bus writes it.
    package var signature: String {
        switch self {
        case .byte: "y"
        case .bool: "b"
        case .int16: "n"
        case .uint16: "q"
        case .int32: "i"
        case .uint32: "u"
        case .int64: "x"
        case .uint64: "t"
        case .double: "d"
        case .string: "s"
        case .path: "o"
        case .signature: "g"
        case .descriptor: "h"
        case .bytes: "ay"
        case .array(let element, _): "a" + element
        case .structure(let members): "(" + members.map(\.signature).joined() + ")"
        case .dictionary(let key, let value, _): "a{" + key + value + "}"
        case .variant: "v"
        }
    }

    // MARK: what comes in most calls

    /// `as`.
    package static func strings(_ texts: [String]) -> DBusValue { .array(of: "s", texts.map { .string($0) }) }
    /// `ao`.
    package static func paths(_ paths: [String]) -> DBusValue { .array(of: "o", paths.map { .path($0) }) }
    /// `a{sv}`.
    package static func properties(_ values: [(String, DBusValue)]) -> DBusValue {
        .dictionary(key: "s", value: "v", values.map { Entry(.string($0.0), .variant($0.1)) })
    }

    /// The text of a string, an object path or a signature.
    package var text: String? {
        switch self {
        case .string(let text), .path(let text), .signature(let text): text
        default: nil
        }
    }

    /// A truth value.
    package var bool: Bool? { if case .bool(let value) = self { value } else { nil } }

    /// An integer of any size that fits.
    package var integer: Int64? {
        switch self {
        case .byte(let value): Int64(value)
        case .int16(let value): Int64(value)
        case .uint16(let value): Int64(value)
        case .int32(let value): Int64(value)
        case .uint32(let value): Int64(value)
        case .int64(let value): value
        case .uint64(let value): Int64(exactly: value)
        default: nil
        }
    }

    /// What a variant has in it; any other value is itself.
    package var content: DBusValue { if case .variant(let value) = self { value.content } else { self } }

    /// The elements of an array, or the members of a structure.
    package var elements: [DBusValue]? {
        switch self {
        case .array(_, let elements), .structure(let elements): elements
        default: nil
        }
    }

    /// The entries of a dictionary.
    package var entries: [Entry]? { if case .dictionary(_, _, let entries) = self { entries } else { nil } }

    /// The content of a dictionary's entry whose key is a text.
    package subscript(key key: String) -> DBusValue? { entries?.first { $0.key.text == key }?.value.content }
}
