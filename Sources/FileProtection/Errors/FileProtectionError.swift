// What the library refuses in its own name: a class where there is no protection, and a class that there is not.

/// A class could not be given for a reason that is not the file's.
public enum FileProtectionError: Error, Equatable, Sendable {
    /// The path is not on a protected mount, so that a class would mean nothing there.
    case notProtected(path: String, why: String)
    /// The value names none of the four classes.
    case unknownClass(value: String)
}

extension FileProtectionError: LocalizedError, CustomStringConvertible {
    /// The sentence for a person.
    public var description: String {
        switch self {
        case .notProtected(let path, let why):
            "\(path) has no data protection: \(why). Put it on a protectfs mount, or set FileProtection.policy."
        case .unknownClass(let value): "“\(value)” is not a protection class"
        }
    }

    /// The same sentence, as Foundation asks for it.
    public var errorDescription: String? { description }
}
