// The library's own errors: no protected mount, unknown class, unreachable daemon.

/// An error of the library itself.
///
/// A locked file causes a `CocoaError` instead, with code 257 or 513 as on an iPhone. See `isProtectedDataUnavailable`.
public enum FileProtectionError: Error, Equatable, Sendable {
    /// The path is outside every protected mount, so it can have no class and no state.
    case notProtected(path: String, why: String)
    /// The value is none of the classes.
    case unknownClass(value: String)
    /// The mount belongs to another user, so its daemon refuses the connection. Its `state` can still be read.
    case unreachable(path: String, cause: ProtectionSystemError)

    /// The error for a path outside every protected mount.
    static func notProtected(_ path: String) -> FileProtectionError {
        .notProtected(
            path: path,
            why: ProtectedMount.all().isEmpty
                ? "no protectfs volume is mounted" : "it is outside every mounted protectfs volume")
    }
}

extension FileProtectionError: LocalizedError, CustomStringConvertible {
    /// The error in one sentence.
    public var description: String {
        switch self {
        case .notProtected(let path, let why): "\(path) has no data protection: \(why)"
        case .unknownClass(let value): "“\(value)” is not a protection class"
        case .unreachable(let path, _): "\(path): this mount belongs to another user; only its state can be read"
        }
    }

    /// The error in one sentence (`LocalizedError.errorDescription`).
    public var errorDescription: String? { description }

    /// A way to correct the error (`LocalizedError.recoverySuggestion`).
    public var recoverySuggestion: String? {
        switch self {
        case .notProtected: "Put it on a protectfs mount, or set FileProtection.policy."
        case .unknownClass: "Use one of the five values of FileProtectionType."
        case .unreachable: "Run as the user who mounted it, or read ProtectedData.state."
        }
    }
}
