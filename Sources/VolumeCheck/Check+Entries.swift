// Checks directories, names, links and attributes.

internal import BackingStore
internal import KeyFiles
internal import Keybag
internal import HostSystem
internal import ProtectedVolume
internal import VolumeFormat

extension Check {
    /// Checks a directory's record, names and crash leftovers, and queues its entries.
    func look(atDirectory place: Place?, _ paths: ObjectPaths, _ above: Visit?, walked: TreePath?) {
        do throws(VolumeError) {
            let visit = try enter(place, above, paths, walked: walked)
            let node = visit.node
            count { $0.directories += 1 }
            advance(Self.objectWeight)
            let directory = try volume.directory(node)
            let record = try checkRecord(of: node, paths)
            var paths = paths
            paths.keepsEntries = record?.isNewer ?? false
            var id = record?.directoryID
            if id == nil { id = try rebuildRecord(of: node, place, directory, paths) }
            if id != nil { checkAttributes(of: node, paths) }
            visit.paths = paths
            add(.names(visit, after: nil))
        } catch {
            found(error, paths)
        }
    }

    /// The directory's record. Reports a missing or wrong record and returns nil. Reports a newer record, too.
    private func checkRecord(of node: Node, _ paths: ObjectPaths) throws(VolumeError) -> VerifiedRecord? {
        do throws(VolumeError) {
            if let record = try volume.record(of: node) {
                if record.isNewer {
                    found(.newer(.record), paths)
                    if node === volume.root { state.withLock { $0.hasNewerRoot = true } }
                    return record
                }
                let isAside = try isSetAside(node)
                if isAside || state.withLock({ $0.restored.contains(node.inode) }) {
                    found(.restoredRecord, .crash, paths)
                }
                noteID(record.directoryID, node)
                return record
            }
        } catch {
            guard case .damaged = error else { throw error }
            found(error, paths)
            return nil
        }
        found(.missingRecord, .error, paths)
        return nil
    }

    /// Whether a directory's record is the one that was set aside, because nothing may be written.
    private func isSetAside(_ node: Node) throws(VolumeError) -> Bool {
        guard !mends else { return false }
        let directory = try volume.directory(node)
        return try volume.below { () throws(Errno) in try Self.recordTarget(in: directory) }?.isEmpty ?? true
    }

    /// Whether an entry has a reserved name. Reports leftovers.
    func isReserved(
        _ entry: EntryName, in visit: Visit, _ directory: BackingDirectory, _ paths: ObjectPaths
    ) -> Bool {
        let node = visit.node
        let kind = ReservedName.kind(of: entry.bytes.span)
        if case .encoded = kind { return false }
        let shown = paths.appending(Array(entry.bytes), entry)
        if kind.isHidden, !kind.belongs(inRoot: node === volume.root) {
            // It is never moved, because a newer version may need it here.
            found(.reservedName, .note, shown)
            state.withLock { $0.hasUnknownNames = true }
            return true
        }
        switch kind {
        case .record, .lostAndFound, .overflow: return true
        case .unknownReserved:
            state.withLock { $0.hasUnknownNames = true }
            return true
        case .keybag:
            if entry != BackingName.keybag { found(.previousKeybag, .note, shown) }
            return true
        case .late:
            if isNewerLateFile(entry, shown) { return true }
            if !mends || !volume.late.isLoaded || volume.late.isOwed(shown.backing) {
                found(.lateRecords, .note, shown)
            } else {
                found(.staleLate, .note, shown)
                tidy(entry, directory, shown)
            }
            return true
        case .temporary:
            found(.temporary, .note, shown)
            // An unfinished keybag is not kept, because a revoked credential may open it. The next unlock destroys it.
            if node !== volume.root || entry != BackingName.temporaryKeybag {
                if !tidy(entry, directory, shown) { removeLeftover(entry, in: node, directory, shown) }
            }
            return true
        case .aside:
            switch judge(aside: entry, in: visit, directory, shown) {
            case .needed: break
            case .unjudged: found(.staleAside, .note, shown)
            case .newer: found(.newer(.record), shown)
            case .stale:
                found(.staleAside, .note, shown)
                // A mount would remove it, but repair removes nothing.
                if options.repairs {
                    tidy(entry, directory, shown)
                } else if mends, !shown.isKept {
                    try? directory.unlink(entry)
                }
            case .damaged:
                found(.aside, .error, shown)
                moveAway(entry, directory, shown, settling: 1)
            }
            return true
        case .companion:
            guard let long = EntryName(entry.bytes.dropLast(2)) else { return true }
            do throws(VolumeError) {
                // A repair of the entry has moved it, too.
                guard try volume.status(of: entry, in: directory) != nil else { return true }
                guard try volume.status(of: long, in: directory) == nil else { return true }
                found(.orphanCompanion, .note, shown)
                tidy(entry, directory, shown)
            } catch {
                // It does not count as an orphan, because it has the only copy of its entry's name.
                found(error, shown)
            }
            return true
        case .foreign:
            // The file system's own directory, if the volume is the root of a file system.
            guard node === volume.root, entry == BackingName.storesLostAndFound else {
                return false
            }
            found(.foreign, .note, shown)
            return true
        case .long, .encoded: return false
        }
    }

    /// Checks one entry: first its name, then the object.
    /// - Parameter known: its status, if it was read just now.
    func look(at entry: EntryName, _ known: Status?, in visit: Visit, _ directory: BackingDirectory) {
        let (parent, above) = (visit.node, visit.paths)
        var paths = above.appending(Volume.nameShown(for: entry), entry)
        do throws(VolumeError) {
            guard let status = known != nil ? known : try volume.status(of: entry, in: directory) else { return }
            let id = try volume.directoryID(parent)
            var place = Place(parent: parent, name: entry)
            let decoded = try volume.below { () throws(Errno) in
                try volume.decodeOrFail(entry, in: directory, id)
            }
            switch try judge(decoded, entry, status, in: parent, directory, id, above) {
            case .stays(let shown): paths = shown
            case .renamed(let name, let encoded):
                place.name = encoded
                paths = above.appending(name, encoded)
            case .gone: return
            }
            guard let kind = NodeKind(status.kind) else {
                found(.kind, .error, paths)
                moveAway(place.name, directory, paths, settling: 1)
                return
            }
            // Each write removes its staging directory or file, and no program writes now. So a killed program has left
            // this one.
            if kind == .directory || kind == .file && status.links == 1, id != nil, case .name(let name) = decoded,
                StagingName.matches(name.span)
            {
                found(.staging, .note, paths)
                if try !holdsNewer(place.name, status, in: directory), tidy(place.name, directory, paths) { return }
            }
            if kind == .directory {
                return add(.directory(place, paths, visit, walked: visit.walked(to: entry)))
            }
            if kind == .file, status.links > 1 {
                if hasBeenSeen(status) { return advance(weight(of: status)) }
            }
            if let scope, kind == .file ? !scope.opens(status) : scope.readsByEnds {
                count { summary in
                    switch kind {
                    case .file: summary.files += 1
                    case .symlink: summary.symlinks += 1
                    default: summary.others += 1
                    }
                }
                noteReferences(of: place, status)
                return advance(weight(of: status))
            }
            let node = try volume.entry(status, in: parent, place.name).node
            defer { volume.forget(node, count: 1) }
            switch kind {
            case .file:
                let isRead = visit.earlier.has(entry.bytes) && recorder?.hasRead(status) ?? false
                look(atFile: node, place, status, paths, isRead: isRead)
            case .symlink:
                count { $0.symlinks += 1 }
                advance(weight(of: status))
                if let reference = volume.overflowReference(of: node) { noteOverflow(reference.id) }
                look(atLink: node, place, paths)
            default:
                count { $0.others += 1 }
                advance(weight(of: status))
                checkAttributes(of: node, paths)
            }
        } catch {
            found(error, paths)
        }
    }

    private enum Judged {
        case stays(ObjectPaths)
        case renamed([UInt8], EntryName)
        case gone
    }

    /// Reports a name that does not verify. If the options ask for it, renames the entry or moves it away.
    private func judge(
        _ decoded: DecodedName, _ entry: EntryName, _ status: Status, in parent: Node, _ directory: BackingDirectory,
        _ id: ObjectID?, _ above: ObjectPaths
    ) throws(VolumeError) -> Judged {
        switch decoded {
        case .name(let name):
            let paths = above.appending(name, entry)
            if let (name, encoded) = try confirm(name, of: entry, in: directory, id, paths) {
                return .renamed(name, encoded)
            }
            return .stays(paths)
        case .unverified(let name):
            let paths = above.appending(UnverifiedName.bytes(for: entry, name), entry)
            foundUnverified(paths)
            return .stays(paths)
        case .undecryptable, .reserved:
            var paths = above.appending(Volume.nameShown(for: entry), entry)
            // Reported with the directory, whose record this run has made.
            let isExpected = state.withLock { $0.rebuilt.contains(parent.inode) }
            if isExpected, case .unverified(let name) = volume.decode(entry, in: directory, nil) {
                paths = above.appending(UnverifiedName.bytes(for: entry, name), entry)
                foundUnverified(paths)
                if try isNewer(entry, status, in: directory) { return .stays(paths) }
                if let given = try giveName(to: entry, status, in: directory, id, above, settling: 0) {
                    return .renamed(given.0, given.1)
                }
                // Else the next check would find what this one has not told.
                if !repairs || above.keepsEntries { return .stays(paths) }
            }
            // A name that an older record gave it, for example. It can be renamed in a mount, and only there.
            if (try? isNewer(entry, status, in: directory)) == true {
                foundUnverified(paths)
                return .stays(paths)
            }
            if let original = original(ofConflict: entry, in: directory, id) {
                found(.conflict, .error, above.appending(original, entry))
            } else {
                found(Self.kind(ofUndecryptable: entry), .error, paths)
            }
            if repairs, try holdsNewer(entry, status, in: directory) { return .stays(paths) }
            if let (name, encoded) = try giveName(to: entry, status, in: directory, id, above, settling: 1) {
                return .renamed(name, encoded)
            }
            return moveAway(entry, directory, paths, settling: 1) ? .gone : .stays(paths)
        }
    }

    /// The name of the entry of which a program has made another version here. Nil if `entry` is something else.
    private func original(ofConflict entry: EntryName, in directory: BackingDirectory, _ id: ObjectID?) -> [UInt8]? {
        guard id != nil else { return nil }
        for original in ConflictName.originals(of: entry) {
            if case .name(let name) = volume.decode(original, in: directory, id) { return name }
        }
        return nil
    }

    private static func kind(ofUndecryptable name: EntryName) -> Finding.Kind {
        switch ReservedName.kind(of: name.bytes.span) {
        case .long: .companion
        case .foreign: .foreign
        // Its length alone would allow it.
        case .encoded where Base64URL.decode(Array(name.bytes).span) == nil: .foreign
        default: .name
        }
    }

    private func look(atLink node: Node, _ place: Place, _ paths: ObjectPaths) {
        do throws(VolumeError) {
            _ = try volume.readlink(node)
        } catch {
            found(error, paths)
            if case .damaged = error, let directory = try? volume.directory(place.parent),
                moveAway(place.name, directory, paths, settling: 1)
            {
                return
            }
        }
        checkAttributes(of: node, paths)
    }

    /// Whether an object's attribute record verifies. Reports a newer one, which counts as verified.
    private func verifies(
        _ attributes: StoredAttributes, _ stored: [UInt8], _ paths: ObjectPaths
    ) throws(VolumeError) -> Bool {
        do throws(VolumeError) {
            let record = try attributes.record(in: [stored])
            if let overflow = record.overflow { noteOverflow(overflow) }
            return true
        } catch {
            switch error {
            case .newer: found(.newer(.attribute), paths)
            case .damaged: return false
            default: throw error
            }
            return true
        }
    }

    /// Checks names and values of the attributes of an object.
    func checkAttributes(of node: Node, _ paths: ObjectPaths) {
        do throws(VolumeError) {
            let object = try volume.backing(node)
            var id: ObjectID?
            for stored in try volume.below({ () throws(Errno) in try object.attributeNames() }) {
                guard NameCipher.isEncryptedAttribute(stored) else { continue }
                if id == nil { id = try volume.objectID(of: node) }
                guard let id, NameCipher.isEncryptedAttribute(stored, of: id) else { continue }
                let value = try volume.below { () throws(Errno) in try object.attribute(stored) }
                if let name = volume.names.decodeAttribute(stored, of: id) {
                    if name.span.equals(AttributeName.record) {
                        if try verifies(volume.storedAttributes(object, id), stored, paths) { continue }
                    }
                    if volume.names.openValue(value, name: name, of: id) != nil { continue }
                    if volume.names.isNewerValue(value, name: name, of: id) {
                        found(.newer(.attribute), paths)
                        continue
                    }
                }
                found(.attribute, .error, paths)
                moveAway(attribute: stored, of: object, paths)
            }
        } catch {
            found(error, paths)
        }
    }
}
