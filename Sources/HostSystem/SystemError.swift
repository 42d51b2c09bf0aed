// The error of a failed system call, with the call and its object.

import CLibrary

/// A system call that failed.
package struct SystemError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The errno of the call.
    package let cause: Errno
    /// The name of the call's manual page.
    package let call: String
    /// The object of the call, such as a path; empty if there is none.
    package let subject: String

    /// Makes an error from its parts.
    package init(code: Int32, call: String, subject: String = "") {
        cause = Errno(rawValue: code)
        self.call = call
        self.subject = subject
    }

    /// The error of this thread's last call, from errno.
    package static func last(_ call: String, _ subject: String = "") -> SystemError {
        SystemError(code: errno, call: call, subject: subject)
    }

    /// The error number, for comparison with the constants of CLibrary.
    package var code: Int32 { cause.rawValue }

    /// The text of strerror(3).
    package var reason: String { cause.description }

    /// The text of strerror(3) for `code`.
    package static func reason(of code: Int32) -> String { Errno(rawValue: code).description }

    /// The failure in one line for a log.
    package var description: String {
        subject.isEmpty ? "\(call): \(reason)" : "\(subject): \(reason) (\(call))"
    }
}
