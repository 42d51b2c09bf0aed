// Overflow objects to which nothing refers. A crash between a change and the removal of what it has replaced leaves them.

internal import BackingStore
internal import HostSystem
internal import KeyFiles
internal import ProtectedVolume
internal import VolumeFormat

extension Check {
    /// The number of references that are remembered. With more, no object is taken for an orphan.
    private static var mostOverflow: Int { 262_144 }

    /// Notes that something refers to an overflow object.
    func noteOverflow(_ id: ObjectID) {
        state.withLock { state in
            state.overflow?.insert(id)
            if state.overflow?.count ?? 0 > Self.mostOverflow { state.overflow = nil }
        }
    }

    /// Whether objects of the volume may be where a check does not look: in one of the two lost+found directories, or under a
    /// reserved name that this version does not know. What they need must not be taken for unused.
    func mayHaveLeftOut() -> Bool {
        let root = volume.rootDirectory
        let isKnown = state.withLock { !$0.hasUnknownNames }
        if !isKnown || (try? root.status(of: BackingName.lostAndFound)) != nil { return true }
        do throws(Errno) {
            // A check of the file system below puts what it finds there.
            return try !root.openDirectory(BackingName.storesLostAndFound).entries().isEmpty
        } catch { return error != .ENOENT }
    }

    /// Reports the overflow objects to which nothing refers, and moves them away if the options ask for repair.
    ///
    /// Only if this run has looked at every object and found all in order: what was not read may refer to any of them. A quick
    /// check judges only those that a crashed session has noted. These are removed, as nothing refers to them: others may be
    /// those of an object that a sync client has still to bring.
    func tellOrphanOverflow(hasSeenAll: Bool) {
        let (summary, known, leftovers) = state.withLock { ($0.summary, $0.overflow, $0.leftovers) }
        guard hasSeenAll || !leftovers.overflow.isEmpty else { return }
        // Symbolic links and special files have their references in attributes that may not be listed.
        guard summary.symlinks + summary.others == 0 || volume.rootDirectory.listsAllAttributes else { return }
        guard summary.isComplete, summary.errors == 0, summary.newer == 0, !options.resumes, let known,
            let directory = try? volume.overflow.directory(), !mayHaveLeftOut()
        else { return }
        let above = ObjectPaths().appending(Array(BackingName.overflow.bytes), BackingName.overflow)
        do throws(Errno) {
            for entry in try directory.entries() {
                let id = OverflowObjects.id(of: entry.name)
                if let id, known.contains(id) { continue }
                let isLeftover = id.map { leftovers.overflow.contains($0) } ?? false
                guard hasSeenAll || isLeftover else { continue }
                let paths = above.appending(Array(entry.name.bytes), entry.name)
                found(.orphanOverflow, .note, paths)
                if !tidy(entry.name, directory, paths), isLeftover, mends { try directory.unlink(entry.name) }
            }
        } catch {
            found(.store, .error, above, errno: error)
        }
    }
}
