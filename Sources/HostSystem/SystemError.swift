// The one error of this module: which call failed, on what, and the errno.

import Glibc

/// A system call that failed.
package struct SystemError: Error, Sendable, Hashable, CustomStringConvertible {
    /// errno as the call left it.
    package let code: Int32
    /// The call, as its manual page is named.
    package let call: String
    /// What it was about; empty when there is nothing to name.
    package let subject: String

    /// Makes an error from parts.
    package init(code: Int32, call: String, subject: String = "") {
        self.code = code
        self.call = call
        self.subject = subject
    }

    /// Takes errno as the last call of this thread left it.
    package static func last(_ call: String, _ subject: String = "") -> SystemError {
        SystemError(code: errno, call: call, subject: subject)
    }

    /// strerror(3) of the code.
    package var reason: String { Self.reason(of: code) }

    /// strerror(3) of `code`.
    package static func reason(of code: Int32) -> String {
        unsafe strerror(code).map { unsafe String(cString: $0) } ?? "error \(code)"
    }

    /// The failure in one line for a log.
    package var description: String {
        subject.isEmpty ? "\(call): \(reason)" : "\(subject): \(reason) (\(call))"
    }
}
