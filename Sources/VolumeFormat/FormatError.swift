// The reasons why bytes could not be parsed.

/// An error in bytes that should be a part of a volume.
package enum FormatError: Error, Hashable, Sendable {
    /// Fewer or more bytes than the layout needs.
    case length
    /// The bytes do not begin with the object's magic.
    case magic
    /// A version that this program does not know.
    case version(UInt16)
    /// A number that is not a class.
    case unknownClass
    /// A cipher suite that is unknown or not the volume's.
    case suite
    /// A flag, feature bit or parameter (by name) that this program does not know.
    case unsupported(StaticFieldName)
    /// A field (by name) whose value contradicts another one or is out of range.
    case inconsistent(StaticFieldName)
    /// Text that is not strict base64url.
    case encoding

    /// Whether a newer version of the format explains the error. If the object's MAC or tag is right, it was not damaged.
    package var isNewer: Bool {
        switch self {
        case .version(let version): version > FormatVersion.current
        case .unknownClass, .suite, .unsupported: true
        case .length, .magic, .inconsistent, .encoding: false
        }
    }
}

/// The name of a field, for messages.
package struct StaticFieldName: Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    /// The field's name as in docs/judge/volume-format.md.
    package let description: String

    /// Names a field.
    package init(stringLiteral value: String) {
        description = value
    }
}
