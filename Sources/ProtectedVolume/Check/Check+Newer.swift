// Recognises what a newer version has made, so that no repair moves or renames it.

internal import BackingStore
internal import HostSystem
internal import VolumeFormat

extension Check {
    /// Whether a newer version has made an object, as far as the object shows it without its content.
    func isNewer(
        _ entry: EntryName, _ status: Status, in directory: BackingDirectory
    ) throws(VolumeError) -> Bool {
        switch status.kind {
        case .regular:
            do throws(VolumeError) {
                return try volume.header(of: entry, status, in: directory)?.flags.areReadableOnly ?? false
            } catch {
                switch error {
                case .newer: return true
                case .damaged: return false
                default: throw error
                }
            }
        case .symlink:
            return volume.names.isNewerTarget(
                try volume.below { () throws(Errno) in try directory.readSymlink(entry) })
        case .directory:
            let child = try volume.below { () throws(Errno) in try directory.openDirectory(entry) }
            let target = try volume.below { () throws(Errno) in try Self.recordTarget(in: child) }
            return target.flatMap { volume.names.record(target: $0) }?.isNewer ?? false
        default: return false
        }
    }

    /// The same, and whether such an object is anywhere below a directory, which would be moved with it.
    func holdsNewer(
        _ entry: EntryName, _ status: Status, in directory: BackingDirectory, depth: Int = 0
    ) throws(VolumeError) -> Bool {
        if try isNewer(entry, status, in: directory) { return true }
        guard status.kind == .directory else { return false }
        // Too deep for the descriptors.
        guard depth < 100 else { return true }
        let child = try volume.below { () throws(Errno) in try directory.openDirectory(entry) }
        for inner in try volume.below({ () throws(Errno) in try child.entries() }) {
            guard mayGoOn() else { return true }
            let kind = ReservedName.kind(of: inner.name.bytes.span)
            if kind.isHidden, !kind.belongs(inRoot: false) { return true }
            if kind == .aside, let target = try? child.readSymlink(inner.name),
                volume.names.record(target: target)?.isNewer ?? false
            {
                return true
            }
            if kind.isHidden { continue }
            guard let status = try volume.status(of: inner.name, in: child) else { continue }
            if try holdsNewer(inner.name, status, in: child, depth: depth + 1) { return true }
        }
        return false
    }

    /// Whether a newer version has made a late file. Reports one that the state file does not list; the others were reported
    /// when they were read.
    func isNewerLateFile(_ name: EntryName, _ paths: ObjectPaths) -> Bool {
        guard let number = LateFileName.number(of: name.bytes.span) else { return false }
        if state.withLock({ $0.late.contains { $0.number == number && $0.notice == .newer } }) { return true }
        // Before first unlock nothing of it can be read.
        guard volume.late.isLoaded, !volume.late.isOwed(paths.backing),
            case .newer? = try? LateReading(number, in: volume.rootDirectory, volume.keys, .readOnly)
        else { return false }
        found(.newer(.late), paths)
        return true
    }
}
