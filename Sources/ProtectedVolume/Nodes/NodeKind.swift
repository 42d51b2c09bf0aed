// The kinds of objects in a volume, and the caller that creates one.

package import BackingStore

/// The kind of an object. The backing object has the same kind.
package enum NodeKind: UInt8, Sendable {
    case directory
    /// A regular file.
    case file
    /// A symbolic link.
    case symlink
    case fifo
    case socket
    case characterDevice
    case blockDevice

    /// The kind of a backing object; nil when the store did not say.
    package init?(_ kind: FileKind) {
        switch kind {
        case .directory: self = .directory
        case .regular: self = .file
        case .symlink: self = .symlink
        case .fifo: self = .fifo
        case .socket: self = .socket
        case .characterDevice: self = .characterDevice
        case .blockDevice: self = .blockDevice
        case .unknown: return nil
        }
    }

    /// The kind of the backing object, as in `d_type` and the type bits of `st_mode`.
    package var fileKind: FileKind {
        switch self {
        case .directory: .directory
        case .file: .regular
        case .symlink: .symlink
        case .fifo: .fifo
        case .socket: .socket
        case .characterDevice: .characterDevice
        case .blockDevice: .blockDevice
        }
    }
}

/// The credentials of the program that creates an object.
package struct Caller: Sendable {
    /// The user. Owns the new object if the daemon is root.
    package var user: UInt32
    /// The group of the new object, unless the directory passes on its own.
    package var group: UInt32
    /// The umask; applied only in directories without a default ACL.
    package var mask: UInt32

    /// A caller of these credentials.
    package init(user: UInt32, group: UInt32, mask: UInt32) {
        self.user = user
        self.group = group
        self.mask = mask
    }
}
