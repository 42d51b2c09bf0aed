// Where a mount's control socket is, or will be.

import Glibc

/// The places that docs/control-protocol.md names.
enum ControlSocket {
    /// Where to look.
    struct Places {
        /// Sockets that the mount may have; none when nothing is mounted.
        var sockets: [String] = []
        /// The directories in which one would appear.
        var directories: [String] = []
        /// Whose mount it is.
        var owner: UInt32?
        /// Why this process is not allowed to connect.
        var closed: ProtectionSystemError?
    }

    /// The places for the mount at a path, as it is now.
    static func places(_ mountPoint: String) -> Places {
        var places = Places()
        places.directories = [runtime]
        guard let mount = ProtectedMount.all().last(where: { $0.path == mountPoint }) else { return places }
        let owner = user(of: mount.device)
        if geteuid() == 0 {
            places.owner = owner
            if let owner, owner != 0 {
                places.directories += ["/run/user/\(owner)/protectfs", "/tmp/protectfs-\(owner)"]
            }
        } else if let owner, owner != geteuid() {
            // The socket's directory is its owner's alone.
            places.closed = ProtectionSystemError(code: EACCES, call: "connect")
        }
        places.sockets = places.directories.map { "\($0)/\(mount.device)" }
        return places
    }

    private static var runtime: String {
        if geteuid() == 0 { return "/run/protectfs" }
        if let base = ProcessInfo.processInfo.environment["XDG_RUNTIME_DIR"], base.hasPrefix("/") {
            return base + "/protectfs"
        }
        return "/tmp/protectfs-\(geteuid())"
    }

    /// The option `user_id` of a mount.
    private static func user(of device: String) -> UInt32? {
        guard let table = try? String(contentsOfFile: "/proc/self/mountinfo", encoding: .utf8) else { return nil }
        for line in table.split(separator: "\n") {
            let fields = line.split(separator: " ")
            guard fields.count > 2, fields[2] == device, let options = fields.last else { continue }
            for option in options.split(separator: ",") where option.hasPrefix("user_id=") {
                return UInt32(option.dropFirst(8))
            }
        }
        return nil
    }
}
