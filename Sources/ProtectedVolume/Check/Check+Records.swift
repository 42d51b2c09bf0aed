// Repairs directory records. Replaces a missing or damaged record by one with the strongest class that the directory
// may have had.

internal import BackingStore
internal import Keybag
internal import HostSystem
internal import VolumeFormat

extension Check {
    /// Makes a new record for a directory whose record is missing or damaged.
    ///
    /// It keeps the ID of a damaged record if a name in the directory proves that ID. Otherwise the directory gets a
    /// new ID, and then the entries get new names, one by one. Until then no name verifies.
    func rebuildRecord(
        of node: Node, _ place: Place?, _ directory: BackingDirectory, _ paths: ObjectPaths
    ) throws(VolumeError) -> ObjectID? {
        guard repairs else { return nil }
        let stored = try volume.below { () throws(Errno) in try Self.recordTarget(in: directory) }
        let defaultClass = try strongestClass(of: directory, stored, place)
        guard mayGoOn() else { return nil }
        var id = NameCipher.randomID()
        if place == nil {
            id = volume.keys.metadata.rootID
        } else if let claimed = stored.flatMap({ Self.claim($0) })?.id, try holds(claimed, directory) {
            id = claimed
        }
        let record = VerifiedRecord(directoryID: id, defaultClass: defaultClass)
        try put(record, stored, in: directory, paths)
        node.directory?.contents.withLock { contents in
            contents.record = .known(record)
            contents.changes += 1
        }
        state.withLock { _ = $0.rebuilt.insert(node.inode) }
        did(
            Repair(
                action: .rebuilt, path: paths.visible, backingPath: paths.backing, protectionClass: defaultClass),
            settling: 1)
        return record.directoryID
    }

    /// Replaces a record that does not verify, in one step. The old record may have the only copy of the ID.
    private func put(
        _ record: VerifiedRecord, _ old: [UInt8]?, in directory: BackingDirectory, _ paths: ObjectPaths
    ) throws(VolumeError) {
        let origin = paths.appending(Array(BackingName.record.bytes), BackingName.record).backing
        try volume.below { () throws(Errno) in
            if let old, !old.isEmpty {
                _ = try quarantine.keep(old, of: "record", origin: origin)
            } else if old == nil, (try? directory.status(of: BackingName.record)) != nil {
                // It is not a symlink.
                _ = try quarantine.take(BackingName.record, from: directory, origin: origin)
            }
            let temporary = BackingName.temporary()
            try directory.createSymlink(temporary, target: volume.names.recordTarget(record))
            do throws(Errno) {
                try volume.syncNewLinks(in: directory)
                try directory.rename(temporary, to: directory, BackingName.record)
                try Self.settle(directory)
            } catch {
                try? directory.unlink(temporary)
                throw error
            }
        }
    }

    // MARK: proofs

    /// The target of a directory's record; nil if the record is missing or not a symlink.
    static func recordTarget(in directory: BackingDirectory) throws(Errno) -> [UInt8]? {
        do throws(Errno) { return try directory.readSymlink(BackingName.record) } catch {
            if error == .ENOENT || error == .EINVAL { return nil }
            throw error
        }
    }

    /// The claims of a record that does not verify. Its ID counts only if a name proves it, its class only if it is stronger.
    /// A class with a number that is not known may be stronger than all others.
    private static func claim(_ target: [UInt8]) -> (id: ObjectID, protectionClass: ProtectionClass?)? {
        guard let bytes = DirectoryRecord.decode(target: target.span) else { return nil }
        let number = bytes[4]
        return (ObjectID(bytes.span, at: 12), number == 0 ? nil : ProtectionClass(rawValue: number) ?? .complete)
    }

    /// Whether the names in a directory prove that `id` is its ID.
    private func holds(_ id: ObjectID, _ directory: BackingDirectory) throws(VolumeError) -> Bool {
        try volume.below { () throws(Errno) in
            for entry in try directory.entries() {
                switch ReservedName.kind(of: entry.name.bytes.span) {
                case .encoded, .long:
                    if case .name = try volume.decodeOrFail(entry.name, in: directory, id) { return true }
                default: continue
                }
            }
            return false
        }
    }

    // MARK: its class

    /// The strongest class of the parent's default, the files inside, and the defaults of the directories inside, which were
    /// copied from this directory when they were made. If none of these is proven, the strongest class. The claim of the
    /// damaged record is not proven: it only makes the class stronger.
    private func strongestClass(
        of directory: BackingDirectory, _ stored: [UInt8]?, _ place: Place?
    ) throws(VolumeError) -> ProtectionClass {
        var strongest: ProtectionClass?
        if let place { try Self.strengthen(&strongest, with: classOfParent(place.parent)) }
        // If this is the root, directories without a default used its class, so their files count too. What this run has made of
        // the parent's record comes from here, too: this directory had none then.
        let isCovered = place.map { place in state.withLock { $0.rebuilt.contains(place.parent.inode) } } ?? false
        var waiting = isCovered ? [] : [directory]
        while let next = waiting.popLast(), strongest != .complete, mayGoOn() {
            for entry in try volume.below({ () throws(Errno) in try next.entries() }) where strongest != .complete {
                let kind = ReservedName.kind(of: entry.name.bytes.span)
                guard kind == .encoded || kind == .long, let status = try volume.status(of: entry.name, in: next)
                else { continue }
                switch status.kind {
                case .regular: Self.strengthen(&strongest, with: provenClass(of: entry.name, status, in: next))
                case .directory:
                    let child = try volume.below { () throws(Errno) in try next.openDirectory(entry.name) }
                    let target = try volume.below { () throws(Errno) in try Self.recordTarget(in: child) }
                    let record = target.flatMap { volume.names.record(target: $0) }
                    if record?.known == .names {
                        strongest = .complete
                    } else if let known = record?.defaultClass {
                        Self.strengthen(&strongest, with: known)
                    } else {
                        waiting.append(child)
                    }
                default: continue
                }
            }
        }
        guard strongest != nil else { return .complete }
        Self.strengthen(&strongest, with: stored.flatMap { Self.claim($0) }?.protectionClass)
        return strongest ?? .complete
    }

    /// The default class of the parent; the strongest class if a newer version has set it, so that it is not known.
    private func classOfParent(_ parent: Node) throws(VolumeError) -> ProtectionClass? {
        do throws(VolumeError) { return try volume.defaultClass(parent) } catch {
            switch error {
            case .newer: return .complete
            case .damaged: return nil
            default: throw error
            }
        }
    }

    /// A file's class if block 0 proves it, else the strongest class: the file may have had it, or a newer version has made
    /// the file. Nil for a file that has
    /// no header because of a crash.
    private func provenClass(of name: EntryName, _ status: Status, in directory: BackingDirectory) -> ProtectionClass? {
        do throws(VolumeError) {
            return try volume.verifiedClass(of: name, status, in: directory)?.protectionClass
        } catch {
            return .complete
        }
    }

    private static func strengthen(_ strongest: inout ProtectionClass?, with other: ProtectionClass?) {
        guard let other else { return }
        if strongest.map({ other.isStronger(than: $0) }) ?? true { strongest = other }
    }
}
