// Makes companions of long names before the entry and removes them after it, under one lock per directory.

package import BackingStore
internal import HostSystem
package import KeyFiles
internal import VolumeFormat

extension Volume {
    /// Runs `make`, which makes an entry named `name`. Makes its companion first, and removes it again if `make` fails.
    package func making<Result>(
        _ name: EncodedName, in parent: Node, _ directory: BackingDirectory,
        _ make: () throws(VolumeError) -> Result
    ) throws(VolumeError) -> Result {
        defer { handles.noteName() }
        guard let companion = name.companion, let state = parent.directory else { return try make() }
        return try state.structure.withLock { (_) throws(VolumeError) in
            try makingLocked(name, companion, in: state, directory, make)
        }
    }

    /// The same for a caller that holds `structure`.
    func makingLocked<Result>(
        _ name: EncodedName, _ companion: EncodedName.Companion, in state: DirectoryState,
        _ directory: BackingDirectory, _ make: () throws(VolumeError) -> Result
    ) throws(VolumeError) -> Result {
        let isNew = try makeCompanion(companion, for: name.entry, directory)
        state.setNeedsSync()
        do throws(VolumeError) {
            return try make()
        } catch {
            if isNew, (try? status(of: name.entry, in: directory)) == .some(nil) {
                try? directory.unlink(companion.name)
            }
            throw error
        }
    }

    /// Makes the companion. Uses one left over from a crash, or replaces it if it does not fit.
    /// - Returns: whether this call made it.
    private func makeCompanion(
        _ companion: EncodedName.Companion, for entry: EntryName, _ directory: BackingDirectory
    ) throws(VolumeError) -> Bool {
        do throws(Errno) {
            try directory.createLink(companion.name, target: companion.target)
            return true
        } catch {
            guard error == .EEXIST else { throw .store(error) }
        }
        if let target = try? directory.readSymlink(companion.name), target == companion.target { return false }
        guard try status(of: entry, in: directory) == nil else { throw .damaged(.companion) }
        let temporary = BackingName.temporary()
        try below { () throws(Errno) in
            try directory.createLink(temporary, target: companion.target)
            do throws(Errno) {
                try directory.placing(temporary, at: companion.name) {
                    (try? directory.readSymlink(companion.name)) == companion.target
                }
            } catch {
                try? directory.unlink(temporary)
                throw error
            }
        }
        return true
    }

    /// Runs `remove`, which removes the entry named `name`. Removes its companion after it.
    func removing(
        _ name: EncodedName, in parent: Node, _ directory: BackingDirectory,
        _ remove: () throws(VolumeError) -> Void
    ) throws(VolumeError) {
        guard let companion = Self.companionName(of: name.entry), let state = parent.directory else {
            return try remove()
        }
        try state.structure.withLock { (_) throws(VolumeError) in
            try remove()
            try? directory.unlink(companion)
        }
    }

    /// The companion's name if `entry` is a long name's entry, even if it does not decrypt.
    package static func companionName(of entry: EntryName) -> EntryName? {
        guard ReservedName.kind(of: entry.bytes.span) == .long else { return nil }
        return BackingName.known(Array(entry.bytes) + NameLimits.companionSuffix.bytes)
    }
}
