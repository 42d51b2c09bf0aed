// The messages for errors of the system, of the directory of sockets and of memory: what went wrong, and what to do.

package import HostSystem
package import SodiumKit

/// Turns the errors of other modules into a command's failure.
package enum ErrorMessages {
    /// A failed system call of the command itself.
    package static func system(_ error: SystemError, _ code: ExitCode = .failure) -> CommandFailure {
        .init(code, error.subject.isEmpty ? "\(error.call): \(error.reason)" : "\(error.subject): \(error.reason)")
    }

    /// The directory of control sockets cannot be trusted.
    package static func runtime(_ error: RuntimeDirectoryError) -> CommandFailure {
        let way = "remove it, or give it to this user"
        return switch error {
        case .missing:
            .init(
                .failure,
                "there is no place for the control socket: neither /run/user/\(SystemPaths.user) nor a home directory of this account exists; set XDG_RUNTIME_DIR to a directory of your own with mode 0700, and keep it set for the commands that follow"
            )
        case .system(let error): system(error)
        case .notADirectory(let path):
            .init(.failure, "\(path): not a directory, so it cannot hold control sockets; \(way)")
        case .foreign(let path, let owner):
            .init(
                .failure,
                "\(path): belongs to \(AccountNames.user(owner)), who could impersonate the mount; \(way)")
        case .open(let path):
            .init(
                .failure,
                "\(path): other users can enter this directory of control sockets; run chmod 700 \(path.word)")
        case .replaceable(let path):
            .init(
                .failure,
                "\(path.parent): other users can replace the control sockets in it; run chmod go-w \(path.parent.word)")
        }
    }

    /// Not enough memory, or not enough locked memory.
    package static func memory(_ error: SodiumError) -> CommandFailure {
        switch error {
        case .lockLimit(let bytes):
            .init(
                .failure,
                "the limit of locked memory (\(bytes / 1024) KiB) is too low to keep keys out of swap; raise it (ulimit -l, or LimitMEMLOCK= in systemd)"
            )
        case .outOfMemory: .init(.failure, "not enough memory")
        case .invalidPublicKey: .init(.volume, "the keybag's public key is not valid; the keybag has been changed")
        case .passwordHashMemory:
            .init(
                .unsupported,
                "this machine has too little memory for the password hash of the passphrase; use the recovery code (--recovery-file)"
            )
        }
    }
}
