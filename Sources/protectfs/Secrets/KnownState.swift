// What this machine remembers of a volume, outside of it: the state file beside the device keys.

import BackingStore
import Glibc
import HostSystem
import Keybag
import ProtectedVolume
import VolumeFormat

/// The state file as commands and the daemon use it.
enum KnownState {
    /// The store of a volume's state file; nil when the directory cannot be had.
    static func store(_ volume: VolumeID) throws(CommandFailure) -> StateFileStore {
        let path = SystemPaths.data
        do throws(SystemError) { try makeDirectories(path) } catch { throw Explain.system(error) }
        let text = try VolumeAccess.text(path)
        do throws(Errno) {
            let directory = try HostDirectory.open(path: text)
            return StateFileStore(directory: directory, volumeID: volume)
        } catch {
            throw .init(.failure, "\(path): \(error); the state file of the volume lies there")
        }
    }

    /// The state file; nil when there is none.
    static func load(_ volume: VolumeID) throws(CommandFailure) -> StateFile? {
        // Asking must not make the directory.
        guard unsafe SystemPaths.data.withCString({ unsafe access($0, F_OK) }) == 0 else { return nil }
        let store = try store(volume)
        do throws(VolumeError) { return try store.load() } catch { throw explain(error, volume) }
    }

    /// How a keybag stands to what this machine remembers, and whether its public key is the one that is pinned. Refuses one
    /// that is older or other than the one pinned, unless `accept`.
    static func standing(
        of bag: Keybag, _ volume: HostPath, accept: Bool
    ) throws(CommandFailure) -> (outcome: StateFile.Outcome, isPublicKeyPinned: Bool) {
        let state = try load(bag.volumeID)
        do throws(StateFileError) {
            let outcome = try StateFile.check(bag, against: state, acceptingKeybag: accept)
            return (outcome, state?.pins(publicKeyOf: bag) ?? false)
        } catch {
            throw explain(error, volume)
        }
    }

    /// Pins a keybag that has been unlocked or made here. A pin goes down only where a person has accepted the keybag.
    static func pin(_ bag: Keybag, _ volume: HostPath, _ root: BackingDirectory, accept: Bool) throws(CommandFailure) {
        let store = try store(bag.volumeID)
        var refusal: StateFileError?
        do throws(VolumeError) {
            _ = try store.update { state in
                var next = state ?? anew(bag.volumeID, root)
                do throws(StateFileError) {
                    try next.pin(bag, acceptingKeybag: accept)
                    state = next
                } catch {
                    refusal = error
                }
            }
        } catch {
            throw explain(error, bag.volumeID)
        }
        if let refusal { throw explain(refusal, volume) }
    }

    /// What this machine remembers of a volume that it has not seen before: nothing is pinned, crash damage is tolerated,
    /// and every late file in the volume's `root` believed.
    private static func anew(_ volume: VolumeID, _ root: BackingDirectory) -> StateFile {
        var state = StateFile(unpinned: volume)
        state.layout.openLocks = Volume.openLocks(of: volume, in: root)
        return state
    }

    /// Finds out that the state file can be written; one that is missing is made, and pins nothing.
    static func touch(_ store: StateFileStore, _ volume: VolumeID, _ root: BackingDirectory) throws(CommandFailure) {
        do throws(VolumeError) {
            _ = try store.update { state in
                if state == nil { state = anew(volume, root) }
            }
        } catch {
            throw explain(error, volume)
        }
    }

    /// Makes the state file of a volume that `init` has just made.
    static func create(_ bag: Keybag) throws(CommandFailure) {
        let store = try store(bag.volumeID)
        do throws(VolumeError) {
            _ = try store.update { state in state = StateFile(pinning: bag, toleratesEverything: false) }
        } catch {
            throw explain(error, bag.volumeID)
        }
    }

    private static func explain(_ error: VolumeError, _ volume: VolumeID) -> CommandFailure {
        Explain.volume(error, SystemPaths.data.appending("\(volume).state"))
    }

    private static func explain(_ error: StateFileError, _ volume: HostPath) -> CommandFailure {
        switch error {
        case .format, .otherVolume:
            .init(
                .volume,
                "\(volume): the state file under \(SystemPaths.data) is damaged; remove it to accept the volume as it is"
            )
        case .rolledBack(let serial, let pinned):
            .init(
                .volume,
                "\(volume): the keybag is older (\(serial)) than one seen before (\(pinned)): a restored backup, or somebody put it back; --accept-keybag accepts it"
            )
        case .otherPublicKey:
            .init(
                .volume,
                "\(volume): the keybag has another public key than the one seen before; --accept-keybag accepts it if you know why"
            )
        case .otherContents:
            .init(
                .volume,
                "\(volume): the keybag differs from the one seen before under the same number; --accept-keybag accepts it if you know why"
            )
        }
    }
}

/// Keeps two commands from changing one keybag at the same time on this machine.
final class KeybagLock {
    private let file: Descriptor

    /// Waits for the lock.
    init(_ volume: VolumeID) throws(CommandFailure) {
        let file = try Self.open(Self.path(volume))
        try Self.wait(file)
        self.file = file
    }

    /// Takes the lock; nil where a command has it, or it cannot be had.
    init?(ifFree volume: VolumeID) {
        guard let file = try? Self.open(Self.path(volume)), flock(file.number, LOCK_EX | LOCK_NB) == 0 else {
            return nil
        }
        self.file = file
    }

    private static func path(_ volume: VolumeID) -> HostPath { SystemPaths.data.appending("\(volume).keybag.lock") }

    private static func wait(_ file: borrowing Descriptor) throws(CommandFailure) {
        while flock(file.number, LOCK_EX) != 0 {
            if errno != EINTR { throw Explain.system(.last("flock")) }
        }
    }

    private static func open(_ path: HostPath) throws(CommandFailure) -> Descriptor {
        do throws(SystemError) {
            try makeDirectories(SystemPaths.data)
            let file = try Descriptor(opening: path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, mode: 0o600)
            guard try file.status().st_mode & S_IFMT == S_IFREG else {
                throw SystemError(code: EINVAL, call: "open", subject: path.description)
            }
            return file
        } catch {
            throw Explain.system(error)
        }
    }
}
