// The errors of this machine's state file, which are not the volume's.

package import HostSystem
package import Keybag

/// Why a state file could not be read or written.
package struct StateFileFailure: Error, Equatable, Sendable {
    /// The kinds of failures.
    package enum Reason: Equatable, Sendable {
        /// Its bytes cannot be used.
        case unusable(StateFileDefect)
        /// The file system does not give its bytes.
        case unreadable(Errno)
        /// The file system does not take another one in its place, or its lock.
        case unwritable(Errno)
        /// A newer version of protectfs has forbidden this one to write it. It may be read.
        case readOnly
        /// It has no room for what must be recorded.
        case full
        /// Its highest epoch is the last one.
        case noEpochLeft
    }

    /// The file's name in the directory of state files.
    package let name: String
    /// What is wrong.
    package let reason: Reason

    /// A failure.
    package init(name: String, _ reason: Reason) {
        self.name = name
        self.reason = reason
    }

    /// The errno that a program gets.
    package var errno: Errno {
        switch reason {
        case .unusable(.newer): .EOPNOTSUPP
        case .unusable: .EIO
        case .unreadable(let errno), .unwritable(let errno): VolumeError.store(errno).errno
        case .readOnly, .noEpochLeft: .EROFS
        case .full: .ENOSPC
        }
    }
}
