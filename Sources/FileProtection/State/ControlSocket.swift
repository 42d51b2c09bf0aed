// Where a mount's control socket is, or will be.

import Glibc
import HostSystem

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
        // Where new ones come. /tmp, where much else appears, is not watched beside a better place.
        places.directories = [SystemPaths.runtime.text]
        guard let mount = ProtectedMount.entries().last(where: { $0.mountPoint.text == mountPoint }) else {
            return places
        }
        if geteuid() == 0 {
            places.owner = mount.owner
            if let owner = mount.owner, owner != 0 { places.directories += SystemPaths.runtimes(of: owner).map(\.text) }
        } else if let owner = mount.owner, owner != geteuid() {
            // The socket's directory is its owner's alone.
            places.closed = ProtectionSystemError(code: EACCES, call: "connect")
        }
        places.sockets = SystemPaths.controlSockets(of: mount).map(\.text)
        return places
    }
}
