// Removes names and directories. A directory's record is set aside first, and restored if the store refuses.

package import BackingStore
internal import HostSystem
package import KeyFiles
internal import VolumeFormat

extension Volume {
    /// Removes a name of any object except a directory. Works in every state without a key.
    /// - Returns: the object, if its node is known.
    @discardableResult
    package func unlink(_ name: Span<UInt8>, in parent: Node) throws(VolumeError) -> ChangedName? {
        try requireWritable()
        try requireChangeable(parent)
        defer { noteChange(parent) }
        return try copies.retrying { (number) throws(VolumeError) in
            try unlinkEntry(name, in: parent, copies: number)
        }
    }

    private func unlinkEntry(
        _ name: Span<UInt8>, in parent: Node, copies number: UInt64
    ) throws(VolumeError) -> ChangedName? {
        let directory = try directory(parent)
        let located = try locate(name, in: parent, directory)
        guard let status = located.status else { throw .noEntry }
        guard status.kind != .directory else { throw .refused(.EISDIR) }
        let entry = located.name.entry
        let node = nodes.known(InodeKey(status))
        let file = rememberFreed(entry, status, in: parent, directory)
        let pin = node.flatMap { _ in
            pins.pin { () throws(Errno) in if let file { file } else { try directory.node(entry) } }
        }
        let owner = overflowOwner(entry, status, in: directory)
        let seen = seenFile(entry, status, in: directory, opened: file)
        try removing(located.name, in: parent, directory) { () throws(VolumeError) in
            try copies.changing(since: number) { () throws(VolumeError) in
                try isSame(entry, in: directory, status)
            } _: { () throws(Errno) in
                try directory.removing(entry) { () throws(Errno) in try directory.unlink(entry) }
            }
        }
        forgetSeen(seen)
        removeOverflow(of: owner, node, in: directory)
        if let node {
            nodes.unlinked(node, at: Place(parent: parent, name: entry), pin: pin, isLast: status.links <= 1)
        }
        return changed(node, status)
    }

    /// Removes an empty directory. A directory with nothing but reserved names that belong there counts as empty.
    package func rmdir(_ name: [UInt8], in parent: Node) throws(VolumeError) {
        try requireWritable()
        try requireChangeable(parent)
        defer { noteChange(parent) }
        let directory = try directory(parent)
        let located = try locate(name, in: parent, directory)
        guard let status = located.status else { throw .noEntry }
        guard status.kind == .directory, let state = parent.directory else {
            throw .refused(.ENOTDIR)
        }
        let entry = located.name.entry
        let child = try below { () throws(Errno) in try directory.openDirectory(entry) }
        let owner = overflowOwner(entry, status, in: directory)
        try state.structure.withLock { (_) throws(VolumeError) in
            try withRecordAside(of: entry, (status, child), in: parent, directory) { () throws(VolumeError) in
                try below { () throws(Errno) in
                    try directory.removing(entry) { () throws(Errno) in try directory.removeDirectory(entry) }
                }
            }
            if let companion = Self.companionName(of: entry) { try? directory.unlink(companion) }
        }
        removeOverflow(of: owner, nodes.known(InodeKey(status)), in: directory)
        forgetDirectory(status, child, at: Place(parent: parent, name: entry))
    }

    /// Updates the tables after a directory was removed. `status` is from before.
    func forgetDirectory(_ status: Status, _ handle: BackingDirectory, at place: Place) {
        guard let node = nodes.known(InodeKey(status)) else { return }
        node.directory?.contents.withLock { $0.timeOfLastChange = status.modified }
        let pin = pins.pin { () throws(Errno) in handle }
        nodes.unlinked(node, at: place, pin: pin, isLast: true)
        directories.remove(node.serial)
    }

    /// Runs `remove`, which removes the directory `name` from the store, while the directory's record is set aside in
    /// the parent. Restores the record if the store refuses. The caller holds `structure` of the parent.
    ///
    /// The name of a record set aside depends on the IDs of both directories. If one of them is not known, the record
    /// gets a temporary name. The directory is empty then. After a crash at this point, a repair must give it a record.
    func withRecordAside(
        of name: EntryName, _ removed: (status: Status, handle: BackingDirectory), in parent: Node,
        _ directory: BackingDirectory, _ remove: () throws(VolumeError) -> Void
    ) throws(VolumeError) {
        let child = removed.handle
        var target: [UInt8]?
        do throws(Errno) {
            target = try child.readSymlink(BackingName.record)
        } catch {
            switch error {
            case .ENOENT: break
            case .EINVAL: throw damaged(.record, parent)
            default: throw .store(error)
            }
        }
        let record = target.flatMap { names.record(target: $0) }
        // It stays as it is, even if it looks empty to this version.
        if record?.isNewer ?? false {
            throw newer(.record, inode: removed.status.inode)
        }
        try clean(child)
        // Programs that have the directory open can use it as before, and the record cannot be read any more.
        if let record, let state = nodes.known(InodeKey(removed.status))?.directory {
            state.contents.withLock { $0.record = .known(record) }
        }
        guard target != nil else { return try remove() }
        let aside =
            if let record, let parentID = knownID(parent) {
                names.asideName(parent: parentID, directory: record.directoryID, name: name)
            } else {
                BackingName.temporary()
            }
        try below { () throws(Errno) in
            do throws(Errno) { try child.rename(BackingName.record, to: directory, aside) } catch {
                guard (try? directory.readSymlink(aside)) == target else { throw error }
            }
        }
        do throws(VolumeError) {
            try remove()
        } catch {
            try? directory.rename(aside, to: child, BackingName.record)
            throw error
        }
        try? directory.unlink(aside)
    }

    /// Removes leftovers of crashes from a directory that is about to be removed: temporary objects, records set aside,
    /// and companions whose entries are gone. If there is any other entry, throws ENOTEMPTY and removes nothing. A
    /// record that a newer version has set aside is kept, and so is the directory.
    private func clean(_ directory: BackingDirectory) throws(VolumeError) {
        let entries = try below { () throws(Errno) in try directory.entries() }
        var leftovers: [DirectoryEntry] = []
        for entry in entries {
            let kind = ReservedName.kind(of: entry.name.bytes.span)
            guard kind.isHidden, kind.belongs(inRoot: false) else { throw .notEmpty }
            if kind == .aside, let target = try? directory.readSymlink(entry.name),
                names.record(target: target)?.isNewer ?? false
            {
                throw newer(.record, inode: (try below { () throws(Errno) in try directory.status() }).inode)
            }
            if kind != .record { leftovers.append(entry) }
        }
        // The directory has no subdirectory, so every record set aside is stale. It has no long name, so every
        // companion is an orphan.
        for entry in leftovers { removeLeftover(entry.name, directory) }
    }

    /// Removes a temporary object of any kind. A temporary directory has at most a record.
    private func removeLeftover(_ name: EntryName, _ directory: BackingDirectory) {
        do throws(Errno) {
            try directory.unlink(name)
        } catch {
            guard let made = try? directory.openDirectory(name) else { return }
            try? made.unlink(BackingName.record)
            try? directory.removeDirectory(name)
        }
    }

    // MARK: companions of long names

    /// Runs `make`, which makes an entry named `name`. Makes its companion first, and removes it again if `make` fails.
    package func making<Result>(
        _ name: EncodedName, in parent: Node, _ directory: BackingDirectory,
        _ make: () throws(VolumeError) -> Result
    ) throws(VolumeError) -> Result {
        defer { handles.noteName() }
        guard let companion = name.companion, let state = parent.directory else { return try make() }
        return try state.structure.withLock { (_) throws(VolumeError) in
            try makingLocked(name, companion, in: state, directory, make)
        }
    }

    /// The same for a caller that holds `structure`.
    func makingLocked<Result>(
        _ name: EncodedName, _ companion: EncodedName.Companion, in state: DirectoryState,
        _ directory: BackingDirectory, _ make: () throws(VolumeError) -> Result
    ) throws(VolumeError) -> Result {
        let isNew = try makeCompanion(companion, for: name.entry, directory)
        state.setNeedsSync()
        do throws(VolumeError) {
            return try make()
        } catch {
            if isNew, (try? status(of: name.entry, in: directory)) == .some(nil) {
                try? directory.unlink(companion.name)
            }
            throw error
        }
    }

    /// Makes the companion. Uses one left over from a crash, or replaces it if it does not fit.
    /// - Returns: whether this call made it.
    private func makeCompanion(
        _ companion: EncodedName.Companion, for entry: EntryName, _ directory: BackingDirectory
    ) throws(VolumeError) -> Bool {
        do throws(Errno) {
            try directory.createLink(companion.name, target: companion.target)
            return true
        } catch {
            guard error == .EEXIST else { throw .store(error) }
        }
        if let target = try? directory.readSymlink(companion.name), target == companion.target { return false }
        guard try status(of: entry, in: directory) == nil else { throw .damaged(.companion) }
        let temporary = BackingName.temporary()
        try below { () throws(Errno) in
            try directory.createLink(temporary, target: companion.target)
            do throws(Errno) {
                try directory.placing(temporary, at: companion.name) {
                    (try? directory.readSymlink(companion.name)) == companion.target
                }
            } catch {
                try? directory.unlink(temporary)
                throw error
            }
        }
        return true
    }

    /// Runs `remove`, which removes the entry named `name`. Removes its companion after it.
    func removing(
        _ name: EncodedName, in parent: Node, _ directory: BackingDirectory,
        _ remove: () throws(VolumeError) -> Void
    ) throws(VolumeError) {
        guard let companion = Self.companionName(of: name.entry), let state = parent.directory else {
            return try remove()
        }
        try state.structure.withLock { (_) throws(VolumeError) in
            try remove()
            try? directory.unlink(companion)
        }
    }

    /// The companion's name if `entry` is a long name's entry, even if it does not decrypt.
    package static func companionName(of entry: EntryName) -> EntryName? {
        guard ReservedName.kind(of: entry.bytes.span) == .long else { return nil }
        return BackingName.known(Array(entry.bytes) + NameLimits.companionSuffix.bytes)
    }
}
