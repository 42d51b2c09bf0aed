// Where things lie that belong to a user and not to a volume.

import Glibc

/// Directories by the XDG base directory specification, and those of root.
public enum SystemPaths {
    /// A variable of the environment as bytes; nil when unset or empty.
    public static func environment(_ name: String) -> HostPath? {
        guard let value = unsafe getenv(name) else { return nil }
        let path = HostPath(
            bytes: unsafe UnsafeBufferPointer(start: value, count: strlen(value)).map { UInt8(bitPattern: $0) })
        return path.bytes.isEmpty ? nil : path
    }

    /// The user's home by HOME, else by the password database, else "/".
    public static var home: HostPath {
        if let home = environment("HOME"), home.isAbsolute { return home }
        if let entry = unsafe getpwuid(getuid()), let home = unsafe entry.pointee.pw_dir {
            return HostPath(unsafe String(cString: home))
        }
        return HostPath("/")
    }

    /// The user that this process acts as.
    public static var user: UInt32 { geteuid() }

    /// Where device keys and state files lie: `${XDG_DATA_HOME:-~/.local/share}/protectfs`.
    public static var data: HostPath {
        if let base = environment("XDG_DATA_HOME"), base.isAbsolute { return base.appending("protectfs") }
        return home.appending(".local/share/protectfs")
    }

    /// Where control sockets lie: `$XDG_RUNTIME_DIR/protectfs`, for root `/run/protectfs`; without XDG_RUNTIME_DIR
    /// `/tmp/protectfs-UID`, which is used only when it is the user's own with mode 0700.
    public static var runtime: HostPath {
        if geteuid() == 0 { return HostPath("/run/protectfs") }
        if let base = environment("XDG_RUNTIME_DIR"), base.isAbsolute { return base.appending("protectfs") }
        return HostPath("/tmp/protectfs-\(geteuid())")
    }

    /// Makes `runtime` if it is missing and checks that it is a directory of this user with mode 0700.
    public static func makeRuntime() throws(SystemError) -> HostPath {
        let path = runtime
        try makeDirectories(path)
        var status = stat()
        guard unsafe path.withCString({ unsafe lstat($0, &status) }) == 0 else {
            throw .last("lstat", path.description)
        }
        guard status.st_mode & S_IFMT == S_IFDIR, status.st_uid == geteuid(), status.st_mode & 0o077 == 0 else {
            throw SystemError(code: EACCES, call: "lstat", subject: path.description)
        }
        return path
    }

    /// The control socket of the mount with these device numbers, named MAJOR:MINOR.
    public static func controlSocket(major: UInt32, minor: UInt32) -> HostPath {
        runtime.appending("\(major):\(minor)")
    }
}
