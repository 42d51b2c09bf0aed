// The directory of control sockets: where it may be, and whether it is one that no other user can have put there.

import CLinuxShim
import Glibc

/// Why a directory cannot hold control sockets.
package enum RuntimeDirectoryError: Error, Sendable, Equatable {
    /// A system call failed.
    case system(SystemError)
    /// What is there is not a directory: a link, say.
    case notADirectory(HostPath)
    /// Another user made it.
    case foreign(HostPath, owner: UInt32)
    /// Others may enter it.
    case open(HostPath)
    /// Others may put another directory into its place.
    case replaceable(HostPath)
}

extension SystemPaths {
    /// Where control sockets of this user may be, the place for new ones first: for root `/run/protectfs`; for others
    /// `$XDG_RUNTIME_DIR/protectfs`, then `/run/user/UID/protectfs` where that is the user's own, which programs without a
    /// login session's environment find too, then `/tmp/protectfs-UID`.
    package static var runtimes: [HostPath] {
        let user = geteuid()
        if user == 0 { return [HostPath("/run/protectfs")] }
        var places: [HostPath] = []
        if let base = environment("XDG_RUNTIME_DIR"), base.isAbsolute { places.append(base.appending("protectfs")) }
        let session = sessionRuntime(of: user)
        if isSafe(session.parent, owners: [user]), !places.contains(session) { places.append(session) }
        return places + [temporaryRuntime(of: user)]
    }

    /// Where the control sockets of another user's mounts may be. Only root may look there.
    package static func runtimes(of user: UInt32) -> [HostPath] {
        [sessionRuntime(of: user), temporaryRuntime(of: user)]
    }

    /// Where the control socket of a mount may be, the most likely place first. Root reaches the mounts of others as well.
    package static func controlSockets(of mount: MountEntry) -> [HostPath] {
        var places = runtimes
        if geteuid() == 0, let owner = mount.owner, owner != 0 { places += runtimes(of: owner) }
        return places.map { $0.appending(mount.device) }
    }

    private static func sessionRuntime(of user: UInt32) -> HostPath { HostPath("/run/user/\(user)/protectfs") }

    private static func temporaryRuntime(of user: UInt32) -> HostPath { HostPath("/tmp/protectfs-\(user)") }

    /// Where this process makes control sockets.
    package static var runtime: HostPath { runtimes[0] }

    /// The control socket that this process makes for a mount, named MAJOR:MINOR.
    package static func controlSocket(of mount: MountEntry) -> HostPath { runtime.appending(mount.device) }

    /// Makes `runtime` if it is missing, and checks that it is this user's own with mode 0700, in a place where no other
    /// user can put another in its stead. In `/tmp` anybody may have made it before.
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

    /// Whether a path is a directory, and no link to one, of one of these users, in which nobody else can make anything.
    package static func isSafe(_ path: HostPath, owners: Set<UInt32>) -> Bool {
        guard let directory = try? Descriptor(opening: path, pfs_O_PATH | pfs_O_DIRECTORY | pfs_O_NOFOLLOW) else {
            return false
        }
        return isSafe(directory, owners: owners)
    }

    /// The same of one that is open.
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
