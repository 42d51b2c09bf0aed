// Overflow objects to which nothing refers. A crash between a change and the removal of what it has replaced leaves them.

internal import BackingStore
internal import HostSystem
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

    /// Reports the overflow objects to which nothing refers, and moves them away if the options ask for repair.
    ///
    /// Only if this run has looked at every object and found all in order: what was not read may refer to any of them. Objects
    /// that were moved away may, too.
    func tellOrphanOverflow() {
        let (summary, known) = state.withLock { ($0.summary, $0.overflow) }
        guard summary.isComplete, summary.errors == 0, summary.newer == 0, !options.resumes, let known,
            let directory = try? volume.overflow.directory(),
            (try? volume.rootDirectory.status(of: BackingName.lostAndFound)) == nil
        else { return }
        let above = ObjectPaths().appending(Array(BackingName.overflow.bytes), BackingName.overflow)
        do throws(Errno) {
            for entry in try directory.entries() {
                if let id = OverflowObjects.id(of: entry.name), known.contains(id) { continue }
                let paths = above.appending(Array(entry.name.bytes), entry.name)
                found(.orphanOverflow, .note, paths)
                tidy(entry.name, directory, paths)
            }
        } catch {
            found(.store, .error, above, errno: error)
        }
    }
}
