// What repair does about names, leftovers and records. Every step is one rename, or makes something new: an interruption
// leaves what a second run goes on with.

internal import BackingStore
internal import Keybag
internal import Locks
internal import VolumeFormat

extension Check {
    // MARK: moving away

    /// Moves a leftover away, where repair was asked for.
    @discardableResult
    func tidy(_ name: EntryName, _ directory: BackingDirectory, _ trail: Trail) -> Bool {
        guard options.repairs else { return false }
        return move(name, directory, trail) { $0.tidied += 1 }
    }

    /// Moves away what cannot be decrypted, where that was asked for.
    @discardableResult
    func moveAway(
        _ name: EntryName, _ directory: BackingDirectory, _ trail: Trail, settling errors: Int
    ) -> Bool {
        guard options.quarantines else { return false }
        return move(name, directory, trail, settling: errors)
    }

    @discardableResult
    private func move(
        _ name: EntryName, _ directory: BackingDirectory, _ trail: Trail, settling errors: Int = 0,
        _ change: (inout CheckSummary) -> Void = { _ in }
    ) -> Bool {
        do throws(Errno) {
            let target = try quarantine.take(name, from: directory, origin: trail.backingPath)
            did(
                Repair(action: .moved, path: trail.path, backingPath: trail.backingPath, target: target),
                settling: errors, change)
        } catch {
            found(.store, .error, trail, errno: error)
            return false
        }
        // A long name's companion has no entry now.
        if let companion = Volume.companionName(of: name), (try? directory.status(of: companion)) != nil {
            _ = try? quarantine.take(
                companion, from: directory,
                origin: trail.backingPath + Array(NameCipher.bytes(of: NameLimits.companionSuffix)))
        }
        return true
    }

    /// Moves away an attribute that does not decrypt: its name, a zero byte and its value.
    func moveAway(attribute name: [UInt8], of object: BackingNode, _ trail: Trail) {
        guard options.quarantines else { return }
        do throws(Errno) {
            let value = try object.attribute(name)
            let target = try quarantine.keep(name + [0] + value, of: "attribute", origin: trail.backingPath)
            try object.removeAttribute(name)
            did(
                Repair(action: .moved, path: trail.path, backingPath: trail.backingPath, target: target), settling: 1)
        } catch {
            found(.store, .error, trail, errno: error)
        }
    }

    // MARK: names

    /// Gives a readable name to an entry whose own does not decrypt, if what it holds verifies by itself.
    /// - Returns: the new name and its encoding; nil where it does not.
    /// - Throws: what the store says: what cannot be read now is not to be taken for what cannot be decrypted.
    func giveName(
        to entry: EntryName, _ status: Status, in directory: BackingDirectory, _ id: ObjectID?, _ trail: Trail
    ) throws(VolumeError) -> ([UInt8], EntryName)? {
        guard options.repairs, let id, try verifies(entry, status, directory) else { return nil }
        let name = Array("recovered-".utf8) + Volume.nameShown(for: entry).suffix(12)
        guard let encoded = try? volume.names.encode(name, in: id).entry else { return nil }
        do throws(VolumeError) {
            let backing = trail.backingPath.dropLast(entry.bytes.count) + Array(encoded.bytes)
            try volume.below { () throws(Errno) in
                try quarantine.note("renamed", from: trail.backingPath, to: Array(backing))
            }
            try volume.renameNew(entry, to: encoded, directory)
        } catch {
            // EEXIST: a former run has used the name for an entry that was there twice.
            if error != .store(.EEXIST), error != .exists { throw error }
            return nil
        }
        let path = trail.path.dropLast(Volume.nameShown(for: entry).count) + name
        did(
            Repair(action: .renamed, path: trail.path, backingPath: trail.backingPath, target: Array(path)),
            settling: 1)
        if let companion = Volume.companionName(of: entry), (try? directory.status(of: companion)) != nil {
            let suffix = NameCipher.bytes(of: NameLimits.companionSuffix)
            _ = try? quarantine.take(companion, from: directory, origin: trail.backingPath + suffix)
        }
        return (name, encoded)
    }

    /// Whether an entry shows by itself, whatever its name, that this volume has written it.
    private func verifies(
        _ entry: EntryName, _ status: Status, _ directory: BackingDirectory
    ) throws(VolumeError) -> Bool {
        switch status.kind {
        case .regular:
            do throws(VolumeError) {
                return try volume.header(of: entry, status, in: directory) != nil
            } catch {
                guard case .damaged = error else { throw error }
                return false
            }
        case .symlink:
            let target = try volume.below { () throws(Errno) in try directory.readSymlink(entry) }
            return volume.names.openTarget(target) != nil
        case .directory:
            let child = try volume.below { () throws(Errno) in try directory.openDirectory(entry) }
            guard let target = try volume.below({ () throws(Errno) in try Self.recordTarget(in: child) }),
                let record = volume.names.record(target: target)
            else { return false }
            return try volume.verifies(record, child)
        default: return false
        }
    }

    /// The target of a directory's record; nil where there is none, or no symlink.
    private static func recordTarget(in directory: BackingDirectory) throws(Errno) -> [UInt8]? {
        do throws(Errno) { return try directory.readSymlink(BackingName.record) } catch {
            if error == .ENOENT || error == .EINVAL { return nil }
            throw error
        }
    }

    // MARK: records

    /// Makes a record for a directory whose own is missing or damaged. What it had for a default class is not known: it
    /// gets its parent's.
    ///
    /// Names come first and the record last: until it is there a second run finds a directory without a record, and
    /// names of which some verify under the ID that it will give again.
    func rebuildRecord(
        of node: Node, _ place: Place?, _ directory: BackingDirectory, _ trail: Trail
    ) throws(VolumeError) -> ObjectID? {
        guard options.repairs else { return nil }
        let stored = try volume.below { () throws(Errno) in try Self.recordTarget(in: directory) }
        var record: VerifiedRecord
        if let place {
            guard let parentID = try knownID(place.parent) else { return nil }
            let parentClass = (try? volume.defaultClass(place.parent)) ?? nil
            if let id = try stored.flatMap(Self.claimedID).flatMap({ (id) throws(VolumeError) in
                try holds(id, directory) ? id : nil
            }) {
                record = VerifiedRecord(directoryID: id, defaultClass: parentClass)
            } else {
                let entries = try volume.below { () throws(Errno) in try directory.entries() }
                let isEmpty = entries.allSatisfy {
                    unsafe Volume.isOwn(ReservedName.kind(of: $0.name.bytes.span.bytes))
                }
                // An empty one without record gets it at the first create.
                let isThere = entries.contains { $0.name == BackingName.record }
                if isEmpty, !isThere { return nil }
                record = VerifiedRecord(
                    directoryID: volume.names.derivedID(parent: parentID, name: place.name), defaultClass: parentClass)
                for entry in entries where mayGoOn() {
                    try rename(entry.name, in: directory, to: record.directoryID, trail)
                }
                guard mayGoOn() else { return nil }
            }
        } else {
            record = VerifiedRecord(directoryID: volume.keys.metadata.rootID, defaultClass: nil)
        }
        try put(record, stored, in: directory, trail)
        node.directory?.contents.withLock { contents in
            contents.record = .known(record.directoryID, defaultClass: record.defaultClass)
            contents.changes += 1
        }
        did(Repair(action: .rebuilt, path: trail.path, backingPath: trail.backingPath), settling: 1)
        return record.directoryID
    }

    /// Puts a record in the place of one that does not verify, in one step: the ID in that may be the only one there is.
    private func put(
        _ record: VerifiedRecord, _ old: [UInt8]?, in directory: BackingDirectory, _ trail: Trail
    ) throws(VolumeError) {
        let origin = trail.appending(Array(BackingName.record.bytes), BackingName.record).backingPath
        try volume.below { () throws(Errno) in
            if let old, !old.isEmpty {
                _ = try quarantine.keep(old, of: "record", origin: origin)
            } else if old == nil, (try? directory.status(of: BackingName.record)) != nil {
                // Something that is no symlink.
                _ = try quarantine.take(BackingName.record, from: directory, origin: origin)
            }
            let temporary = BackingName.temporary()
            try directory.createSymlink(temporary, target: volume.names.recordTarget(record))
            do throws(Errno) {
                try directory.rename(temporary, to: directory, BackingName.record)
            } catch {
                try? directory.unlink(temporary)
                throw error
            }
        }
    }

    /// The ID in a record that does not verify.
    private static func claimedID(_ target: [UInt8]) -> ObjectID? {
        guard let bytes = DirectoryRecord.decode(target: unsafe target.span.bytes) else { return nil }
        return ObjectID(unsafe bytes.span.bytes, at: 12)
    }

    /// Whether the names in a directory prove that `id` is its ID.
    private func holds(_ id: ObjectID, _ directory: BackingDirectory) throws(VolumeError) -> Bool {
        try volume.below { () throws(Errno) in
            for entry in try directory.entries() {
                switch unsafe ReservedName.kind(of: entry.name.bytes.span.bytes) {
                case .encoded, .long:
                    if case .name = try volume.decodeOrFail(entry.name, in: directory, id) { return true }
                default: continue
                }
            }
            return false
        }
    }

    /// A parent's ID; nil where its record is missing or damaged.
    private func knownID(_ parent: Node) throws(VolumeError) -> ObjectID? {
        do throws(VolumeError) { return try volume.directoryID(parent) } catch {
            guard case .damaged = error else { throw error }
            return nil
        }
    }

    /// Encodes an entry's name anew for a directory that gets another ID; what makes no name is left for what comes after.
    private func rename(
        _ entry: EntryName, in directory: BackingDirectory, to id: ObjectID, _ trail: Trail
    ) throws(VolumeError) {
        let (now, name) = try volume.below { () throws(Errno) in
            (try volume.decodeOrFail(entry, in: directory, id), try volume.decodeOrFail(entry, in: directory, nil))
        }
        guard case .undecryptable = now, case .name(let name) = name,
            String(validating: name, as: UTF8.self) != nil, let encoded = try? volume.names.encode(name, in: id)
        else { return }
        do throws(VolumeError) {
            try volume.below { () throws(Errno) in
                try quarantine.note(
                    "renamed", from: trail.appending([], entry).backingPath,
                    to: trail.appending([], encoded.entry).backingPath)
                if let companion = encoded.companion {
                    do throws(Errno) {
                        try directory.createSymlink(companion.name, target: companion.target)
                    } catch { if error != .EEXIST { throw error } }
                }
            }
            try volume.renameNew(entry, to: encoded.entry, directory)
        } catch {
            guard error == .store(.EEXIST) || error == .exists else { throw error }
            return
        }
        if let companion = Volume.companionName(of: entry), (try? directory.status(of: companion)) != nil {
            _ = try? quarantine.take(companion, from: directory, origin: trail.appending([], companion).backingPath)
        }
    }
}
