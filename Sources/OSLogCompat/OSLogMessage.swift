// A message of the log, whose interpolated texts are private unless the program says otherwise.

/// Whether a value is written (Apple's `OSLogPrivacy`). Private values are written as `<private>`: the journal is a plain file.
public struct OSLogPrivacy: Equatable, Sendable {
    /// What is written in place of a private value. A hash of a short text can be guessed, so none is written.
    public enum Mask: Sendable { case none, hash }

    /// Nil for what the kind of the value says.
    private let isPublic: Bool?

    /// Numbers and truth values are written, everything else is private.
    public static var auto: OSLogPrivacy { OSLogPrivacy(isPublic: nil) }
    /// The value is written.
    public static var `public`: OSLogPrivacy { OSLogPrivacy(isPublic: true) }
    /// The value is not written.
    public static var `private`: OSLogPrivacy { OSLogPrivacy(isPublic: false) }
    /// The value is not written.
    public static var sensitive: OSLogPrivacy { .private }
    /// As `auto`.
    public static func auto(mask: Mask) -> OSLogPrivacy { .auto }
    /// As `private`.
    public static func `private`(mask: Mask) -> OSLogPrivacy { .private }
    /// As `private`.
    public static func sensitive(mask: Mask) -> OSLogPrivacy { .private }

    fileprivate func text(_ value: () -> String, isScalar: Bool) -> String {
        isPublic ?? isScalar ? value() : "<private>"
    }
}

/// The columns that a value fills (Apple's `OSLogStringAlignment`).
public struct OSLogStringAlignment: Sendable {
    fileprivate let columns: Int
    fileprivate let isRight: Bool

    /// No columns.
    public static var none: OSLogStringAlignment { .init(columns: 0, isRight: false) }
    /// Spaces behind the value.
    public static func left(columns: Int) -> OSLogStringAlignment { .init(columns: columns, isRight: false) }
    /// Spaces in front of the value.
    public static func right(columns: Int) -> OSLogStringAlignment { .init(columns: columns, isRight: true) }

    fileprivate func fill(_ text: String) -> String {
        let space = String(repeating: " ", count: min(max(columns - text.count, 0), 1024))
        return isRight ? space + text : text + space
    }
}

/// The digits of a whole number (Apple's `OSLogIntegerFormatting`).
public struct OSLogIntegerFormatting: Sendable {
    fileprivate let radix: Int
    /// To the base ten.
    public static var decimal: OSLogIntegerFormatting { .init(radix: 10) }
    /// To the base sixteen.
    public static var hex: OSLogIntegerFormatting { .init(radix: 16) }
    /// To the base eight.
    public static var octal: OSLogIntegerFormatting { .init(radix: 8) }
}

/// A message of the log (Apple's `OSLogMessage`), written as a string literal.
public struct OSLogMessage: ExpressibleByStringInterpolation, Sendable {
    let text: String

    /// A message without values.
    public init(stringLiteral value: String) { text = value }
    /// A message with values.
    public init(stringInterpolation: OSLogInterpolation) { text = stringInterpolation.text }
}

/// The values in a message (Apple's `OSLogInterpolation`).
public struct OSLogInterpolation: StringInterpolationProtocol, Sendable {
    var text = ""

    /// Begins a message.
    public init(literalCapacity: Int, interpolationCount: Int) {}

    /// Adds a text of the program's code.
    public mutating func appendLiteral(_ literal: String) { text += literal }

    private mutating func add(
        _ privacy: OSLogPrivacy, _ align: OSLogStringAlignment, isScalar: Bool = true, _ value: () -> String
    ) {
        text += align.fill(privacy.text(value, isScalar: isScalar))
    }

    // `format` has no default value: the compiler prefers the function for any value if that has fewer parameters.

    /// Adds a whole number.
    public mutating func appendInterpolation<Number: FixedWidthInteger>(
        _ number: @autoclosure () -> Number, align: OSLogStringAlignment = .none, privacy: OSLogPrivacy = .auto
    ) {
        add(privacy, align) { "\(number())" }
    }

    /// Adds a whole number with digits to a base.
    public mutating func appendInterpolation<Number: FixedWidthInteger>(
        _ number: @autoclosure () -> Number, format: OSLogIntegerFormatting,
        align: OSLogStringAlignment = .none, privacy: OSLogPrivacy = .auto
    ) {
        add(privacy, align) { String(number(), radix: format.radix) }
    }

    /// Adds a number.
    public mutating func appendInterpolation<Number: BinaryFloatingPoint & CustomStringConvertible>(
        _ number: @autoclosure () -> Number, align: OSLogStringAlignment = .none, privacy: OSLogPrivacy = .auto
    ) {
        add(privacy, align) { "\(number())" }
    }

    /// Adds a truth value.
    public mutating func appendInterpolation(_ value: @autoclosure () -> Bool, privacy: OSLogPrivacy = .auto) {
        add(privacy, .none) { "\(value())" }
    }

    /// Adds a text, which is private unless `privacy` says otherwise.
    public mutating func appendInterpolation(
        _ value: @autoclosure () -> String, align: OSLogStringAlignment = .none, privacy: OSLogPrivacy = .auto
    ) {
        add(privacy, align, isScalar: false, value)
    }

    /// Adds a value as text, which is private unless `privacy` says otherwise.
    public mutating func appendInterpolation<Value: CustomStringConvertible>(
        _ value: @autoclosure () -> Value, align: OSLogStringAlignment = .none, privacy: OSLogPrivacy = .auto
    ) {
        add(privacy, align, isScalar: false) { value().description }
    }

    /// Adds an error, which is private unless `privacy` says otherwise: its text can have the names of files.
    public mutating func appendInterpolation(
        _ error: @autoclosure () -> any Error, privacy: OSLogPrivacy = .auto
    ) {
        add(privacy, .none, isScalar: false) { "\(error())" }
    }
}
