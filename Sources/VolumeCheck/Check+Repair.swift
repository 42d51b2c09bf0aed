// Moves leftovers and undecryptable entries away. Every step is one rename or makes something new, so a second run can
// continue after an interruption.

internal import BackingStore
internal import KeyFiles
internal import Keybag
internal import HostSystem
internal import ProtectedVolume
internal import VolumeFormat

extension Check {
    /// Makes the names that a repair has changed durable, on a store where the sync at the end of the check does not: a
    /// repair does not note what it changes, as a mount does.
    static func settle(_ directory: BackingDirectory) throws(Errno) {
        if !directory.syncsWhole { try directory.synchronize() }
    }

    // MARK: moving away

    /// Moves a leftover away, if the options ask for repair.
    @discardableResult
    func tidy(_ name: EntryName, _ directory: BackingDirectory, _ paths: ObjectPaths) -> Bool {
        guard repairs else { return false }
        return move(name, directory, paths) { $0.tidied += 1 }
    }

    /// Moves away an object that cannot be decrypted, if the options ask for it.
    @discardableResult
    func moveAway(
        _ name: EntryName, _ directory: BackingDirectory, _ paths: ObjectPaths, settling errors: Int
    ) -> Bool {
        guard quarantines else { return false }
        return move(name, directory, paths, settling: errors)
    }

    /// Moves a damaged file away from one of its names. The next name is then looked at as if it were the first, and so moved
    /// too. If a name was passed over before, nothing is settled yet, because by that name the file can still be opened
    /// (`moveOtherNames`).
    func moveAway(
        file status: Status, _ place: Place, _ paths: ObjectPaths, settling errors: Int
    ) throws(VolumeError) {
        let key = InodeKey(status)
        let isFirst = status.links == 1 || state.withLock { $0.links[key] } == status.links - 1
        let directory = try volume.directory(place.parent)
        let isMoved = moveAway(place.name, directory, paths, settling: isFirst ? errors : 0)
        state.withLock { state in
            if isMoved {
                // A name may have been passed over since.
                let hasOther = !isFirst || state.links[key] != status.links - 1
                state.links[key] = nil
                guard status.links > 1, hasOther || state.moved[key] != nil else { return }
                state.moved[key, default: MovedFile()].unsettled += isFirst ? 0 : errors
            } else {
                state.moved[key]?.hasFailed = true
            }
        }
    }

    @discardableResult
    private func move(
        _ name: EntryName, _ directory: BackingDirectory, _ paths: ObjectPaths, settling errors: Int = 0,
        _ change: (inout CheckSummary) -> Void = { _ in }
    ) -> Bool {
        if paths.isKept { return false }
        do throws(Errno) {
            let target = try quarantine.take(name, from: directory, origin: paths.backing)
            did(
                Repair(action: .moved, path: paths.visible, backingPath: paths.backing, target: target),
                settling: errors, change)
        } catch {
            found(.store, .error, paths, errno: error)
            return false
        }
        // A long name's companion has no entry any more.
        if let companion = Volume.companionName(of: name), (try? directory.status(of: companion)) != nil {
            _ = try? quarantine.take(
                companion, from: directory,
                origin: paths.backing + Array(NameLimits.companionSuffix.bytes))
        }
        return true
    }

    /// Moves away an attribute that does not decrypt. The file kept has its name, a zero byte and its value.
    func moveAway(attribute name: [UInt8], of object: BackingNode, _ paths: ObjectPaths) {
        guard quarantines, !paths.isKept, !paths.keepsEntries else { return }
        do throws(Errno) {
            let value = try object.attribute(name)
            let target = try quarantine.keep(name + [0] + value, of: "attribute", origin: paths.backing)
            try object.removeAttribute(name)
            did(
                Repair(action: .moved, path: paths.visible, backingPath: paths.backing, target: target), settling: 1)
        } catch {
            found(.store, .error, paths, errno: error)
        }
    }
}
