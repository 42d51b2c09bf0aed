// Reads and verifies directory records once, and restores records that a crash left set aside. It never invents a
// record.

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
}
