// Sets the owner, group and permission bits of new objects.

package import BackingStore
internal import FileContents
package import HostSystem
internal import KeyFiles
internal import VolumeFormat

extension Volume {
    /// The permission bits of a new object. The umask counts only if the directory has no default ACL, which the store
    /// applies.
    func mode(_ mode: UInt32, for caller: Caller, in parent: Node, _ directory: BackingDirectory) -> UInt32 {
        let bits = mode & 0o7777
        if caller.mask == 0 || hasDefaultACL(parent, directory) { return bits }
        return bits & ~(caller.mask & 0o777)
    }

    private func hasDefaultACL(_ parent: Node, _ directory: BackingDirectory) -> Bool {
        let known = options.isShared ? nil : parent.directory?.contents.withLock { $0.hasDefaultACL }
        if let known { return known }
        let has = (try? directory.attribute(AttributeName.defaultACL.bytes)) != nil
        parent.directory?.contents.withLock { $0.hasDefaultACL = has }
        return has
    }

    /// Gives a new object to the caller if the daemon is root. A setgid directory passes on its group and, to
    /// directories, the bit.
    /// - Parameter status: the object's, if it is known.
    /// - Returns: its status now.
    @discardableResult
    func own(
        _ object: BackingNode, _ status: Status? = nil, mode: UInt32, isDirectory: Bool, caller: Caller,
        in directory: BackingDirectory
    ) throws(VolumeError) -> Status {
        try below { () throws(Errno) in
            let now = if let status { status } else { try object.status() }
            if !givesOwnership || now.owner == caller.user && now.group == caller.group { return now }
            let parent = try directory.status()
            let inheritsGroup = parent.mode & 0o2000 != 0
            let group = inheritsGroup ? parent.group : caller.group
            guard now.owner != caller.user || now.group != group else { return now }
            try object.setOwner(caller.user, group: group)
            // chown(2) clears set-ID bits of files. The other bits are the store's, because a default ACL may have taken
            // some of `mode` away.
            let special = mode & 0o7000 | (isDirectory && inheritsGroup ? 0o2000 : 0)
            if special & 0o6000 != 0 { try object.setMode(now.mode & 0o777 | special) }
            return try object.status()
        }
    }

    /// Gives a new file the set-ID bits of `mode`. Making room for its header has taken them away without privileges (write(2)), and a
    /// header that waits would, so it is written first.
    /// - Returns: its status now.
    func giveSetID(
        _ file: BackingFile, _ content: FileContent, _ status: Status, mode: UInt32
    ) throws(VolumeError) -> Status {
        guard !givesOwnership, mode & 0o6000 != 0 else { return status }
        try content.flushHeader()
        return try below { () throws(Errno) in
            try file.setMode(status.mode & 0o777 | mode & 0o7000)
            return try file.status()
        }
    }

    /// Gives a copy the owner and group of its original. Without privileges the owner is this process's user, as of every file
    /// that it made, and it may give files to its own groups only.
    ///
    /// - Returns: the original's mode, without rights of the group and set-ID bits if the copy has another group.
    package func giveOwner(of original: Status, to copy: BackingFile) throws(Errno) -> UInt32 {
        let mode = original.mode & 0o7777
        if givesOwnership {
            try copy.setOwner(original.owner, group: original.group)
            return mode
        }
        guard try copy.status().group != original.group else { return mode }
        do throws(Errno) { try copy.setOwner(nil, group: original.group) } catch {
            guard error == .EPERM else { throw error }
            return mode & 0o1707
        }
        return mode
    }
}
