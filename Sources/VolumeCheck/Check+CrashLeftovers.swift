// What a session of this machine that ended with a crash has left besides damaged files: unfinished objects under temporary names,
// overflow objects to which nothing refers, and late files.

internal import BackingStore
internal import FileContents
internal import HostSystem
internal import KeyFiles
internal import Keybag
internal import ProtectedVolume
internal import VolumeFormat

/// What the sessions that ended badly may have left, as their lists of changed files say.
struct CrashLeftovers: Sendable {
    /// The overflow objects in the store that these sessions have made or were replacing.
    private(set) var overflow: Set<ObjectID> = []
    /// The beginning of the first session, in nanoseconds since 1970; nil if no list can be used.
    private var since: Int64?

    /// Nothing.
    init() {}

    /// - Parameter states: has the lists.
    init(of volume: Volume, _ states: StateFileStore?) {
        let epochs = volume.content.epochs
        guard let states, epochs.tolerance == .byEpoch, volume.rootDirectory.keepsIdentity else { return }
        var listed: Set<UInt64> = []
        for epoch in epochs.endedBadly {
            guard let (list, entries) = states.changedList(of: epoch) else { continue }
            listed.formUnion(entries)
            since = min(since ?? .max, list.header.began)
        }
        guard !listed.isEmpty, let entries = try? volume.overflow.directory().entries() else { return }
        overflow = Set(
            entries.compactMap { OverflowObjects.id(of: $0.name) }
                .filter { listed.contains(ChangedFiles.entry(of: $0)) })
    }

    /// Whether one of the sessions can have made an object.
    func mayHaveMade(_ status: Status) -> Bool {
        guard let since, let born = status.born else { return false }
        return born.nanosecondsSince1970 >= since
    }
}

extension Check {
    /// Removes an unfinished object that a crashed session may have left, if it has nothing that is not elsewhere too.
    func removeLeftover(_ name: EntryName, in node: Node, _ directory: BackingDirectory, _ paths: ObjectPaths) {
        guard mends, !paths.isKept, let status = try? directory.status(of: name),
            state.withLock({ $0.leftovers.mayHaveMade(status) })
        else { return }
        do throws(Errno) {
            switch status.kind {
            case .regular where try isUnfinishedFile(name, status, directory),
                .symlink where try isUnfinishedLink(name, node, directory):
                try directory.unlink(name)
            case .directory: try removeUnfinishedDirectory(name, directory)
            default: return
            }
            try Self.settle(directory)
        } catch {
            // The next check finds it.
            return
        }
    }

    /// A new file without content, or the copy of a file beside it.
    private func isUnfinishedFile(
        _ name: EntryName, _ status: Status, _ directory: BackingDirectory
    ) throws(Errno) -> Bool {
        if status.size <= UInt64(PageGeometry.pageSize) {
            var bytes = [UInt8](repeating: 0, count: PageGeometry.pageSize)
            var room = bytes.mutableSpan
            _ = try directory.openFile(name, .readOnly).read(into: &room, at: 0)
            if bytes.allSatisfy({ $0 == 0 }) { return true }
        }
        return try NeededKeys.isLeftover(name, in: directory, volume.keys.metadata)
    }

    /// A record with the ID of its directory, which has one; or the companion of a name. The record of an empty directory may be set
    /// aside under a temporary name, and has another ID.
    private func isUnfinishedLink(_ name: EntryName, _ node: Node, _ directory: BackingDirectory) throws(Errno) -> Bool
    {
        let target = try directory.readSymlink(name)
        guard let own = try? volume.record(of: node), !own.isNewer else { return false }
        if let record = volume.names.record(target: target) {
            return !record.isNewer && record.directoryID == own.directoryID
        }
        return volume.names.decode(target, in: own.directoryID) != nil
    }

    private func removeUnfinishedDirectory(_ name: EntryName, _ directory: BackingDirectory) throws(Errno) {
        let made = try directory.openDirectory(name)
        let names = try made.entries().map(\.name)
        guard names.isEmpty || names == [BackingName.record] else { return }
        if let target = names.isEmpty ? nil : try made.readSymlink(BackingName.record) {
            guard volume.names.record(target: target)?.isNewer != true else { return }
            try made.unlink(BackingName.record)
        }
        try directory.removeDirectory(name)
    }

    /// Notes the overflow objects of something that a quick check does not open, if any of a crashed session may have to be removed.
    func noteReferences(of place: Place, _ status: Status) {
        guard state.withLock({ !$0.leftovers.overflow.isEmpty }) else { return }
        do throws(VolumeError) {
            let node = try volume.entry(status, in: place.parent, place.name).node
            defer { volume.forget(node, count: 1) }
            if node.kind == .symlink {
                _ = try volume.readlink(node)
                if let reference = volume.overflowReference(of: node) { noteOverflow(reference.id) }
            }
            let object = try volume.backing(node)
            let all = try volume.below { () throws(Errno) in try object.attributeNames() }
            guard all.contains(where: { NameCipher.isEncryptedAttribute($0) }) else { return }
            let id = try volume.objectID(of: node)
            if let used = try volume.storedAttributes(object, id).usedOverflow(in: all) { noteOverflow(used) }
        } catch {
            // It may refer to any of them.
            state.withLock { $0.overflow = nil }
        }
    }

    /// Reports late files, which were read before everything else.
    func tellLateFiles() {
        for (number, notice) in state.withLock({ $0.late }) {
            let paths = ObjectPaths(backing: LateFileName.bytes(of: number))
            switch notice {
            case .cutOff: found(.staleLate, .crash, paths)
            // A crash may have come after the state file was written and before the late file was made.
            case .missing: found(.lateRecords, .crash, paths)
            case .failed(let error): found(error, paths)
            case .newer: found(.newer(.late), paths)
            // Reported with the entries of the root.
            case .refused, .notListed: break
            case .waits, .applied: break
            }
        }
    }
}
