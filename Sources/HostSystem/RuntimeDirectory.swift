// Finds the directory of control sockets, and checks that no other user can have made or replaced it.

import CLibrary
import CLinuxShim

/// Why a directory cannot hold control sockets.
package enum RuntimeDirectoryError: Error, Sendable, Equatable {
    /// The user has neither a session nor a home directory.
    case missing
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
    /// The directories that may hold control sockets of this user; new ones are made in the first.
    ///
    /// They follow from the user alone, so that every program of the user finds every mount, whatever its environment says:
    /// `/run/protectfs` for root, or as for an account without a home where that belongs to somebody else; for other users `/run/user/UID/protectfs` if the user owns `/run/user/UID`, which lasts until
    /// the last logout, and `.local/state/protectfs/run` in the home directory of the account. Only an account without a home of
    /// its own needs `$XDG_RUNTIME_DIR/protectfs`.
    package static var runtimes: [HostPath] {
        let user = geteuid()
        let places = runtimes(of: user)
        guard user != 0, let base = environment("XDG_RUNTIME_DIR"), base.isAbsolute else { return places }
        let own = base.appending("protectfs")
        return places.contains(own) ? places : places + [own]
    }

    /// The directories that may hold control sockets of a user's mounts.
    package static func runtimes(of user: UInt32) -> [HostPath] {
        if user == 0 {
            let usual = HostPath("/run/protectfs")
            return isFirstNamespace || mayHave(usual) ? [usual] : ownNamespacePlaces
        }
        let session = HostPath("/run/user/\(user)")
        let places = isSafe(session, owners: [user]) ? [session.appending("protectfs")] : []
        // The directory itself is checked where it is used, so it does not matter who may write to the home.
        guard let home = accountHome(of: user), (try? status(of: home, follow: true))?.st_uid == user else {
            return places
        }
        return places + [home.appending(".local/state/protectfs/run")]
    }

    /// Whether user numbers have the meaning that they have on the machine (user_namespaces(7)).
    private static var isFirstNamespace: Bool {
        guard let bytes = try? readFile(HostPath("/proc/self/uid_map")) else { return true }
        let fields = String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isWhitespace)
        return fields == ["0", "0", "4294967295"]
    }

    /// Whether a directory is root's, or root can make it.
    private static func mayHave(_ path: HostPath) -> Bool {
        if let status = try? status(of: path, follow: false) { return status.st_uid == 0 }
        return (try? FileStatus.requireAccess(path.parent, W_OK)) != nil
    }

    /// Those of a user who is root in a user namespace of their own, and has the machine's /run.
    private static var ownNamespacePlaces: [HostPath] {
        let session = environment("XDG_RUNTIME_DIR").map { $0.appending("protectfs") }
        return [session, home.appending(".local/state/protectfs/run")].compactMap { $0 }.filter(\.isAbsolute)
    }

    /// The home directory in the password database.
    static func accountHome(of user: UInt32) -> HostPath? {
        var path = [CChar](repeating: 0, count: Int(PATH_MAX))
        let length = unsafe path.withUnsafeMutableBufferPointer { room in
            unsafe room.baseAddress.map { unsafe pfs_home_of(user, $0, UInt64(room.count)) } ?? -1
        }
        guard length > 0 else { return nil }
        let home = HostPath(bytes: path.prefix(Int(length)).map { UInt8(bitPattern: $0) })
        return home.isAbsolute ? home : nil
    }

    /// The paths that a mount's control socket may have, the most likely one first. For root they include the mounts of
    /// other users.
    package static func controlSockets(of mount: MountEntry) -> [HostPath] {
        var places = runtimes
        if Credentials.isRoot, let owner = mount.owner, owner != 0 { places += runtimes(of: owner) }
        return places.map { $0.appending(mount.device) }
    }

    /// Makes the directory of control sockets if it is missing. Checks that it belongs to this user, has mode 0700 and cannot
    /// be replaced by another user.
    /// - Parameter mountPoint: a resolved path. A socket below it would be in the mount, and keep it from being unmounted.
    package static func makeRuntime(outside mountPoint: HostPath? = nil) throws(RuntimeDirectoryError) -> HostPath {
        let usable = runtimes.first { place in
            guard let mountPoint else { return true }
            return !nearest(place).isInside(mountPoint)
        }
        guard let path = usable else { throw .missing }
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

    /// The resolved path of the nearest directory above `path` that exists, or of itself.
    private static func nearest(_ path: HostPath) -> HostPath {
        var path = path
        while path.bytes.count > 1 {
            if let resolved = try? path.resolved() { return resolved }
            path = path.parent
        }
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
