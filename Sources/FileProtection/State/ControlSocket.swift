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
        var sources = runtimes
        // Where new ones come. /tmp, where much else appears, is not watched beside a better place.
        places.directories = [sources[0]]
        guard let mount = ProtectedMount.all().last(where: { $0.path == mountPoint }) else { return places }
        let owner = user(of: mount.device)
        if geteuid() == 0 {
            places.owner = owner
            if let owner, owner != 0 {
                let others = ["/run/user/\(owner)/protectfs", "/tmp/protectfs-\(owner)"]
                places.directories += others
                sources += others
            }
        } else if let owner, owner != geteuid() {
            // The socket's directory is its owner's alone.
            places.closed = ProtectionSystemError(code: EACCES, call: "connect")
        }
        places.sockets = sources.map { "\($0)/\(mount.device)" }
        return places
    }

    /// Where sockets of this user's mounts may be, the place for new ones first; never empty. A directory that is somebody
    /// else's is refused when it is connected to.
    private static var runtimes: [String] {
        let user = geteuid()
        if user == 0 { return ["/run/protectfs"] }
        var bases: [String] = []
        if let base = ProcessInfo.processInfo.environment["XDG_RUNTIME_DIR"], base.hasPrefix("/") { bases.append(base) }
        var status = stat()
        let session = "/run/user/\(user)"
        if unsafe lstat(session, &status) == 0, status.st_mode & S_IFMT == S_IFDIR, status.st_uid == user,
            !bases.contains(session)
        {
            bases.append(session)
        }
        return bases.map { $0 + "/protectfs" } + ["/tmp/protectfs-\(user)"]
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
