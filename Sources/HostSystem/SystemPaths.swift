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

    /// The directory of device keys and state files: `${XDG_STATE_HOME:-~/.local/state}/protectfs`, or `formerData` while the files
    /// there could not be moved.
    ///
    /// Foundation has no name for the directory around it, so programs do not clear it.
    package static var data: HostPath {
        let place = state
        return holdsVolumes(formerData) && !holdsVolumes(place) ? formerData : place
    }

    private static var state: HostPath {
        base("XDG_STATE_HOME", ".local/state").appending("protectfs")
    }

    /// The user's directory of data of programs: `${XDG_DATA_HOME:-~/.local/share}`. It is Application Support for Foundation, which
    /// programs clear when their user logs out.
    package static var programData: HostPath { base("XDG_DATA_HOME", ".local/share") }

    /// The place of device keys and state files before they had one that Foundation does not name.
    package static var formerData: HostPath { programData.appending("protectfs") }

    private static func base(_ variable: String, _ usual: String) -> HostPath {
        if let base = environment(variable), base.isAbsolute { return base }
        return home.appending(usual)
    }

    /// The names in a directory that begin with a UUID and a dot, as those of all files that are kept for a volume.
    private static func volumeNames(in directory: HostPath) -> [HostPath] {
        let dash = UInt8(ascii: "-")
        return ((try? FileStatus.names(in: directory)) ?? []).filter { name in
            let bytes = name.bytes
            return bytes.count > 37 && bytes[36] == UInt8(ascii: ".")
                && [8, 13, 18, 23].allSatisfy { bytes[$0] == dash }
        }
    }

    /// Whether a directory has files that are kept for volumes.
    package static func holdsVolumes(_ directory: HostPath) -> Bool { !volumeNames(in: directory).isEmpty }

    /// Moves what an earlier version kept in `formerData`. Each file is moved by one rename, and never replaces another. What cannot
    /// be moved stays, and is used there if nothing could be moved.
    package static func moveFormerData() {
        let former = formerData
        // Root with the environment of another user must not take that user's files.
        guard let status = try? FileStatus.read(former), status.st_uid == user, holdsVolumes(former),
            let directory = try? Descriptor(opening: former, O_RDONLY | O_DIRECTORY)
        else { return }
        // Other processes wait here, so none sees half of the files.
        guard flock(directory.number, LOCK_EX) == 0, (try? makeDirectories(state)) != nil else { return }
        for name in volumeNames(in: former) {
            do throws(SystemError) {
                let target = state.appending(bytes: name.bytes)
                try FileChange.rename(former.appending(bytes: name.bytes), to: target, replacing: false)
            } catch {
                if error.code != EEXIST { return }
            }
        }
        try? FileChange.removeDirectory(former)
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
