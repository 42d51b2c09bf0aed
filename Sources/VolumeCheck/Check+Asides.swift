// Judges records set aside: whether a directory beside them may still need one.

internal import BackingStore
internal import HostSystem
internal import ProtectedVolume
internal import VolumeFormat

/// The records set aside in one directory, compared once with all directories beside them.
struct JudgedAsides: Sendable {
    /// Those that were compared.
    fileprivate var compared: Set<EntryName> = []
    /// Those that belong to a directory which is there.
    fileprivate var needed: Set<EntryName> = []
}

extension Check {
    /// What is known of a record set aside.
    enum Aside {
        case needed, newer, stale, damaged
        /// There are more than crashes leave, and this one was not compared. It is left as it is.
        case unjudged
    }

    /// A record set aside is stale if its directory no longer exists. An existing directory gets its record back when
    /// it is checked.
    func judge(
        aside: EntryName, in visit: Visit, _ directory: BackingDirectory, _ paths: ObjectPaths
    ) -> Aside {
        let target: [UInt8]
        do throws(Errno) { target = try directory.readSymlink(aside) } catch {
            if error == .EINVAL { return .damaged }
            if error != .ENOENT { found(.store, .error, paths, errno: error) }
            return .needed
        }
        guard let record = volume.names.record(target: target) else { return .damaged }
        if record.isNewer { return .newer }
        guard let judged = judgedAsides(in: visit, directory) else { return .needed }
        if judged.needed.contains(aside) { return .needed }
        return judged.compared.contains(aside) ? .stale : .unjudged
    }

    /// Nil if the directory's ID is not known, or it cannot be listed.
    private func judgedAsides(in visit: Visit, _ directory: BackingDirectory) -> JudgedAsides? {
        if let known = visit.judgedAsides.withLock({ $0 }) { return known }
        guard let id = volume.knownID(visit.node), let asides = try? volume.names.recordsAside(in: directory) else {
            return nil
        }
        var judged = JudgedAsides(compared: Set(asides.map { $0.name }))
        do throws(Errno) {
            try directory.forEachEntry { entry in
                guard entry.kind == .directory || entry.kind == .unknown else { return true }
                for aside in asides where volume.names.isAside(aside, of: entry.name, in: id) {
                    judged.needed.insert(aside.name)
                }
                return mayGoOn()
            }
        } catch { return nil }
        // Else the listing is not whole.
        guard mayGoOn() else { return nil }
        visit.judgedAsides.withLock { $0 = judged }
        return judged
    }
}
