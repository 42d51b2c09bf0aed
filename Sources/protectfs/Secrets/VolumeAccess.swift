// A volume opened by its path for a command: its directory, its keybag, and the keys that a credential brings.

import BackingStore
import HostSystem
import Keybag
import ProtectedVolume
import SodiumKit
import VolumeFormat

/// The directory and the keybag of a volume; nothing in it is authenticated yet.
struct VolumeAccess {
    /// The path as typed.
    let path: HostPath
    /// The volume's directory.
    let directory: HostDirectory
    /// What tells the directory from its copies.
    let store: StateFileLayout.Store
    /// Its keybag as it lies there.
    let bag: Keybag

    /// Opens the directory and parses the keybag.
    init(_ path: HostPath, usePrevious: Bool = false) throws(CommandFailure) {
        self.path = path
        let text = try Self.text(path)
        let directory: HostDirectory
        do throws(Errno) {
            directory = try HostDirectory.open(path: text)
        } catch {
            throw Explain.store(error, path)
        }
        self.directory = directory
        store = try StateFileLayout.Store(directory, path)
        let bytes: [UInt8]
        do throws(Errno) {
            bytes = try KeybagFile.read(in: directory, usePrevious: usePrevious)
        } catch .ENOENT {
            throw .init(
                .volume,
                usePrevious
                    ? "\(path): there is no previous keybag"
                    : "\(path): not a protectfs volume (no .protectfs.keybag in it); make one with protectfs init")
        } catch .EINVAL {
            throw .init(.volume, "\(path): its .protectfs.keybag is no regular file; somebody has replaced it")
        } catch {
            throw Explain.store(error, path)
        }
        do throws(KeybagError) { bag = try Keybag(parsing: bytes) } catch { throw Explain.keybag(error, path) }
    }

    /// A path as libfuse and the store take it.
    static func text(_ path: HostPath) throws(CommandFailure) -> String {
        guard let text = String(validating: path.bytes, as: UTF8.self) else {
            throw .init(.usage, "\(path): the path is not UTF-8 text; rename the directory")
        }
        return text
    }

    /// Reads the keybag again through the same directory.
    init(rereading access: VolumeAccess) throws(CommandFailure) {
        path = access.path
        directory = access.directory
        store = access.store
        let bytes: [UInt8]
        do throws(Errno) { bytes = try KeybagFile.read(in: directory) } catch { throw Explain.store(error, path) }
        do throws(KeybagError) { bag = try Keybag(parsing: bytes) } catch { throw Explain.keybag(error, path) }
        guard bag.volumeID == access.bag.volumeID else {
            throw .init(.volume, "\(path): the keybag now belongs to another volume")
        }
    }

    /// This store among the copies of the volume that this machine has seen.
    func place() throws(CommandFailure) -> StorePlace { try StorePlace(bag.volumeID, store) }

    /// All keys, by a credential and the device key where it is here.
    func unlock(
        _ credential: borrowing Credential, _ deviceKey: borrowing FoundDeviceKey
    ) throws(CommandFailure) -> VolumeKeys {
        do throws(KeybagError) {
            switch deviceKey.key {
            case .some(let key): return try bag.unlock(credential, deviceKey: key)
            case .none: return try bag.unlock(credential)
            }
        } catch .deviceKeyNeeded {
            throw deviceKey.problem ?? Explain.keybag(.deviceKeyNeeded, path)
        } catch {
            throw Explain.keybag(error, path)
        }
    }

    /// Replaces the keybag by `next`, which is checked to be readable again, and pins it in the state file.
    func replaceKeybag(by next: Keybag) throws(CommandFailure) {
        do throws(Errno) {
            try KeybagFile.replace(with: next.bytes, in: directory)
        } catch {
            throw Explain.store(error, path)
        }
        try KnownState.pin(VolumeAccess(self, holding: next))
    }

    /// The same volume with the keybag that has just been written.
    private init(_ access: VolumeAccess, holding bag: Keybag) {
        path = access.path
        directory = access.directory
        store = access.store
        self.bag = bag
    }
}

/// The cost of a new passphrase's hash on this machine.
func calibratedCost() throws(CommandFailure) -> Argon2Parameters {
    do throws(SodiumError) { return try PasswordHash.calibrated() } catch { throw Explain.memory(error) }
}
