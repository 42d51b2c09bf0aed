// Walks the tree: each directory in the order of its backing names, a part of them at a time, so that memory does not grow
// with the volume and findings come in the same order each time.

internal import BackingStore
internal import HostSystem
internal import KeyFiles
internal import ProtectedVolume
internal import VolumeFormat

/// A directory whose entries are being checked. Its node is known as long as an item of the queue needs it.
final class Visit: Sendable {
    let node: Node
    private let volume: Volume
    /// The directory above, which is known as long as this one. Nil for the root.
    private let above: InPlaceLock<Visit?>
    private let shown: Lock<ObjectPaths>
    /// The names as they were listed, which a repair may have changed: its place in the order of the walk. Nil for the root.
    private let walked: TreePath?
    /// What an interrupted check has done in it. Nothing if it or a directory above has changed since that check began. The root's
    /// own changes do not count, because nothing can be moved with it.
    let earlier: WalkedPart
    /// What was found of records set aside here, once it was asked for.
    let judgedAsides = Lock<JudgedAsides?>(nil)

    /// The directory's paths, for its entries.
    var paths: ObjectPaths {
        get { shown.withLock { $0 } }
        set { shown.withLock { $0 = newValue } }
    }

    /// Takes over a lookup of `node`, unless that is the root.
    init(
        _ node: Node, _ volume: Volume, _ above: Visit?, _ paths: ObjectPaths, walked: TreePath? = nil,
        earlier: WalkedPart = .none
    ) {
        self.walked = walked
        self.earlier = earlier
        self.node = node
        self.volume = volume
        self.above = InPlaceLock(above)
        shown = Lock(paths)
    }

    /// The directory's own place in the order of the walk.
    var place: WalkPlace { WalkPlace(path: walked?.whole ?? []) }

    /// The names as listed down to an entry.
    func walked(to entry: EntryName) -> TreePath { TreePath(Array(entry.bytes), in: walked) }

    deinit {
        if node !== volume.root { volume.forget(node, count: 1) }
        // Not by one call for each level, because a stack has an end.
        var next = above.withLock { $0.take() }
        while next != nil, isKnownUniquelyReferenced(&next) { next = next?.above.withLock { $0.take() } }
    }
}

extension Check {
    /// The number of entries that a worker takes at once.
    private static var entriesAtOnce: Int { 64 }
    /// The backing length from which on a file is an item of its own.
    private static var largeFile: UInt64 { 4 << 20 }
    /// The number of hard-linked files that are remembered. Further ones are checked under each name.
    private static var mostLinks: Int { 262_144 }

    /// - Parameter walked: the names as listed.
    func enter(
        _ place: Place?, _ above: Visit?, _ paths: ObjectPaths, walked: TreePath? = nil
    ) throws(VolumeError) -> Visit {
        guard let place else { return Visit(volume.root, volume, nil, paths, earlier: recorder?.earlierPart ?? .none) }
        let directory = try volume.directory(place.parent)
        guard let status = try volume.status(of: place.name, in: directory) else { throw .noEntry }
        let isSettled = recorder?.isSettled(status) ?? false
        let earlier = isSettled ? walked.flatMap { above?.earlier.part(in: $0.name) } : nil
        return Visit(
            try volume.entry(status, in: place.parent, place.name).node, volume, above, paths, walked: walked,
            earlier: earlier ?? .none)
    }

    /// Queues the names of a directory that follow `name`, in the order of their bytes.
    func list(_ visit: Visit, after name: EntryName?) {
        do throws(VolumeError) {
            let directory = try volume.directory(visit.node)
            let names = try volume.below { () throws(Errno) in
                try Self.names(of: directory, after: name, limit: options.namesInMemory)
            }
            guard let last = names.last else { return }
            // A temporary object may be this run's own by now.
            let isLater = repairs && name != nil
            add(.entries(visit, names.filter { !isLater || ReservedName.kind(of: $0.bytes.span) != .temporary }[...]))
            if names.count == options.namesInMemory { add(.names(visit, after: last)) }
        } catch {
            found(error, visit.paths)
        }
    }

    /// The first `limit` names of a directory behind one, in the order of their bytes. Reads the whole directory.
    static func names(
        of directory: BackingDirectory, after name: EntryName?, limit: Int
    ) throws(Errno) -> [EntryName] {
        var found: [EntryName] = []
        var end: EntryName?
        try directory.forEachEntry { entry in
            if let name, !precedes(name, entry.name) { return true }
            if let end, !precedes(entry.name, end) { return true }
            found.append(entry.name)
            if found.count == 2 * limit {
                found.sort(by: precedes)
                found.removeLast(limit)
                end = found.last
            }
            return true
        }
        found.sort(by: precedes)
        return Array(found.prefix(limit))
    }

    private static func precedes(_ one: EntryName, _ other: EntryName) -> Bool {
        one.bytes.lexicographicallyPrecedes(other.bytes)
    }

    /// The names that a worker takes, and the rest. An entry and its companion stay together, because a repair moves both.
    func part(of names: ArraySlice<EntryName>) -> (ArraySlice<EntryName>, ArraySlice<EntryName>) {
        var end = min(names.startIndex + Self.entriesAtOnce, names.endIndex)
        while end < names.endIndex, ReservedName.kind(of: names[end].bytes.span) == .companion { end += 1 }
        return (names[..<end], names[end...])
    }

    /// Checks entries up to the first directory or large file, which is queued, and the rest behind it.
    func look(at names: ArraySlice<EntryName>, in visit: Visit) {
        let directory: BackingDirectory
        do throws(VolumeError) { directory = try volume.directory(visit.node) } catch {
            return found(error, visit.paths)
        }
        for index in names.indices {
            guard mayGoOn() else { return }
            let name = names[index]
            if isReserved(name, in: visit, directory, visit.paths) { continue }
            let status = names.count > 1 ? try? directory.status(of: name) : nil
            if let status, status.kind == .regular, status.size >= Self.largeFile {
                add(.entries(visit, [name]))
            } else {
                look(at: name, status, in: visit, directory)
            }
            if hasMoreItems, index + 1 < names.endIndex {
                return add(.entries(visit, names[(index + 1)...]))
            }
        }
    }

    /// Whether a file was seen under another of its names.
    func hasBeenSeen(_ status: Status) -> Bool {
        let key = InodeKey(status)
        return state.withLock { state in
            guard let left = state.links[key] else {
                if state.links.count < Self.mostLinks { state.links[key] = status.links - 1 }
                return false
            }
            state.links[key] = left > 1 ? left - 1 : nil
            return true
        }
    }

    // MARK: duplicates

    /// Reports objects that have the ID of an earlier one. Reads the names of the volume again if there are any.
    func tellDuplicates() {
        guard !state.withLock({ $0.summary.isInterrupted }) else { return }
        let groups: [UInt64: Int]
        do throws(Errno) { groups = try seen.duplicates() } catch {
            return found(.duplicatesUnchecked, .note, ObjectPaths(), errno: error)
        }
        guard !groups.isEmpty else { return }
        var known = Known(groups: groups)
        _ = known.isDuplicate(volume.root.inode)
        tellDuplicates(in: Visit(volume.root, volume, nil, ObjectPaths()), &known)
    }

    private struct Known {
        let groups: [UInt64: Int]
        private var hasFirst: Set<Int> = []
        private var told: Set<UInt64> = []

        init(groups: [UInt64: Int]) { self.groups = groups }

        /// Whether an object has the ID of an earlier one, and was not asked about before.
        mutating func isDuplicate(_ inode: UInt64) -> Bool {
            guard let group = groups[inode], told.insert(inode).inserted else { return false }
            return !hasFirst.insert(group).inserted
        }
    }

    /// A directory whose names are read once more, and those that come next.
    private struct Rereading {
        let visit: Visit
        var names: ArraySlice<EntryName> = []
        var last: EntryName?
    }

    private func tellDuplicates(in top: Visit, _ known: inout Known) {
        // Not one call for each level, because a stack has an end.
        var levels = [Rereading(visit: top)]
        while var level = levels.popLast(), mayGoOn() {
            do throws(VolumeError) {
                let directory = try volume.directory(level.visit.node)
                if level.names.isEmpty {
                    level.names = try volume.below { () throws(Errno) in
                        try Self.names(of: directory, after: level.last, limit: options.namesInMemory)[...]
                    }
                }
                guard let name = level.names.popFirst() else { continue }
                level.last = name
                levels.append(level)
                if let below = tellDuplicate(name, in: level.visit, directory, &known) {
                    levels.append(Rereading(visit: below))
                }
            } catch {
                found(.duplicatesUnchecked, .note, level.visit.paths, errno: error.errno)
            }
        }
    }

    /// - Returns: the entry's visit, if it is a directory.
    private func tellDuplicate(
        _ name: EntryName, in visit: Visit, _ directory: BackingDirectory, _ known: inout Known
    ) -> Visit? {
        if ReservedName.kind(of: name.bytes.span).isHidden { return nil }
        let id = (try? volume.directoryID(visit.node)) ?? nil
        guard let status = (try? volume.status(of: name, in: directory)) ?? nil,
            let shown = Volume.nameShown(for: name, volume.decode(name, in: directory, id))
        else { return nil }
        let paths = visit.paths.appending(shown, name)
        if known.isDuplicate(status.inode) { found(.duplicate, .note, paths) }
        guard status.kind == .directory else { return nil }
        return try? enter(Place(parent: visit.node, name: name), visit, paths)
    }
}
