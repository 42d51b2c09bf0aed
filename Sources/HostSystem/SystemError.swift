// The one error of this module: which call failed, on what, and the errno.

import Glibc

/// A system call that failed.
public struct SystemError: Error, Sendable, Hashable, CustomStringConvertible {
    /// errno as the call left it.
    public let code: Int32
    /// The call, as its manual page is named.
    public let call: String
    /// What it was about; empty when there is nothing to name.
    public let subject: String

    /// Makes an error from parts.
    public init(code: Int32, call: String, subject: String = "") {
        self.code = code
        self.call = call
        self.subject = subject
    }

    /// Takes errno as the last call of this thread left it.
    public static func last(_ call: String, _ subject: String = "") -> SystemError {
        SystemError(code: errno, call: call, subject: subject)
    }

    /// strerror(3) of the code.
    public var reason: String { Self.reason(of: code) }

    /// strerror(3) of `code`.
    public static func reason(of code: Int32) -> String {
        unsafe strerror(code).map { unsafe String(cString: $0) } ?? "error \(code)"
    }

    /// The failure in one line for a log.
    public var description: String {
        subject.isEmpty ? "\(call): \(reason)" : "\(subject): \(reason) (\(call))"
    }
}
