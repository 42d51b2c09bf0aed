// A volume whose keybag has been compared with this machine's record. Commands use the compared bytes.

package import BackingStore
package import CommandSupport
package import HostSystem
import KeyFiles
package import Keybag
import SodiumKit
import VolumeFormat

/// A volume and its keybag, which this machine accepts. All keys come from this keybag.
package struct CheckedVolume {
    /// The keybags that the user accepts.
    package struct Terms {
        /// `--previous-keybag`: the one from before the last change.
        package var usePrevious: Bool
        /// `--accept-keybag`: one that is older than, or differs from, the one last seen.
        package var accept: Bool

        /// Reads the command line.
        package init(_ arguments: Arguments) {
            usePrevious = arguments.has("previous-keybag")
            accept = arguments.has("accept-keybag")
        }
    }

    /// The directory and the keybag.
    package let found: FoundVolume
    /// Whether the keybag is the one from before the last change.
    package let isPrevious: Bool
    /// The result of comparing the keybag with this machine's record.
    package let outcome: StateFile.Outcome
    /// Whether the keybag's public key is the one that this machine has pinned.
    package let isPublicKeyPinned: Bool
    private let terms: Terms

    /// The path as typed.
    package var path: HostPath { found.path }
    /// The volume's directory.
    package var directory: HostDirectory { found.directory }
    /// The keybag that was compared.
    package var bag: Keybag { found.bag }

    /// Reads the keybag and compares it.
    package init(_ path: HostPath, _ terms: Terms) throws(CommandFailure) {
        try self.init(try FoundVolume(path, usePrevious: terms.usePrevious), terms)
    }

    /// Compares the keybag of a volume that was found with these terms.
    package init(_ found: FoundVolume, _ terms: Terms) throws(CommandFailure) {
        try self.init(found, terms, isPrevious: terms.usePrevious, isAlone: false)
    }

    /// Compares a keybag that is not in the volume yet.
    package init(candidate found: FoundVolume, _ terms: Terms) throws(CommandFailure) {
        try self.init(found, try LocalState.standing(of: found), terms, isPrevious: false)
    }

    private init(
        _ first: FoundVolume, _ terms: Terms, isPrevious: Bool, isAlone: Bool, accepted: [UInt8]? = nil
    ) throws(CommandFailure) {
        let (found, standing) = try LocalState.settled(first, usePrevious: isPrevious, isAlone: isAlone)
        var terms = terms
        if let accepted, accepted != found.bag.bytes { terms.accept = false }
        try self.init(found, standing, terms, isPrevious: isPrevious)
    }

    private init(
        _ found: FoundVolume, _ standing: LocalState.Standing, _ terms: Terms, isPrevious: Bool
    ) throws(CommandFailure) {
        if let refusal = standing.refusal, !terms.accept || refusal == .otherVolume {
            throw LocalState.failure(refusal, found)
        }
        self.found = found
        self.terms = terms
        self.isPrevious = isPrevious
        outcome = standing.outcome
        isPublicKeyPinned = standing.isPublicKeyPinned
    }

    /// Why this program must not write the volume, although it can read it. Nil if it may.
    package func obstacle() throws(CommandFailure) -> CommandFailure? {
        do throws(KeybagError) { try bag.requireWritable() } catch { return ErrorMessages.keybag(error, path) }
        return try LocalState.obstacle(found)
    }

    /// Reads and compares the keybag again, through the same directory, because it may have been changed meanwhile.
    ///
    /// Only a keybag that a person has accepted before is accepted again. If the keybag from before the last change is gone, a
    /// command has replaced it by its successor.
    /// - Parameter isAlone: whether the caller has the keybag's lock.
    package func readAgain(isAlone: Bool = false) throws(CommandFailure) -> CheckedVolume {
        let isPrevious = isPrevious && KeybagFile.hasPrevious(in: directory)
        let now = try CheckedVolume(
            found.readAgain(usePrevious: isPrevious), terms, isPrevious: isPrevious, isAlone: isAlone,
            accepted: bag.bytes)
        guard now.bag.volumeID == bag.volumeID else {
            throw .init(.volume, "\(path): the keybag now belongs to another volume")
        }
        return now
    }

    /// All keys, by a credential, and the device key if it is here. A failure goes to the record.
    /// - Parameter user: who gives the credential.
    package func unlock(
        _ credential: borrowing Credential, _ deviceKey: borrowing FoundDeviceKey,
        by user: UInt32? = SystemPaths.user
    ) throws(CommandFailure) -> VolumeKeys {
        do throws(CommandFailure) { return try open(credential, deviceKey) } catch {
            if error.code == .authentication {
                Record.write(
                    .unlockFailed, bag.volumeID,
                    Record.Detail.by(user) + [.credential(credential.kind), .result(error.code)])
            }
            throw error
        }
    }

    private func open(
        _ credential: borrowing Credential, _ deviceKey: borrowing FoundDeviceKey
    ) throws(CommandFailure) -> VolumeKeys {
        do throws(KeybagError) {
            switch deviceKey.key {
            case .some(let key): return try bag.unlock(credential, deviceKey: key)
            case .none: return try bag.unlock(credential)
            }
        } catch .deviceKeyNeeded {
            throw deviceKey.problem ?? found.deviceKeyNeeded()
        } catch .wrongDeviceKey {
            throw found.wrongDeviceKey(deviceKey.path)
        } catch {
            if [.deviceMACMismatch, .unlockMACMismatch, .publicKeyMismatch, .bundleMismatch].contains(error) {
                Record.write(.tampering, bag.volumeID, [.ownUser, .keybagDamage(.unauthentic)])
            }
            throw ErrorMessages.keybag(error, path)
        }
    }

    /// Pins the keybag, which has been unlocked.
    package func pin() throws(CommandFailure) {
        guard outcome != .current else { return }
        try LocalState.pin(found, accept: outcome == .accepted)
    }

    /// Completes an interrupted change of the keybag. This keybag has been unlocked, so the remains of the other are destroyed,
    /// unless a command is changing the keybag right now.
    ///
    /// - Parameter isAlone: whether the caller keeps other commands from changing the keybag.
    /// - Returns: a message for the user. Nil if nothing is left, or the store is read-only.
    package func endChange(isAlone: Bool = false) -> String? {
        guard !isPrevious, KeybagFile.hasLeftovers(in: directory) else { return nil }
        let lock = isAlone ? nil : KeybagLock(ifFree: bag.volumeID)
        guard isAlone || lock != nil, (try? KeybagFile.read(in: directory)) == bag.bytes else { return nil }
        defer { withExtendedLifetime(lock) {} }
        do throws(Errno) {
            try KeybagFile.destroyLeftovers(keeping: bag.bytes, in: directory)
            return nil
        } catch {
            // EBUSY: a command on another machine is changing the keybag.
            return error == .EROFS || error == .EBUSY ? nil : leftBehind(error)
        }
    }

    /// Replaces the keybag by `next`, pins it, and destroys the previous one.
    ///
    /// - Parameter changesPublicKey: whether class B has a new key, so that the pinned one gives way.
    /// - Throws: if the keybag is unchanged.
    /// - Returns: success, or failure if the keybag is replaced but a later step failed. That failure has been reported.
    package func replaceKeybag(by next: Keybag, changesPublicKey: Bool = false) throws(CommandFailure) -> ExitCode {
        let left: Errno?
        do throws(Errno) {
            left = try KeybagFile.replace(.init(bag.bytes, isPrevious: isPrevious), with: next.bytes, in: directory)
        } catch {
            throw ErrorMessages.store(error, path)
        }
        var code = ExitCode.success
        if let left {
            Output.fail(.init(.failure, leftBehind(left)))
            code = .failure
        }
        do throws(CommandFailure) {
            try LocalState.pin(
                FoundVolume(found, holding: next), accept: outcome == .accepted || changesPublicKey)
        } catch {
            Output.fail(
                .init(.failure, "the keybag is changed, but this machine could not record it: \(error.message)"))
            code = .failure
        }
        return code
    }

    private func leftBehind(_ error: Errno) -> String {
        "\(path): the keybag from before the last change could not be destroyed (\(SystemError.reason(of: error.rawValue))): \(ReservedName.previousKeybag) still opens the volume as before that change. The next unlock tries again; or remove the file yourself"
    }
}
