// Reads and verifies directory records once, restores those that a crash left set aside, and notices others. It never invents one.

package import BackingStore
internal import FileContents
package import HostSystem
package import KeyFiles
internal import Keybag
package import VolumeFormat

extension Volume {
    /// The ID of a directory; nil if its record is missing or does not verify. Its names are then unverified.
    package func directoryID(_ node: Node) throws(VolumeError) -> ObjectID? {
        if let known = knownID(node) { return known }
        do throws(VolumeError) {
            return try record(of: node)?.directoryID
        } catch {
            guard case .damaged = error else { throw error }
            return nil
        }
    }

    /// The ID, if it has been read already. Takes no `structure` lock, unlike `directoryID`.
    package func knownID(_ node: Node) -> ObjectID? {
        if node === root { return keys.metadata.rootID }
        if case .known(let record)? = node.directory?.contents.withLock({ $0.record }) { return record.directoryID }
        return nil
    }

    /// The default class of a directory; nil if new entries inherit nothing.
    ///
    /// - Throws: `.newer` if a newer version has made the record, so that its class is not known.
    package func defaultClass(_ node: Node) throws(VolumeError) -> ProtectionClass? {
        let record = try record(of: node)
        if case .names? = record?.known { throw newer(.record, inode: node.inode) }
        return record?.defaultClass
    }

    /// The class of a new file in a directory: the directory's default, else the root's (the volume's default), else
    /// the mount's.
    ///
    /// Reads the root's record without a lock, so the caller may hold any.
    /// - Throws: `.damaged` if one of these records is missing or does not verify, because it may have required any
    ///   class. `.newer` if a newer version has made one of them.
    func classForNewFile(in parent: Node) throws(VolumeError) -> ProtectionClass {
        if let own = try usableRecord(of: parent).defaultClass { return options.inForce(own) }
        // It has no directory above whose lock this could take.
        try renewRecord(of: root, always: false)
        // Only the root's class is needed, which is known of a record that can be read only.
        guard let record = try record(of: root) else { throw damaged(.missingRecord, root) }
        if record.known == .names { throw newer(.record, inode: root.inode) }
        return options.inForce(record.defaultClass ?? options.defaultClass)
    }

    /// The class of a file without header (rule R0). It is that of a new file, or the strongest class if that is not
    /// known.
    func classWithoutHeader(in parent: Node) throws(VolumeError) -> ProtectionClass {
        do throws(VolumeError) {
            return try classForNewFile(in: parent)
        } catch {
            switch error {
            case .damaged, .newer: return .complete
            default: throw error
            }
        }
    }

    /// The class of new files in directories without a default, as last read or set. Does no I/O.
    package var usualClass: ProtectionClass {
        guard case .known(let record)? = root.directory?.contents.withLock({ $0.record }) else {
            return options.defaultClass
        }
        return record.known == .names ? .complete : options.inForce(record.defaultClass ?? options.defaultClass)
    }

    /// Reads the root's record, so that `usualClass` is right from the start.
    package func readUsualClass() throws(VolumeError) { _ = try record(of: root) }

    /// The verified record of a directory; nil if it has none. Each call looks again for a missing record.
    package func record(of node: Node) throws(VolumeError) -> VerifiedRecord? {
        guard let state = node.directory else { throw .refused(.ENOTDIR) }
        if !options.isShared || node.isUnlinked, case .known(let record) = state.contents.withLock({ $0.record }) {
            return record
        }
        let directory = try directory(node)
        var found: VerifiedRecord?
        do throws(VolumeError) { found = try readRecord(directory, node) } catch {
            if case .damaged = error { state.contents.withLock { $0.record = .damaged } }
            throw error
        }
        if found == nil, node !== root { found = try recordSetAside(of: node, directory) }
        if let found {
            state.contents.withLock { contents in
                contents.record = .known(found)
                contents.lastLook = monotonicNanoseconds()
            }
        } else {
            let isNews = state.contents.withLock { contents in
                if case .missing = contents.record { return false }
                contents.record = .missing
                return true
            }
            if isNews { notices.tell(.missingRecord(directoryInode: node.inode)) }
        }
        return found
    }

    /// The record in the store; nil if it is missing or an empty symlink. f2fs leaves those after a crash.
    func readRecord(_ directory: BackingDirectory, _ node: Node) throws(VolumeError) -> VerifiedRecord? {
        let target: [UInt8]
        do throws(Errno) {
            target = try directory.readSymlink(BackingName.record)
        } catch {
            switch error {
            case .ENOENT: return nil
            case .EINVAL: throw damagedRecord(node)
            default: throw .store(error)
            }
        }
        if target.isEmpty { return nil }
        guard let record = names.record(target: target) else { throw damagedRecord(node) }
        if node === root, record.directoryID != keys.metadata.rootID { throw damagedRecord(node) }
        return record
    }

    private func damagedRecord(_ node: Node) -> VolumeError {
        notices.tellDamagedRecord(of: node)
        return .damaged(.record)
    }

    /// Whether the names in a directory verify under the record's ID. An empty directory fits any ID.
    package func verifies(_ record: VerifiedRecord, _ directory: BackingDirectory) throws(VolumeError) -> Bool {
        for entry in try below({ () throws(Errno) in try directory.entries() }) {
            switch ReservedName.kind(of: entry.name.bytes.span) {
            case .encoded:
                if names.decode(entry.name.bytes.span, in: record.directoryID) == nil { return false }
            case .long:
                let name = try below { () throws(Errno) in
                    try decodeLong(entry.name, in: directory, record.directoryID)
                }
                if name == nil { return false }
            default: continue
            }
        }
        return true
    }

    /// The record of a directory in which an entry will be created. A missing record is never invented: the directory's default
    /// class and the ID of its names are not known. Nothing is created where a newer version has made the record.
    func recordForCreating(in node: Node) throws(VolumeError) -> VerifiedRecord {
        try renewRecord(of: node, always: true)
        return try usableRecord(of: node)
    }

    /// The same, as it was last compared with the store.
    func usableRecord(of node: Node) throws(VolumeError) -> VerifiedRecord {
        guard let record = try record(of: node) else { throw damaged(.missingRecord, node) }
        if record.isNewer { throw newer(.record, inode: node.inode) }
        return record
    }

    /// The ID of a directory in which an entry will be created.
    func idForCreating(in node: Node) throws(VolumeError) -> ObjectID {
        try recordForCreating(in: node).directoryID
    }

    /// Runs calls to the store; their errors are the store's.
    package func below<Result>(_ body: () throws(Errno) -> Result) throws(VolumeError) -> Result {
        do throws(Errno) { return try body() } catch { throw .store(error) }
    }

    /// Makes new links in a directory durable, if the store may reorder them. After a crash an existing directory must
    /// not have an empty or missing record.
    package func syncNewLinks(in directory: BackingDirectory) throws(Errno) {
        if !directory.keepsNewLinks { try directory.synchronize() }
    }

    /// Replaces a directory's record. Makes a symlink under a temporary name and renames it over the record.
    func replaceRecord(_ record: VerifiedRecord, of node: Node) throws(VolumeError) {
        try requireWritable()
        defer { noteChange(node) }
        let directory = try directory(node)
        let temporary = BackingName.temporary()
        try below { () throws(Errno) in
            let target = names.recordTarget(record)
            try directory.createLink(temporary, target: target)
            do throws(Errno) {
                try syncNewLinks(in: directory)
                try directory.placing(temporary, at: BackingName.record) {
                    (try? directory.readSymlink(BackingName.record)) == target
                }
            } catch {
                try? directory.unlink(temporary)
                throw error
            }
        }
        node.directory?.contents.withLock { contents in
            contents.record = .known(record)
            contents.changes += 1
        }
    }

    // MARK: records set aside

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

    // MARK: records that another program has replaced

    // A directory that another machine has removed and made again gets here by a sync client, which keeps the directory and
    // replaces what is in it. A name made under the former ID could never be read again.

    /// How long a record is believed where a mistake does not last, in nanoseconds.
    private static let recordLifetime: UInt64 = 100_000_000

    /// Compares what is known of a directory's record with the store, and forgets it if another record is there now.
    ///
    /// Do not call it with a `structure` lock: it may wait for a removal of the directory.
    /// - Parameter always: whether to do so even if it was done a moment ago, because something is made by the record.
    /// - Returns: whether the directory's ID is another one now, or is not known any more.
    @discardableResult
    func renewRecord(of node: Node, always: Bool) throws(VolumeError) -> Bool {
        guard let state = node.directory, !options.isShared, !node.isUnlinked else { return false }
        let (known, stamp, lastLook) = state.contents.withLock { ($0.record, $0.stamp, $0.lastLook) }
        // Otherwise each use reads it.
        guard case .known(let former) = known else { return false }
        let now = monotonicNanoseconds()
        guard always || nanoseconds(from: lastLook, to: now) >= Self.recordLifetime else { return false }
        let directory = try directory(node)
        var found = try recordStamp(in: directory)
        if found == nil {
            guard try !isBeingRemoved(node, directory) else { return false }
            found = try recordStamp(in: directory)
        }
        if let found, found == stamp {
            state.contents.withLock { $0.lastLook = now }
            return false
        }
        let current = try recordIfVerified(directory, node)
        let hasOtherID = current?.directoryID != former.directoryID
        state.contents.withLock { contents in
            // Else another thread has read it, or replaced it, meanwhile.
            guard case .known(former) = contents.record else { return }
            contents.record = current.map { .known($0) } ?? .unread
            contents.stamp = found
            contents.lastLook = now
            if hasOtherID {
                contents.families = KnownFamilies()
                contents.hasDefaultACL = nil
            }
        }
        guard hasOtherID else { return false }
        node.state.withLock { $0.attributes.changed() }
        tellRenewed(node)
        return true
    }

    private func recordStamp(in directory: BackingDirectory) throws(VolumeError) -> ChangeStamp? {
        try status(of: BackingName.record, in: directory).map(ChangeStamp.init)
    }

    /// Whether a directory without a record is gone, or about to go. Waits for a removal that has set the record aside.
    private func isBeingRemoved(_ node: Node, _ directory: BackingDirectory) throws(VolumeError) -> Bool {
        node.state.withLock { $0.place?.parent }?.directory?.structure.withLock { _ in }
        if node.isUnlinked { return true }
        // Some network file systems have no status of what is removed.
        return ((try? directory.status().links) ?? 0) == 0
    }

    /// The record in the store; nil if it is missing or does not verify, which the next use reports.
    func recordIfVerified(_ directory: BackingDirectory, _ node: Node) throws(VolumeError) -> VerifiedRecord? {
        do throws(VolumeError) { return try readRecord(directory, node) } catch {
            guard case .damaged = error else { throw error }
            return nil
        }
    }

    /// The directory of a node and its name there, as programs see it; nil for the root, and if it has no name.
    package func shownPlace(of node: Node) -> (parent: Node, name: [UInt8])? {
        guard let place = node.state.withLock({ $0.place }), let directory = try? directory(place.parent),
            let id = try? directoryID(place.parent),
            let name = Self.nameShown(for: place.name, decode(place.name, in: directory, id))
        else { return nil }
        return (place.parent, name)
    }
}

extension Node {
    /// Whether nobody has looked for the directory's record.
    fileprivate var isRecordUnread: Bool {
        guard case .unread? = directory?.contents.withLock({ $0.record }) else { return false }
        return true
    }
}
