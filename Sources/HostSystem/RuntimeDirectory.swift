// Finds the directory of control sockets, and checks that no other user can have made or replaced it.

import CLinuxShim
import Glibc

/// Why a directory cannot hold control sockets.
package enum RuntimeDirectoryError: Error, Sendable, Equatable {
    /// A system call failed.
    case system(SystemError)
    /// The path is not a directory, for instance a link.
    case notADirectory(HostPath)
    /// The directory belongs to another user.
    case foreign(HostPath, owner: UInt32)
    /// Other users may enter the directory.
    case open(HostPath)
    /// Other users may replace the directory.
    case replaceable(HostPath)
}

extension SystemPaths {
    /// The directories that may hold control sockets of this user; new ones are made in the first. For root it is
    /// `/run/protectfs`. For other users they are `$XDG_RUNTIME_DIR/protectfs`, `/run/user/UID/protectfs` if the user
    /// owns it, and `/tmp/protectfs-UID`. Programs without the environment of a login session also find the second one.
    package static var runtimes: [HostPath] {
        let user = geteuid()
        if user == 0 { return [HostPath("/run/protectfs")] }
        var places: [HostPath] = []
        if let base = environment("XDG_RUNTIME_DIR"), base.isAbsolute { places.append(base.appending("protectfs")) }
        let session = sessionRuntime(of: user)
        if isSafe(session.parent, owners: [user]), !places.contains(session) { places.append(session) }
        return places + [temporaryRuntime(of: user)]
    }

    /// The directories that may hold control sockets of another user's mounts. Only root can use them.
    package static func runtimes(of user: UInt32) -> [HostPath] {
        [sessionRuntime(of: user), temporaryRuntime(of: user)]
    }

    /// The paths that a mount's control socket may have, the most likely one first. For root they include the mounts of
    /// other users.
    package static func controlSockets(of mount: MountEntry) -> [HostPath] {
        var places = runtimes
        if geteuid() == 0, let owner = mount.owner, owner != 0 { places += runtimes(of: owner) }
        return places.map { $0.appending(mount.device) }
    }

    private static func sessionRuntime(of user: UInt32) -> HostPath { HostPath("/run/user/\(user)/protectfs") }

    private static func temporaryRuntime(of user: UInt32) -> HostPath { HostPath("/tmp/protectfs-\(user)") }

    /// The directory in which this process makes control sockets.
    package static var runtime: HostPath { runtimes[0] }

    /// The path of the control socket that this process makes for a mount. Its name is MAJOR:MINOR.
    package static func controlSocket(of mount: MountEntry) -> HostPath { runtime.appending(mount.device) }

    /// Makes `runtime` if it is missing. Checks that it belongs to this user, has mode 0700 and cannot be replaced by
    /// another user. In `/tmp` any user may have made it before.
    package static func makeRuntime() throws(RuntimeDirectoryError) -> HostPath {
        let path = runtime
        let (status, parent): (stat, stat)
        do throws(SystemError) {
            try makeDirectories(path)
            status = try self.status(of: path, follow: false)
            parent = try self.status(of: path.parent, follow: true)
        } catch {
            throw .system(error)
        }
        guard status.st_mode & S_IFMT == S_IFDIR else { throw .notADirectory(path) }
        guard status.st_uid == geteuid() else { throw .foreign(path, owner: status.st_uid) }
        guard status.st_mode & 0o077 == 0 else { throw .open(path) }
        let isOwners = [0, geteuid()].contains(parent.st_uid)
        guard isOwners, parent.st_mode & 0o022 == 0 || parent.st_mode & S_ISVTX != 0 else { throw .replaceable(path) }
        return path
    }

    /// Whether a path is a directory, not a link, that belongs to one of `owners` and in which no other user can make
    /// files.
    package static func isSafe(_ path: HostPath, owners: Set<UInt32>) -> Bool {
        guard let directory = try? Descriptor(opening: path, pfs_O_PATH | pfs_O_DIRECTORY | pfs_O_NOFOLLOW) else {
            return false
        }
        return isSafe(directory, owners: owners)
    }

    /// The same check for an open directory.
    package static func isSafe(_ directory: borrowing Descriptor, owners: Set<UInt32>) -> Bool {
        guard let status = try? directory.status() else { return false }
        return status.st_mode & S_IFMT == S_IFDIR && owners.contains(status.st_uid) && status.st_mode & 0o022 == 0
    }

    private static func status(of path: HostPath, follow: Bool) throws(SystemError) -> stat {
        var status = stat()
        let result = unsafe path.withCString { unsafe follow ? stat($0, &status) : lstat($0, &status) }
        guard result == 0 else { throw .last("lstat", path.description) }
        return status
    }
}
