// Repairs directory records. Replaces a missing or damaged record by one with the strongest class that the directory
// may have had.

internal import BackingStore
internal import FileContents
internal import KeyFiles
internal import Keybag
internal import HostSystem
internal import ProtectedVolume
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
        let defaultClass = try strongestClass(of: node, directory, stored, place)
        guard mayGoOn() else { return nil }
        var id = NameCipher.randomID()
        if place == nil {
            id = volume.keys.metadata.rootID
        } else if let claimed = stored.flatMap({ Self.claim($0) })?.id, try holds(claimed, directory) {
            id = claimed
        }
        let record = VerifiedRecord(directoryID: id, defaultClass: defaultClass)
        try put(record, stored, in: directory, paths)
        node.directory?.set(record: record)
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
        of node: Node, _ directory: BackingDirectory, _ stored: [UInt8]?, _ place: Place?
    ) throws(VolumeError) -> ProtectionClass {
        var strongest: ProtectionClass?
        if let place { try Self.strengthen(&strongest, with: classOfParent(place.parent)) }
        if strongest != .complete { try Self.strengthen(&strongest, with: provenClass(below: directory, node.key)) }
        guard strongest != nil else { return .complete }
        Self.strengthen(&strongest, with: stored.flatMap { Self.claim($0) }?.protectionClass)
        return strongest ?? .complete
    }

    /// A directory of a look for proofs.
    private struct Inside {
        /// Nil if it has a record, so that nobody asks for its class again.
        let key: InodeKey?
        var strongest: ProtectionClass?
        /// The directories in it that were not looked into.
        var waiting: [DirectoryEntry] = []
    }

    /// The strongest class that something in a directory proves; nil for none.
    ///
    /// What is found of each directory without a record is kept until that directory is repaired, so that each is looked into once.
    private func provenClass(below top: BackingDirectory, _ key: InodeKey) throws(VolumeError) -> ProtectionClass? {
        if let known = state.withLock({ $0.proven.removeValue(forKey: key) }) { return known }
        var way = Descent(from: top)
        // If this is the root, directories without a default used its class, so their files count too.
        var levels = [try look(inside: top, key)]
        while mayGoOn() {
            let deepest = levels.count - 1
            // Then each of them has a part of that class.
            if levels[deepest].strongest == .complete {
                for level in levels.dropFirst() { keep(level, .complete) }
                return .complete
            }
            guard let next = levels[deepest].waiting.popLast() else {
                let done = levels.removeLast()
                if levels.isEmpty { return done.strongest }
                way.leave()
                keep(done, done.strongest)
                Self.strengthen(&levels[deepest - 1].strongest, with: done.strongest)
                continue
            }
            let child = try volume.below { () throws(Errno) in
                try way.enter(next)
                return try way.directory()
            }
            let target = try volume.below { () throws(Errno) in try Self.recordTarget(in: child) }
            let record = target.flatMap { volume.names.record(target: $0) }
            let known = record?.known == .names ? .complete : record?.defaultClass
            if known != nil {
                way.leave()
                Self.strengthen(&levels[deepest].strongest, with: known)
            } else {
                let status = try volume.below { () throws(Errno) in try child.status() }
                levels.append(try look(inside: child, record == nil ? InodeKey(status) : nil))
            }
        }
        return nil
    }

    private func keep(_ level: Inside, _ strongest: ProtectionClass?) {
        guard let key = level.key else { return }
        state.withLock { _ = $0.proven.updateValue(strongest, forKey: key) }
    }

    /// Looks at the files of a directory.
    private func look(inside directory: BackingDirectory, _ key: InodeKey?) throws(VolumeError) -> Inside {
        var inside = Inside(key: key)
        for entry in try volume.below({ () throws(Errno) in try directory.entries() }) {
            let kind = ReservedName.kind(of: entry.name.bytes.span)
            guard kind == .encoded || kind == .long, let status = try volume.status(of: entry.name, in: directory)
            else { continue }
            switch status.kind {
            case .regular: Self.strengthen(&inside.strongest, with: provenClass(of: entry.name, status, in: directory))
            case .directory: inside.waiting.append(entry)
            default: continue
            }
            if inside.strongest == .complete { break }
        }
        return inside
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
