// Other names of a damaged file that was moved away: those that were passed over while one worker read it under its first name.

internal import BackingStore
internal import HostSystem
internal import ProtectedVolume
internal import VolumeFormat

extension Check {
    /// A damaged file that has several names, one of which at least was moved away.
    struct MovedFile: Sendable {
        /// The errors that are settled once none of its names is left.
        var unsettled = 0
        /// Whether the store has refused to move a name.
        var hasFailed = false
    }

    /// A directory of a walk, and what is left of its names.
    private struct Level {
        let visit: Visit
        var names: ArraySlice<EntryName> = []
        var last: EntryName?
    }

    /// Looks at the names of files that were moved away under another one: each is repaired as the first one was.
    func moveOtherNames() {
        let waiting = state.withLock { $0.moved }
        guard quarantines, !waiting.isEmpty, !state.withLock({ $0.summary.isInterrupted }) else { return }
        var levels = [Level(visit: Visit(volume.root, volume, nil, rootPaths))]
        while var level = levels.popLast() {
            guard mayGoOn() else { return }
            guard let directory = try? volume.directory(level.visit.node) else { return }
            if level.names.isEmpty {
                guard
                    let names = try? Self.names(of: directory, after: level.last, limit: options.namesInMemory)
                else { return }
                if names.isEmpty { continue }
                level.names = names[...]
                level.last = names.last
            }
            let name = level.names.removeFirst()
            let visit = level.visit
            levels.append(level)
            guard !ReservedName.kind(of: name.bytes.span).isHidden,
                let status = (try? volume.status(of: name, in: directory)) ?? nil
            else { continue }
            if status.kind == .directory {
                guard let below = try? enter(Place(parent: visit.node, name: name), visit, paths(of: name, in: visit))
                else { return }
                var inner = below.paths
                inner.keepsEntries = ((try? volume.record(of: below.node)) ?? nil)?.isNewer ?? true
                below.paths = inner
                levels.append(Level(visit: below))
            } else if status.kind == .regular, waiting[InodeKey(status)] != nil {
                look(at: name, status, in: visit, directory)
            }
        }
        settleMoved()
    }

    /// No name is left, so the file is not in the tree any more.
    private func settleMoved() {
        state.withLock { state in
            for file in state.moved.values where !file.hasFailed { state.summary.repaired += file.unsettled }
            state.moved = [:]
        }
    }

    private var rootPaths: ObjectPaths {
        var paths = ObjectPaths()
        paths.keepsEntries = state.withLock { $0.hasNewerRoot }
        return paths
    }

    private func paths(of name: EntryName, in visit: Visit) -> ObjectPaths {
        let id = (try? volume.directoryID(visit.node)) ?? nil
        let directory = try? volume.directory(visit.node)
        let shown = directory.flatMap { Volume.nameShown(for: name, volume.decode(name, in: $0, id)) }
        return visit.paths.appending(shown ?? Volume.nameShown(for: name), name)
    }
}
