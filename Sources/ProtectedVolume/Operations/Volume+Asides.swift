// Restores records that a crash has left set aside in the directory above, at a cost that does not grow with the store.

internal import BackingStore
internal import FileContents
internal import HostSystem
internal import KeyFiles
internal import VolumeFormat

extension Volume {
    /// A record that a crash left set aside in the parent. Restores it, or only uses it if the store must not be
    /// written.
    func recordSetAside(of node: Node, _ directory: BackingDirectory) throws(VolumeError) -> VerifiedRecord? {
        guard !options.isShared, let place = node.state.withLock({ $0.place }),
            let parentID = try idAbove(place.parent), let state = place.parent.directory
        else { return nil }
        let parent = try self.directory(place.parent)
        return try state.structure.withLock { (_) throws(VolumeError) -> VerifiedRecord? in
            // A concurrent rmdir may have restored it.
            if let record = try readRecord(directory, node) { return record }
            let asides = try asides(in: place.parent, parent)
            guard let aside = asides.first(where: { names.isAside($0, of: place.name, in: parentID) }),
                try verifies(aside.record, directory)
            else { return nil }
            if options.isReadOnly { return aside.record }
            try below { () throws(Errno) in
                do throws(Errno) {
                    try replaceEmptyRecord(directory)
                    try directory.createLink(BackingName.record, target: aside.target)
                } catch { if error != .EEXIST { throw error } }
                try syncNewLinks(in: directory)
                try? parent.unlink(aside.name)
            }
            keep(asides.filter { $0.name != aside.name }, of: place.parent, try? parent.status())
            node.directory?.setNeedsSync()
            notices.tell(.restoredRecord(directoryInode: node.inode))
            return aside.record
        }
    }

    /// Removes a record that is an empty symlink, which counts as missing.
    private func replaceEmptyRecord(_ directory: BackingDirectory) throws(Errno) {
        if let target = try? directory.readSymlink(BackingName.record), target.isEmpty {
            try directory.unlink(BackingName.record)
        }
    }

    /// The records that are set aside in `node`, of which many directories below may ask one after the other.
    private func asides(in node: Node, _ directory: BackingDirectory) throws(VolumeError) -> [RecordAside] {
        let status = try below { () throws(Errno) in try directory.status() }
        if let known = recordsAside.content(of: node.serial, ChangeStamp(status)) { return known }
        let asides = try below { () throws(Errno) in try names.recordsAside(in: directory) }
        keep(asides, of: node, status)
        return asides
    }

    /// - Parameter status: the directory's, from before the listing, or after our own change.
    private func keep(_ asides: [RecordAside], of node: Node, _ status: Status?) {
        guard let status else { return }
        recordsAside.keep(asides, of: node.serial, ChangeStamp(status), weight: asides.count + 1)
    }

    /// The ID of a directory, for what is set aside in it.
    ///
    /// Directories whose records nobody has looked for are looked at from above, because each of them may be set aside in the one
    /// above it. That happens once for each. Where a record is missing, only the directory itself is looked at again, so a look
    /// does not grow with the depth.
    private func idAbove(_ parent: Node) throws(VolumeError) -> ObjectID? {
        if let known = knownID(parent) { return known }
        var unread: [Node] = []
        var current = parent
        while current !== root, current.isRecordUnread, unread.count < DirectoryCache.deepest {
            unread.append(current)
            guard let above = current.state.withLock({ $0.place })?.parent else { break }
            current = above
        }
        guard unread.isEmpty else {
            for node in unread.reversed() { _ = try readableRecord(of: node) }
            return knownID(parent)
        }
        guard let record = try recordIfVerified(directory(parent), parent) else { return nil }
        parent.directory?.contents.withLock { $0.record = .known(record) }
        return record.directoryID
    }

    private func readableRecord(of node: Node) throws(VolumeError) -> VerifiedRecord? {
        do throws(VolumeError) { return try record(of: node) } catch {
            guard case .damaged = error else { throw error }
            return nil
        }
    }
}

extension Node {
    /// Whether nobody has looked for the directory's record.
    fileprivate var isRecordUnread: Bool {
        guard case .unread? = directory?.contents.withLock({ $0.record }) else { return false }
        return true
    }
}
