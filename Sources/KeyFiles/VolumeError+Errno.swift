// Maps each error of a volume to an errno.

package import HostSystem

extension VolumeError {
    /// The errno that a program gets: EACCES for locked, EIO for damage, EOPNOTSUPP for newer, otherwise the store's own error.
    package var errno: Errno {
        switch self {
        case .locked: .EACCES
        case .damaged: .EIO
        case .newer: .EOPNOTSUPP
        case .stateFile(let failure): failure.errno
        // EMFILE would mean that the program's own table is full.
        case .store(.EMFILE): .ENFILE
        case .refused(let errno), .store(let errno): errno
        }
    }
}
