// Finds the paths at which a mount's control socket is or will be.

import CLibrary
import HostSystem

/// The paths that docs/program/control-protocol.md names.
enum ControlSocket {
    /// Paths to search and watch.
    struct Places {
        /// Paths that the socket may have; empty if nothing is mounted.
        var sockets: [String] = []
        /// The directories in which the socket would appear.
        var directories: [String] = []
        /// The user who owns the mount.
        var owner: UInt32?
        /// The reason why this process may not connect.
        var closed: ProtectionSystemError?
    }

    /// The current paths for the mount at a path.
    static func places(_ mountPoint: String) -> Places {
        var places = Places()
        places.directories = SystemPaths.runtimes.map(\.text)
        guard let mount = ProtectedMount.entries().last(where: { $0.mountPoint.text == mountPoint }) else {
            return places
        }
        if Credentials.isRoot {
            places.owner = mount.owner
            if let owner = mount.owner, owner != 0 { places.directories += SystemPaths.runtimes(of: owner).map(\.text) }
        } else if let owner = mount.owner, owner != geteuid() {
            // Only the owner can enter the socket's directory.
            places.closed = ProtectionSystemError(code: EACCES, call: "connect")
        }
        places.sockets = SystemPaths.controlSockets(of: mount).map(\.text)
        return places
    }

    /// Sends a request to the daemon of the mount at a path, and waits for its answer. Nil if it cannot be reached.
    static func ask(_ request: [String: String], _ mountPoint: String) -> ControlMessage? {
        let places = places(mountPoint)
        guard places.closed == nil else { return nil }
        for socket in places.sockets {
            if let answer = ControlConnection.ask(request, socket, owner: places.owner) { return answer }
        }
        return nil
    }
}
