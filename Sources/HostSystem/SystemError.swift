// A system call that failed: which one, on what, and the errno.

import Glibc

/// A system call that failed.
package struct SystemError: Error, Sendable, Hashable, CustomStringConvertible {
    /// errno as the call left it.
    package let cause: Errno
    /// The call, as its manual page is named.
    package let call: String
    /// What it was about; empty when there is nothing to name.
    package let subject: String

    /// Makes an error from parts.
    package init(code: Int32, call: String, subject: String = "") {
        cause = Errno(rawValue: code)
        self.call = call
        self.subject = subject
    }

    /// Takes errno as the last call of this thread left it.
    package static func last(_ call: String, _ subject: String = "") -> SystemError {
        SystemError(code: errno, call: call, subject: subject)
    }

    /// The same number, to be compared with those of Glibc.
    package var code: Int32 { cause.rawValue }

    /// What strerror(3) says about it.
    package var reason: String { cause.description }

    /// What strerror(3) says about `code`.
    package static func reason(of code: Int32) -> String { Errno(rawValue: code).description }

    /// The failure in one line for a log.
    package var description: String {
        subject.isEmpty ? "\(call): \(reason)" : "\(subject): \(reason) (\(call))"
    }
}
