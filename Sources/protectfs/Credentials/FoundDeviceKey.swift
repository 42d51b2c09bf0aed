// Finds the device key of a volume: of the keys on this machine, the one that opens its keybag.

import Glibc
import HostSystem
import Keybag
import SodiumKit
import VolumeFormat

/// The device key that opens a keybag, or the reason why it is missing.
struct FoundDeviceKey: ~Copyable {
    /// Nil where the volume has none, or it is not here.
    let key: SecretKey?
    /// Its path; nil without a key.
    let path: HostPath?
    /// Why a key on this machine does not open the keybag; that key is ignored.
    let problem: CommandFailure?

    /// No device key.
    init(problem: CommandFailure? = nil) {
        key = nil
        path = nil
        self.problem = problem
    }

    /// A key.
    init(_ key: consuming SecretKey, _ path: HostPath) {
        self.key = consume key
        self.path = path
        problem = nil
    }

    /// The failure of a command that needs the device key; nil where it is here.
    func missing(_ what: String) -> CommandFailure? {
        guard path == nil else { return nil }
        return problem
            ?? .init(.authentication, "the device key is not on this machine, \(what); give it with --device-key")
    }
}

extension VolumeAccess {
    /// What a command takes to find the device key.
    enum DeviceKeyChoice {
        /// Where device keys lie by default, if it is there.
        case usual
        /// In this file, which must be there.
        case file(HostPath)
        /// Not at all.
        case none

        /// By `--device-key FILE|none`.
        init(_ arguments: Arguments) {
            switch arguments.path("device-key") {
            case nil: self = .usual
            case HostPath("none"): self = .none
            // Absolute, as the daemon changes its directory.
            case .some(let path): self = .file((try? path.absolute()) ?? path)
            }
        }
    }

    /// The device key. Of those that lie in the usual place, one that does not open the keybag is set aside: it may be
    /// damaged, or belong to a copy of the volume, and a recovery code or portable passphrase needs none.
    func deviceKey(_ choice: DeviceKeyChoice) throws(CommandFailure) -> FoundDeviceKey {
        guard bag.hasDeviceKey else { return FoundDeviceKey() }
        switch choice {
        case .none: return FoundDeviceKey()
        case .file(let path):
            guard let key = try DeviceKeyFile.read(path, isOptional: false) else { return FoundDeviceKey() }
            return FoundDeviceKey(key, path)
        case .usual: return try usualDeviceKey()
        }
    }

    private func usualDeviceKey() throws(CommandFailure) -> FoundDeviceKey {
        let volume = bag.volumeID
        let own = try place().deviceKey(volume)
        var problem: CommandFailure?
        let others = LocalFile.deviceKeys(of: volume).filter { !$0.isBeingErased && $0.path != own }.map(\.path)
        for path in [own] + others {
            do throws(CommandFailure) {
                guard let key = try DeviceKeyFile.read(path, isOptional: true) else { continue }
                if let refusal = opens(with: key) {
                    problem = problem ?? .init(.authentication, "device key \(path): \(refusal.message)")
                } else {
                    return FoundDeviceKey(key, path)
                }
            } catch {
                problem = problem ?? error
            }
        }
        return FoundDeviceKey(problem: problem)
    }

    /// Where a new device key of this store is written by default: in place of the one that opens the keybag now, or of a file
    /// that is not a key; never in place of another store's key.
    func newDeviceKeyPath() throws(CommandFailure) -> HostPath {
        let (volume, place) = (bag.volumeID, try place())
        let own = place.deviceKey(volume)
        guard let key = try? DeviceKeyFile.read(own, isOptional: true), opens(with: key) != nil else { return own }
        return LocalFile.deviceKey(of: volume, number: (LocalFile.deviceKeyNumbers(of: volume).last ?? 1) + 1)
    }

    /// Nil for a key of this keybag, even if the keybag is damaged: using the keybag shows that.
    private func opens(with key: borrowing SecretKey) -> CommandFailure? {
        do throws(KeybagError) {
            _ = try bag.open(deviceKey: key)
            return nil
        } catch .wrongDeviceKey {
            return ErrorMessages.keybag(.wrongDeviceKey, path)
        } catch {
            return nil
        }
    }
}
