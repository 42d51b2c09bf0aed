// The one place where an error of a volume becomes an errno.

package import HostSystem

extension VolumeError {
    /// What a program is told: locked is EACCES, damage is EIO, all else is the store's own word.
    package var errno: Errno {
        switch self {
        case .locked: .EACCES
        case .damaged: .EIO
        // The program's own table is not full.
        case .store(.EMFILE): .ENFILE
        case .refused(let errno), .store(let errno): errno
        }
    }
}
