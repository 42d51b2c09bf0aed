// Recognises what a newer version has made, so that no repair moves or renames it.

internal import BackingStore
internal import FileContents
internal import HostSystem
internal import KeyFiles
internal import ProtectedVolume
internal import VolumeFormat

extension Check {
    /// Whether a newer version has made an object or a part of it: a block or an attribute of a file, an attribute of a
    /// directory. Reads all of a file.
    func isNewer(
        _ entry: EntryName, _ status: Status, in directory: BackingDirectory
    ) throws(VolumeError) -> Bool {
        switch status.kind {
        case .regular:
            do throws(VolumeError) {
                guard let header = try volume.header(of: entry, status, in: directory) else { return false }
                if header.flags.areReadableOnly { return true }
                let file = try volume.below { () throws(Errno) in try directory.openFile(entry, .readOnly) }
                if try volume.hasNewerAttribute(file, { header.fileID }) { return true }
                return try FileContent.holdsNewerBlock(
                    in: volume.content, backing: file, header: header, mayGoOn: { mayGoOn() })
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
            guard let record = target.flatMap({ volume.names.record(target: $0) }) else { return false }
            return record.isNewer ? true : try volume.hasNewerAttribute(child) { record.directoryID }
        default: return false
        }
    }

    /// The same, and whether such an object is anywhere below a directory, which would be moved with it. What is found of each
    /// directory is kept, so that each is looked through once.
    func holdsNewer(
        _ entry: EntryName, _ status: Status, in directory: BackingDirectory
    ) throws(VolumeError) -> Bool {
        if try isNewer(entry, status, in: directory) { return true }
        guard status.kind == .directory else { return false }
        if let known = state.withLock({ $0.holdsNewer[InodeKey(status)] }) { return known }
        var way = Descent(from: directory)
        // Of each level: the directory, and what was not looked at in it.
        var levels: [(key: InodeKey, waiting: [DirectoryEntry])] = []
        func enter(_ entry: EntryName, _ status: Status) throws(VolumeError) {
            try volume.below { () throws(Errno) in
                try way.enter(DirectoryEntry(name: entry, inode: status.inode, kind: .directory))
                levels.append((InodeKey(status), try way.directory().entries()))
            }
        }
        try enter(entry, status)
        while let level = levels.last {
            guard mayGoOn() else { return true }
            guard let inner = level.waiting.last?.name else {
                state.withLock { $0.holdsNewer[level.key] = false }
                levels.removeLast()
                way.leave()
                continue
            }
            levels[levels.count - 1].waiting.removeLast()
            let child = try volume.below { () throws(Errno) in try way.directory() }
            let kind = ReservedName.kind(of: inner.bytes.span)
            var isFound = kind.isHidden && !kind.belongs(inRoot: false)
            if !isFound, kind == .aside, let target = try? child.readSymlink(inner) {
                isFound = volume.names.record(target: target)?.isNewer ?? false
            }
            if !isFound, !kind.isHidden, let status = try volume.status(of: inner, in: child) {
                isFound = try isNewer(inner, status, in: child)
                let isKnown = state.withLock { $0.holdsNewer[InodeKey(status)] }
                if !isFound, status.kind == .directory {
                    isFound = isKnown ?? false
                    if isKnown == nil { try enter(inner, status) }
                }
            }
            if isFound {
                state.withLock { state in for level in levels { state.holdsNewer[level.key] = true } }
                return true
            }
        }
        return false
    }

    /// Whether a file or directory has an attribute that a newer version has set. A copy would not have it.
    func hasNewerAttribute(_ node: Node) -> Bool {
        guard let object = try? volume.backing(node) else { return false }
        return (try? volume.hasNewerAttribute(object) { try? volume.objectID(of: node) }) ?? false
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
