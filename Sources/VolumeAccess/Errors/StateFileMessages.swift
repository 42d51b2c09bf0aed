// The messages for a state file that cannot be used: which file, what is wrong, and the way out.

import CommandSupport
import HostSystem
import KeyFiles
import Keybag
import VolumeFormat

extension ErrorMessages {
    /// A state file that cannot be read or written.
    static func stateFile(_ failure: StateFileFailure) -> CommandFailure {
        let path = SystemPaths.data.appending(failure.name)
        let file = "\(path): the state file, which holds what this machine knows of the volume,"
        return switch failure.reason {
        case .unusable(let defect):
            .init(code(defect), "\(file) \(text(defect))protectfs fsck --forget-state VOLUME sets it aside")
        case .unreadable(.EACCES), .unreadable(.EPERM):
            .init(.failure, "\(file) cannot be read: permission denied; change its owner or its permissions")
        case .unreadable(let error):
            .init(
                .failure,
                "\(file) cannot be read: \(reason(error)); check the disk, or protectfs fsck --forget-state VOLUME sets it aside"
            )
        case .unwritable(let error):
            .init(.failure, "\(file) cannot be written: \(reason(error)); \(remedy(error, path.parent))")
        case .readOnly:
            .init(
                .unsupported,
                "\(file) was made by a newer version of protectfs and may only be read by this one; use that version")
        case .full:
            .init(.failure, "\(file) is full; use a newer version of protectfs, which wrote most of it")
        case .noEpochLeft:
            .init(
                .failure,
                "\(file) has no number left for another session, perhaps because the clock was wrong once, so nothing can be written; mount with -o ro, or protectfs fsck --forget-state VOLUME sets it aside"
            )
        }
    }

    private static func code(_ defect: StateFileDefect) -> ExitCode {
        switch defect {
        case .newer, .neverReleased: .unsupported
        case .empty, .cutOff, .damaged, .otherVolume: .volume
        }
    }

    private static func text(_ defect: StateFileDefect) -> String {
        switch defect {
        case .empty: "is empty; "
        case .cutOff(let length, let expected): "is cut off (\(length) of at least \(expected) bytes); "
        case .damaged: "is damaged; "
        case .neverReleased: "was made by a test version of protectfs that was never released; "
        case .newer(let error, let writer):
            "was made by a newer version of protectfs (\(writer.map { "\($0), " } ?? "")\(reason(error))); use that version, or "
        case .otherVolume(let volume):
            "belongs to another volume (\(volume)); put this volume's state file there, or "
        }
    }

    private static func reason(_ error: Errno) -> String { SystemError.reason(of: error.rawValue) }

    private static func remedy(_ error: Errno, _ directory: HostPath) -> String {
        switch error {
        case .ENOSPC, .EDQUOT: "make room on the file system of \(directory)"
        case .EROFS: "make the file system of \(directory) writable"
        case .EACCES, .EPERM: "you need write permission for \(directory) and its files"
        default: "check the disk"
        }
    }
}
