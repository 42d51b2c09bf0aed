// Moves leftovers and undecryptable entries away. Every step is one rename or makes something new, so a second run can
// continue after an interruption.

internal import BackingStore
internal import Keybag
internal import HostSystem
internal import VolumeFormat

extension Check {
    // MARK: moving away

    /// Moves a leftover away, where repair was asked for.
    @discardableResult
    func tidy(_ name: EntryName, _ directory: BackingDirectory, _ trail: Trail) -> Bool {
        guard options.repairs else { return false }
        return move(name, directory, trail) { $0.tidied += 1 }
    }

    /// Moves away what cannot be decrypted, where that was asked for.
    @discardableResult
    func moveAway(
        _ name: EntryName, _ directory: BackingDirectory, _ trail: Trail, settling errors: Int
    ) -> Bool {
        guard options.quarantines else { return false }
        return move(name, directory, trail, settling: errors)
    }

    @discardableResult
    private func move(
        _ name: EntryName, _ directory: BackingDirectory, _ trail: Trail, settling errors: Int = 0,
        _ change: (inout CheckSummary) -> Void = { _ in }
    ) -> Bool {
        do throws(Errno) {
            let target = try quarantine.take(name, from: directory, origin: trail.backingPath)
            did(
                Repair(action: .moved, path: trail.path, backingPath: trail.backingPath, target: target),
                settling: errors, change)
        } catch {
            found(.store, .error, trail, errno: error)
            return false
        }
        // A long name's companion has no entry now.
        if let companion = Volume.companionName(of: name), (try? directory.status(of: companion)) != nil {
            _ = try? quarantine.take(
                companion, from: directory,
                origin: trail.backingPath + Array(NameCipher.bytes(of: NameLimits.companionSuffix)))
        }
        return true
    }

    /// Moves away an attribute that does not decrypt: its name, a zero byte and its value.
    func moveAway(attribute name: [UInt8], of object: BackingNode, _ trail: Trail) {
        guard options.quarantines else { return }
        do throws(Errno) {
            let value = try object.attribute(name)
            let target = try quarantine.keep(name + [0] + value, of: "attribute", origin: trail.backingPath)
            try object.removeAttribute(name)
            did(
                Repair(action: .moved, path: trail.path, backingPath: trail.backingPath, target: target), settling: 1)
        } catch {
            found(.store, .error, trail, errno: error)
        }
    }
}
