// What the library refuses in its own name: where there is no protection, no such class, no word with the mount's daemon.

/// Why something was refused for a reason that is not the file's.
///
/// A locked file is not among them: that is `CocoaError` 257 or 513, as on an iPhone; see `isProtectedDataUnavailable`.
public enum FileProtectionError: Error, Equatable, Sendable {
    /// The path is on no protected mount: a class would mean nothing there, and there is no state to observe.
    case notProtected(path: String, why: String)
    /// The value names none of the four classes.
    case unknownClass(value: String)
    /// The mount's daemon does not talk to this user; the mount's `state` can be read all the same.
    case unreachable(path: String, cause: ProtectionSystemError)

    /// The refusal for a path that is on no protected mount.
    static func notProtected(_ path: String) -> FileProtectionError {
        .notProtected(
            path: path,
            why: ProtectedMount.all().isEmpty
                ? "no protectfs volume is mounted" : "it is outside every mounted protectfs volume")
    }
}

extension FileProtectionError: LocalizedError, CustomStringConvertible {
    /// The sentence for a person.
    public var description: String {
        switch self {
        case .notProtected(let path, let why): "\(path) has no data protection: \(why)"
        case .unknownClass(let value): "“\(value)” is not a protection class"
        case .unreachable(let path, _): "\(path): this mount belongs to another user; only its state can be read"
        }
    }

    /// The same sentence, as Foundation asks for it.
    public var errorDescription: String? { description }

    /// What to do about it.
    public var recoverySuggestion: String? {
        switch self {
        case .notProtected: "Put it on a protectfs mount, or set FileProtection.policy."
        case .unknownClass: "Use one of the four values of FileProtectionType."
        case .unreachable: "Run as the user who mounted it, or read ProtectedData.state."
        }
    }
}
