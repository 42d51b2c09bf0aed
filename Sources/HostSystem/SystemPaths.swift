// Paths of files that belong to a user and not to a volume.

import CLibrary

/// Directories of the XDG base directory specification, and those of root.
package enum SystemPaths {
    /// An environment variable as bytes; nil if it is unset or empty.
    package static func environment(_ name: String) -> HostPath? {
        guard let value = unsafe getenv(name) else { return nil }
        let path = HostPath(
            bytes: unsafe UnsafeBufferPointer(start: value, count: strlen(value)).map { UInt8(bitPattern: $0) })
        return path.bytes.isEmpty ? nil : path
    }

    /// The user's home directory, from HOME, else from the password database, else "/".
    package static var home: HostPath {
        if let home = environment("HOME"), home.isAbsolute { return home }
        if let entry = unsafe getpwuid(getuid()), let home = unsafe entry.pointee.pw_dir {
            return HostPath(unsafe String(cString: home))
        }
        return HostPath("/")
    }

    /// The effective user ID of this process.
    package static var user: UInt32 { geteuid() }

    /// The directory of device keys and state files: `${XDG_DATA_HOME:-~/.local/share}/protectfs`.
    package static var data: HostPath {
        if let base = environment("XDG_DATA_HOME"), base.isAbsolute { return base.appending("protectfs") }
        return home.appending(".local/share/protectfs")
    }
    /// The configuration file of the administrator.
    package static let systemConfiguration = HostPath("/etc/protectfs/config")

    /// The user's own configuration file: `${XDG_CONFIG_HOME:-~/.config}/protectfs/config`, where ~ is the home directory of the
    /// account. Nil if the account has none.
    package static var userConfiguration: HostPath? {
        let name = "protectfs/config"
        if let base = environment("XDG_CONFIG_HOME"), base.isAbsolute { return base.appending(name) }
        return accountHome(of: geteuid())?.appending(".config").appending(name)
    }
}
