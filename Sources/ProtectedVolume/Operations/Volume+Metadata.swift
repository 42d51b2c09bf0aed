// Status, owner, mode, times and flags. They can be set in every state, except for the size, which depends on the class.

package import BackingStore
internal import FileContents
package import HostSystem
package import KeyFiles
internal import VolumeFormat

extension Volume {
    // MARK: setting

    /// Applies `change` in the order chown, chmod, truncate, utimens.
    package func setAttributes(of node: Node, _ change: AttributeChange) throws(VolumeError) -> Attributes {
        try requireWritable()
        if let same = try unchanged(node, change) { return same }
        if !change.isKernelsOwn { try requireCurrent(node) }
        defer { noteChange(node) }
        if change.modified != .keep { node.directory?.contents.withLock { $0.timeOfLastChange = nil } }
        if let size = change.size { try setSize(of: node, size, isThroughHandle: change.isThroughHandle) }
        try setOwnerAndMode(of: node, change)
        let status = try setTimes(of: node, change)
        if !change.isKernelsOwn { try settleChange(of: node) }
        noteLastSeen(node, status)
        return attributes(node, status)
    }

    private func setOwnerAndMode(of node: Node, _ change: AttributeChange) throws(VolumeError) {
        let changesOwner = change.owner != nil || change.group != nil
        guard changesOwner || change.mode != nil else { return }
        let object = try backing(node)
        // Without privileges a write takes set-ID bits away, so none may wait.
        if !givesOwnership, let mode = change.mode, mode & 0o6000 != 0 { try content(of: node)?.flushHeader() }
        try below { () throws(Errno) in
            if changesOwner { try object.setOwner(change.owner, group: change.group) }
            if let mode = change.mode { try object.setMode(mode & 0o7777) }
        }
        if change.mode != nil { node.state.withLock { $0.mayHavePrivileges = nil } }
        if changesOwner { try? clearPrivileges(of: node, setID: 0o4000) }
    }

    /// Sets the times that `change` names.
    /// - Returns: the object's status then.
    private func setTimes(of node: Node, _ change: AttributeChange) throws(VolumeError) -> Status {
        guard change.changesTime else { return try status(node) }
        let content = content(of: node)
        // Write a waiting page 0 first: later it would undo these times.
        try? content?.flushHeader()
        let object = try backing(node)
        let isUnmarked =
            node.kind != .file
            || content.map { $0.isUnmarked } ?? node.state.withLock { $0.lastSeen?.isUnmarked ?? false }
        forgetLastSeen(node)
        // A function, and not a closure in a variable, which would be allocated: the optimiser does not see `settingTime`.
        func set() throws(VolumeError) -> Status {
            try below { () throws(Errno) in
                try object.setTimes(
                    accessed: change.accessed, modified: change.modified, isUnmarked: isUnmarked)
                return try object.status()
            }
        }
        guard change.modified != .keep, let content else { return try set() }
        return try content.settingTime { () throws(VolumeError) in try set() }
    }

    /// The attributes, if the kernel only repeats a time that the store has.
    private func unchanged(_ node: Node, _ change: AttributeChange) throws(VolumeError) -> Attributes? {
        guard change.isKernelsOwn, case .set(let time) = change.modified, change.accessed == .keep,
            change.mode == nil, change.owner == nil, change.group == nil, change.size == nil
        else { return nil }
        let status = try status(node)
        guard status.modified == time else { return nil }
        content(of: node)?.pinModificationTime(time)
        return attributes(node, status)
    }

    private func setSize(of node: Node, _ size: UInt64, isThroughHandle: Bool) throws(VolumeError) {
        guard node.kind == .file else { throw node.kind == .directory ? .refused(.EISDIR) : .invalid }
        if isThroughHandle, let content = content(of: node) {
            try content.truncate(to: size, access: .handleSize)
        } else {
            try withContent(node, writable: true) { (content) throws(VolumeError) in
                try content.truncate(to: size, access: .truncatePath)
            }
        }
        // Set-ID bits depend on the calling user, which only our caller knows.
        try? clearPrivileges(of: node, setID: 0)
    }

    /// The pages that a new file and its directory may use besides those of its content.
    private static let pagesBesideContent: UInt64 = 16

    /// The space and limits of the store, in bytes of content: of each page a part is not content.
    package func statistics() throws(VolumeError) -> StoreStatistics {
        var result = try below { () throws(Errno) in try rootDirectory.statistics() }
        let unit = max(1, result.fragmentSize)
        let beside = Self.pagesBesideContent * UInt64(PageGeometry.pageSize) / unit
        let capacity = UInt64(content.geometry.laterCapacity)
        func holding(_ blocks: UInt64) -> UInt64 {
            UInt64(PageGeometry.pageSize).dividingFullWidth(blocks.multipliedFullWidth(by: capacity)).quotient
        }
        result.blocks = holding(result.blocks)
        result.blocksFree = holding(result.blocksFree - min(result.blocksFree, beside))
        result.blocksAvailable = holding(result.blocksAvailable - min(result.blocksAvailable, beside))
        let holdsLong = names.longestDirect >= NameLimits.longestNeverLong
        result.nameLength = UInt64(holdsLong ? NameLimits.longest : names.longestDirect)
        return result
    }

    /// The plaintext names from the root down to a node; nil if it has no known name.
    package func path(of node: Node) -> [[UInt8]]? {
        var components: [[UInt8]] = []
        var current = node
        while current !== root {
            guard let place = current.state.withLock({ $0.place }), components.count < DirectoryCache.deepest,
                let id = try? directoryID(place.parent), let directory = try? directory(place.parent)
            else { return nil }
            guard case .name(let name) = decode(place.name, in: directory, id) else { return nil }
            components.append(name)
            current = place.parent
        }
        return components.reversed()
    }

    // MARK: set-ID bits and capabilities

    /// Whether a write may have set-ID bits or capabilities to clear; true if that is not known.
    package func mayHavePrivileges(_ node: Node) -> Bool { node.state.withLock { $0.mayHavePrivileges } ?? true }

    /// Clears file capabilities and these set-ID bits, as a write, truncation or change of owner does.
    package func clearPrivileges(of node: Node, setID bits: UInt32) throws(VolumeError) {
        guard node.kind == .file, mayHavePrivileges(node) else { return }
        let object = try backing(node)
        let mode = try below { () throws(Errno) in try object.status() }.mode
        if mode & bits != 0 { try below { () throws(Errno) in try object.setMode(mode & 0o7777 & ~bits) } }
        try removeCapabilities(of: node)
        let keepsBits = mode & ~bits & 0o6000 != 0
        node.state.withLock { $0.mayHavePrivileges = keepsBits ? nil : false }
    }

    /// Removes file capabilities if there are any. An empty value grants nothing, and stays, as on the kernel's own file systems
    /// (`cap_inode_need_killpriv`).
    package func removeCapabilities(of node: Node) throws(VolumeError) {
        let name = AttributeName.capability.bytes
        do throws(VolumeError) {
            // No secret, unlike the values of other attributes.
            if try getXattr(node, name).isEmpty { return }
        } catch {
            if error == .noAttribute || error == .notSupported { return }
        }
        try removeAttribute(name, of: node, backing(node))
    }

    // MARK: owners of new objects

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

    /// Gives a new file the set-ID bits of `mode`. Without privileges a write takes them away (write(2)), so a header that waits is
    /// written first.
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

    // MARK: flags

    /// The flags of a file or directory; ENOTTY for other objects, and if the store has none.
    package func flags(of node: Node) throws(VolumeError) -> InodeFlags {
        try withFlags(of: node) { (object) throws(Errno) in try object.flags() }.intersection(.settable)
    }

    /// Sets the flags. EOPNOTSUPP if others than `InodeFlags.settable` would change. The kernel has checked the permission.
    package func setFlags(_ flags: InodeFlags, of node: Node) throws(VolumeError) {
        try requireWritable()
        guard flags.isSubset(of: .settable) else { throw .notSupported }
        defer { noteChange(node) }
        try withFlags(of: node) { (object) throws(Errno) in try object.setFlags(flags) }
        try settleChange(of: node)
    }

    private func withFlags<Result>(
        of node: Node, _ body: (BackingNode) throws(Errno) -> Result
    ) throws(VolumeError) -> Result {
        switch node.kind {
        case .file:
            return try withContent(node, writable: false) { (content) throws(VolumeError) in
                try below { () throws(Errno) in try body(content.backing) }
            }
        case .directory:
            // A removed one is reached through its pin.
            let pin = node.state.withLock { $0.pin }
            let directory: BackingNode = if let pin { pin.node } else { try directory(node) }
            return try below { () throws(Errno) in try body(directory) }
        default: throw .refused(.ENOTTY)
        }
    }
}

extension AttributeChange {
    fileprivate var changesTime: Bool { accessed != .keep || modified != .keep }
}
