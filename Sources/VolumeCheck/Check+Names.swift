// Repairs names. An entry whose name is not verified gets a marked name, unless a person confirms the original name.

internal import BackingStore
internal import HostSystem
internal import KeyFiles
internal import ProtectedVolume
internal import VolumeFormat

extension Check {
    /// Reports a name that nothing proves.
    func foundUnverified(_ paths: ObjectPaths) {
        state.withLock { $0.summary.unverified += 1 }
        found(.unverifiedName, .note, paths)
    }

    /// Renames an entry whose name does not verify.
    ///
    /// The new name is the original one if a person has confirmed it, else the marked name, which no program mistakes
    /// for the original. If the name does not decrypt, but this volume has provably written the object, the new name is
    /// `recovered-` and a hash.
    ///
    /// - Returns: the new name and its encoding; nil if the entry got none.
    /// - Throws: the store's error, because an entry that cannot be read now must not count as undecryptable.
    func giveName(
        to entry: EntryName, _ status: Status, in directory: BackingDirectory, _ id: ObjectID?, _ above: ObjectPaths,
        settling errors: Int
    ) throws(VolumeError) -> ([UInt8], EntryName)? {
        guard repairs, !above.keepsEntries, let id else { return nil }
        let claimed: DecodedName
        do throws(Errno) { claimed = try volume.decodeOrFail(entry, in: directory, nil) } catch { throw .store(error) }
        if case .unverified(let plain) = claimed, UnverifiedName.isText(plain) {
            let marked = UnverifiedName.bytes(for: entry, plain)
            let shown = above.appending(marked, entry)
            if let given = try confirm(plain, of: entry, shown, in: directory, id, settling: errors) { return given }
            let given = try rename(entry, to: marked, shown, in: directory, id, settling: errors)
            if errors > 0, given != nil { state.withLock { $0.summary.unverified += 1 } }
            return given
        }
        guard try verifies(entry, status, directory) else { return nil }
        let shown = Volume.nameShown(for: entry)
        return try rename(
            entry, to: Array("recovered-".utf8) + shown.suffix(12), above.appending(shown, entry), in: directory, id,
            settling: errors)
    }

    /// Renames an entry with a marked name from an earlier repair to its original name, if a person has confirmed it.
    func confirm(
        _ name: [UInt8], of entry: EntryName, in directory: BackingDirectory, _ id: ObjectID?, _ paths: ObjectPaths
    ) throws(VolumeError) -> ([UInt8], EntryName)? {
        guard let plain = UnverifiedName.plain(name) else { return nil }
        foundUnverified(paths)
        guard repairs, !paths.isKept, let id else { return nil }
        return try confirm(plain, of: entry, paths, in: directory, id, settling: 0)
    }

    private func confirm(
        _ plain: [UInt8], of entry: EntryName, _ paths: ObjectPaths, in directory: BackingDirectory, _ id: ObjectID,
        settling errors: Int
    ) throws(VolumeError) -> ([UInt8], EntryName)? {
        guard try isConfirmed(plain, of: entry, paths, in: directory, id),
            let given = try rename(entry, to: plain, paths, in: directory, id, settling: errors)
        else { return nil }
        if errors == 0 { state.withLock { $0.summary.unverified -= 1 } }
        return given
    }

    /// Whether a person has confirmed this very entry, by its marked name or by the name alone. The name alone counts
    /// only if no other entry of the directory claims it. Otherwise the store would choose which entry gets the name.
    private func isConfirmed(
        _ plain: [UInt8], of entry: EntryName, _ paths: ObjectPaths, in directory: BackingDirectory, _ id: ObjectID
    ) throws(VolumeError) -> Bool {
        // Several paths may have the same shortened text, so none of them says which entry is meant.
        guard paths.isShown else { return false }
        let isNamed = options.isConfirmed(UnverifiedName.withoutMarks(paths.visible))
        if isNamed, try !isClaimed(plain, besides: entry, in: directory, id) { return true }
        return options.isConfirmed(CheckOptions.confirmablePath(paths.visible))
    }

    /// Whether an entry besides `entry` claims the name without proof.
    private func isClaimed(
        _ plain: [UInt8], besides entry: EntryName, in directory: BackingDirectory, _ id: ObjectID
    ) throws(VolumeError) -> Bool {
        for other in try volume.below({ () throws(Errno) in try directory.entries() }) where other.name != entry {
            switch volume.decode(other.name, in: directory, id) {
            case .name(let name): if UnverifiedName.plain(name) == plain { return true }
            case .undecryptable:
                guard case .unverified(let name) = volume.decode(other.name, in: directory, nil) else { continue }
                if name == plain { return true }
            case .unverified, .reserved: continue
            }
        }
        return false
    }

    /// Uses a companion that an interrupted repair has left. Anything else with its name is moved away.
    private func replace(
        _ companion: EncodedName.Companion, of paths: ObjectPaths, in directory: BackingDirectory
    ) throws(Errno) {
        guard (try? directory.readSymlink(companion.name)) != companion.target else { return }
        let above = paths.backing.lastIndex(of: UInt8(ascii: "/")).map { Array(paths.backing[...$0]) } ?? []
        _ = try quarantine.take(companion.name, from: directory, origin: above + companion.name.bytes)
        try directory.createSymlink(companion.name, target: companion.target)
        try volume.syncNewLinks(in: directory)
    }

    /// Renames an entry; nil if the name is taken or invalid. The line in the log and a long name's companion come
    /// first.
    private func rename(
        _ entry: EntryName, to name: [UInt8], _ paths: ObjectPaths, in directory: BackingDirectory, _ id: ObjectID,
        settling errors: Int
    ) throws(VolumeError) -> ([UInt8], EntryName)? {
        guard let encoded = try? volume.names.encode(name, in: id),
            try volume.status(of: encoded.entry, in: directory) == nil
        else { return nil }
        do throws(VolumeError) {
            let backing = paths.backing.dropLast(entry.bytes.count) + Array(encoded.entry.bytes)
            try volume.below { () throws(Errno) in
                try quarantine.note("renamed", from: paths.backing, to: Array(backing))
                if let companion = encoded.companion {
                    do throws(Errno) {
                        try directory.createSymlink(companion.name, target: companion.target)
                        try volume.syncNewLinks(in: directory)
                    } catch {
                        guard error == .EEXIST else { throw error }
                        try replace(companion, of: paths, in: directory)
                    }
                }
            }
            try volume.below { () throws(Errno) in
                try directory.rename(entry, to: directory, encoded.entry, mode: .noReplace)
                try Self.settle(directory)
            }
        } catch {
            // EEXIST means that an earlier run has used the name for an entry that existed twice.
            if error != .store(.EEXIST), error != .exists { throw error }
            return nil
        }
        let shown = paths.visible.lastIndex(of: UInt8(ascii: "/")).map { paths.visible[...$0] } ?? []
        did(
            Repair(action: .renamed, path: paths.visible, backingPath: paths.backing, target: shown + name),
            settling: errors)
        if let companion = Volume.companionName(of: entry), (try? directory.status(of: companion)) != nil {
            let suffix = NameLimits.companionSuffix.bytes
            _ = try? quarantine.take(companion, from: directory, origin: paths.backing + suffix)
        }
        return (name, encoded.entry)
    }

    /// Whether the content of an object proves, without its name, that this volume has written it.
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
            return volume.names.openTarget(target) != nil || volume.names.openLongTarget(target) != nil
        case .directory:
            let child = try volume.below { () throws(Errno) in try directory.openDirectory(entry) }
            guard let target = try volume.below({ () throws(Errno) in try Self.recordTarget(in: child) }),
                let record = volume.names.record(target: target)
            else { return false }
            return try volume.verifies(record, child)
        default: return false
        }
    }
}
