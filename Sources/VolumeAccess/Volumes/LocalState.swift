// This machine's record of a volume: the state file beside the device keys.

import BackingStore
import CLibrary
package import CommandSupport
package import HostSystem
package import KeyFiles
package import Keybag
package import VolumeFormat

/// The state file as commands and the daemon use it.
package enum LocalState {
    /// The path of the state file of a volume's store.
    package static func store(_ access: FoundVolume) throws(CommandFailure) -> StateFileStore {
        try store(access.bag.volumeID, access.place().number)
    }

    /// The path of the state file of a volume with this number.
    static func store(_ volume: VolumeID, _ number: Int) throws(CommandFailure) -> StateFileStore {
        let path = SystemPaths.data
        do throws(SystemError) { try makeDirectories(path) } catch {
            throw noDirectory(error.subject.isEmpty ? "\(path)" : error.subject, error.code)
        }
        let text = try FoundVolume.text(path)
        do throws(Errno) {
            let directory = try HostDirectory.open(path: text)
            return StateFileStore(directory: directory, volumeID: volume, number: number)
        } catch {
            throw noDirectory("\(path)", error.rawValue)
        }
    }

    /// The directory of state files cannot be made or opened.
    static func noDirectory(_ subject: String, _ code: Int32) -> CommandFailure {
        let path = SystemPaths.data
        let what = subject == "\(path)" ? "" : "\(subject): "
        return .init(
            .failure,
            "\(path): the directory of state files and device keys, which holds what this machine knows of volumes, cannot be used: \(what)\(SystemError.reason(of: code)); make it usable, or set XDG_STATE_HOME to another place"
        )
    }

    /// Whether the directory of state files is missing. One that is there and cannot be reached is not missing: what it knows of
    /// the volume must not be passed over.
    private static func isDirectoryMissing() throws(CommandFailure) -> Bool {
        let path = SystemPaths.data
        guard unsafe path.withCString({ unsafe access($0, F_OK) }) != 0 else { return false }
        let code = errno
        // A link that leads nowhere is there. If a parent is a file, nothing can be.
        guard [ENOENT, ENOTDIR].contains(code), (try? FileStatus.read(path)) == nil else {
            throw noDirectory("\(path)", code)
        }
        return true
    }

    /// The state file of a volume's store. Nil if there is none.
    package static func load(_ access: FoundVolume) throws(CommandFailure) -> StateFile? {
        try load(access.bag.volumeID, access.place().number)
    }

    /// The state file of a volume with this number. Nil if there is none.
    static func load(_ volume: VolumeID, _ number: Int) throws(CommandFailure) -> StateFile? {
        // Reading must not make the directory.
        if try isDirectoryMissing() { return nil }
        let store = try store(volume, number)
        do throws(VolumeError) { return try store.load() } catch { throw ErrorMessages.volume(error, path(store)) }
    }

    /// Another volume that this machine has seen at a store's path. Nil if there was none.
    static func otherVolume(at store: StateFileLayout.Store, than volume: VolumeID) -> VolumeID? {
        for name in (try? FileStatus.names(in: SystemPaths.data)) ?? [] {
            guard name.bytes.suffix(6).elementsEqual(".state".utf8),
                let bytes = try? readFile(SystemPaths.data.appending(bytes: name.bytes)),
                let layout = try? StateFile(parsing: bytes).layout,
                layout.volumeID != volume, layout.store?.path == store.path
            else { continue }
            return layout.volumeID
        }
        return nil
    }

    /// What this machine's record says of a keybag.
    struct Standing {
        /// The result of the comparison. `accepted` if there is a refusal, for a person who accepts the keybag.
        let outcome: StateFile.Outcome
        /// Whether its public key is the pinned one.
        let isPublicKeyPinned: Bool
        /// Why the keybag is refused.
        let refusal: StateFileError?
    }

    /// Compares a keybag with this machine's record.
    ///
    /// A copy without a pin is compared with the highest serial pinned for any store of its UUID, because an attacker who can
    /// change the store can make it look like a new copy.
    static func standing(of access: FoundVolume) throws(CommandFailure) -> Standing {
        let own = try load(access)
        let isPinned = own?.layout.isPinned == true
        let state = isPinned ? own : try highestPin(access.bag)
        let isPublicKeyPinned = state?.pins(publicKeyOf: access.bag) ?? false
        do throws(StateFileError) {
            let outcome = try StateFile.check(access.bag, against: state)
            // A pin of another store does not count as a pin of this one.
            return Standing(
                outcome: outcome == .current && !isPinned ? .newer : outcome, isPublicKeyPinned: isPublicKeyPinned,
                refusal: nil)
        } catch {
            return Standing(outcome: .accepted, isPublicKeyPinned: isPublicKeyPinned, refusal: error)
        }
    }

    /// The keybag and its standing, read again if a command may have changed one of them in between.
    ///
    /// - Parameter isAlone: whether the caller has the keybag's lock.
    static func settled(
        _ first: FoundVolume, usePrevious: Bool, isAlone: Bool
    ) throws(CommandFailure) -> (found: FoundVolume, standing: Standing) {
        var isFirst = true
        let deadline = monotonicNanoseconds() + patience
        let settled = try SettledReading<(FoundVolume, Standing)>.settle {
            $0.1.refusal != nil
        } read: { () throws(CommandFailure) in
            let found = isFirst ? first : try first.readAgain(usePrevious: usePrevious)
            isFirst = false
            return (found, try standing(of: found))
        } writer: {
            isAlone ? .none(nil) : KeybagLock.writer(of: first.bag.volumeID)
        } pause: {
            usleep(50_000)
            return monotonicNanoseconds() < deadline
        }
        switch settled {
        case .agreed(let result), .refused(let result): return result
        case .changing:
            throw .init(
                .busy, "\(first.path): a command is changing the keybag of the volume; try again when it has ended")
        }
    }

    /// How long a reading waits for a command that changes the keybag, in nanoseconds.
    private static let patience: UInt64 = 5_000_000_000

    /// The failure of a keybag that is refused. It goes to the record.
    static func failure(_ refusal: StateFileError, _ access: FoundVolume) -> CommandFailure {
        if let damage = refusal.keybagDamage {
            Record.write(.tampering, access.bag.volumeID, [.ownUser, .keybagDamage(damage)])
        }
        return explain(refusal, access.path, access.bag.fingerprint)
    }

    /// The state file with the highest pinned serial of a volume. Of several, the one that pins this keybag.
    private static func highestPin(_ bag: Keybag) throws(CommandFailure) -> StateFile? {
        let pinned = try StoreIdentity.states(of: bag.volumeID).map(\.state).filter(\.layout.isPinned)
        let highest = pinned.filter { state in pinned.allSatisfy { $0.layout.serial <= state.layout.serial } }
        return highest.first { (try? StateFile.check(bag, against: $0)) == .current } ?? highest.first
    }

    /// Whether the bytes of a keybag that this program does not understand are not what this machine has seen with their serial.
    static func contradicts(keybag bytes: [UInt8]) -> Bool {
        guard let volume = Keybag.claimedVolume(of: bytes) else { return false }
        return StoreIdentity.readableStates(of: volume).known.contains { $0.state.contradicts(keybag: bytes) }
    }

    /// Pins a keybag that has been unlocked or made here. A pin goes back only if a person has accepted the keybag.
    package static func pin(_ access: FoundVolume, accept: Bool) throws(CommandFailure) {
        var refusal: StateFileError?
        try update(access) { state in
            do throws(StateFileError) { try state.pin(access.bag, acceptingKeybag: accept) } catch { refusal = error }
        }
        if let refusal { throw explain(refusal, access.path, access.bag.fingerprint) }
    }

    /// The record of a volume that this machine has not seen before: nothing is pinned, crash damage is tolerated, and every
    /// late file in the volume's root is believed.
    private static func anew(_ access: FoundVolume, above others: [StateFile]) -> StateFile {
        var state = StateFile(unpinned: access.bag.volumeID, above: others)
        state.layout.openLocks = LateFiles.openLocks(of: access.bag.volumeID, in: access.directory)
        return state
    }

    /// Checks that a mount can draw epochs. A missing file is made, and pins nothing.
    package static func touch(_ access: FoundVolume) throws(CommandFailure) {
        var isLast = false
        try update(access) { isLast = $0.layout.highestEpoch == Epoch.largest }
        if isLast { throw ErrorMessages.stateFile(.init(name: try store(access).name, .noEpochLeft)) }
    }

    /// Changes the state file of a volume's store. A missing file is made.
    private static func update(
        _ access: FoundVolume, _ change: (inout StateFile) -> Void
    ) throws(CommandFailure) {
        let (volume, place) = (access.bag.volumeID, try access.place())
        let store = try store(volume, place.number)
        var isTaken = false
        // One that cannot be read stops only commands on its own store.
        let others = StoreIdentity.readableStates(of: volume).known.map(\.state)
        do throws(VolumeError) {
            _ = try store.update { found in
                // Another store, seen for the first time, may have got this number meanwhile.
                if let owner = found?.layout.store, !owner.isSameDirectory(as: place.store),
                    owner.path != place.store.path
                {
                    isTaken = true
                    return
                }
                var state = found ?? anew(access, above: others)
                state.layout.store = place.store
                change(&state)
                found = state
            }
        } catch {
            throw ErrorMessages.volume(error, path(store))
        }
        if isTaken { throw .init(.busy, "\(access.path): another copy of the volume is being opened; try again") }
    }

    /// Makes the state file of a volume that `init` has just made.
    package static func create(_ bag: Keybag, _ place: StateFileLayout.Store) throws(CommandFailure) {
        let store = try store(bag.volumeID, 1)
        do throws(VolumeError) {
            _ = try store.update { state in
                var made = StateFile(pinning: bag, toleratesEverything: false)
                made.layout.store = place
                state = made
            }
        } catch {
            throw ErrorMessages.volume(error, path(store))
        }
    }

    /// Sets aside every state file of a volume that cannot be used or not be written, so that the machine forgets it.
    ///
    /// - Returns: the old and the new path of each.
    package static func forget(_ volume: VolumeID) throws(CommandFailure) -> [(from: HostPath, to: HostPath)] {
        var result: [(from: HostPath, to: HostPath)] = []
        for number in LocalFile.stateNumbers(of: volume) {
            let store = try store(volume, number)
            if let state = try? store.load(), state.isWritable, state.layout.highestEpoch < Epoch.largest { continue }
            do throws(VolumeError) {
                let new = try store.setAside { LocalFile.forgottenState(store.name, attempt: $0) }
                if let new { result.append((path(store), SystemPaths.data.appending(new))) }
            } catch {
                throw ErrorMessages.volume(error, path(store))
            }
        }
        return result
    }

    /// Why this machine must not write the volume, although it can read it. Nil if it may.
    package static func obstacle(_ access: FoundVolume) throws(CommandFailure) -> CommandFailure? {
        guard let state = try load(access), !state.isWritable else { return nil }
        return ErrorMessages.stateFile(.init(name: try store(access).name, .readOnly))
    }

    private static func path(_ store: StateFileStore) -> HostPath { SystemPaths.data.appending(store.name) }

    private static func explain(
        _ error: StateFileError, _ volume: HostPath, _ fingerprint: String
    ) -> CommandFailure {
        switch error {
        case .otherVolume: .init(.volume, "\(volume): the keybag belongs to another volume than the state file")
        case .rolledBack(let serial, let pinned):
            .init(
                .volume,
                "\(volume): the keybag (\(serial)) is older than the one last seen (\(pinned)): someone restored a backup or replaced it; use --accept-keybag to accept it, with a passphrase or the recovery code of that time, or put the newer one back: \(KeybagAdvice.importing(volume, "FILE"))"
            )
        case .otherPublicKey:
            .init(
                .volume,
                "\(volume): the keybag's public key differs from the one last seen, and nothing that this machine knows vouches for it. If the keys were changed elsewhere, protectfs info shows the fingerprint \(fingerprint) there too; then use --accept-keybag. Else put the right one back: \(KeybagAdvice.importing(volume, "FILE"))"
            )
        case .otherKeys:
            .init(
                .volume,
                "\(volume): the keybag's keys differ from those last seen, with the same public key, as no change of keys does; if you know why, use --accept-keybag. Else put the right one back: \(KeybagAdvice.importing(volume, "FILE"))"
            )
        case .otherContents:
            .init(
                .volume,
                "\(volume): the keybag differs from the one last seen with the same serial number, as after changes of two copies; if you know why, use --accept-keybag. Else put the right one back: \(KeybagAdvice.importing(volume, "FILE"))"
            )
        }
    }
}

extension StateFileError {
    /// The error in the record.
    fileprivate var keybagDamage: Record.KeybagDamage? {
        switch self {
        case .rolledBack: .older
        case .otherPublicKey: .otherPublicKey
        case .otherKeys, .otherContents: .otherContents
        case .otherVolume: nil
        }
    }
}
