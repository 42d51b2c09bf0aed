// Finds the device key of a volume: the key on this machine that opens its keybag.

import CLibrary
package import CommandSupport
package import HostSystem
package import Keybag
package import SodiumKit
import VolumeFormat

/// The device key that opens a keybag, or the reason why it is missing.
package struct FoundDeviceKey: ~Copyable {
    /// Nil if the volume has none, or it is not here.
    package let key: SecretKey?
    /// Its path. Nil without a key.
    package let path: HostPath?
    /// The reason why a key on this machine does not open the keybag. That key is ignored.
    package let problem: CommandFailure?

    /// No device key.
    package init(problem: CommandFailure? = nil) {
        key = nil
        path = nil
        self.problem = problem
    }

    init(_ key: consuming SecretKey, _ path: HostPath) {
        self.key = consume key
        self.path = path
        problem = nil
    }

    /// Whether the key is here and opens `bag`.
    ///
    /// - Throws: if it is here and does not open it.
    package borrowing func opens(_ bag: Keybag) throws(KeybagError) -> Bool {
        switch key {
        case .some(let key): _ = try bag.open(deviceKey: key)
        case .none: return false
        }
        return true
    }

    /// The failure of a command that needs the device key. Nil if it is here.
    package func missing(_ what: String) -> CommandFailure? {
        guard path == nil else { return nil }
        return problem
            ?? .init(
                .authentication, "the device key is not on this machine, \(what); give it with --device-key FILE")
    }
}

/// A device key that was read from a pipe, for as long as it may be needed.
package final class HeldDeviceKey: Sendable {
    /// The key, in locked memory.
    package let key: SecretKey
    let path: HostPath

    /// Takes the key that was read from `path`.
    package init(_ key: consuming SecretKey, _ path: HostPath) {
        self.key = key
        self.path = path
    }
}

extension FoundVolume {
    /// The choice of the device key for a command.
    package enum DeviceKeyChoice {
        /// The default directory, if the key is there.
        case usual
        /// This file, which must exist.
        case file(HostPath)
        /// This key, which was read once.
        case held(HeldDeviceKey)
        /// No device key.
        case none

        /// By `--device-key FILE|none`. A pipe is read now.
        package init(_ arguments: Arguments) throws(CommandFailure) {
            self = try DeviceKeyChoice(naming: arguments).read()
        }

        /// The same choice. A pipe has been read.
        package func read() throws(CommandFailure) -> DeviceKeyChoice {
            guard case .file(let path) = self, let key = try DeviceKeyFile.readOnce(path) else { return self }
            return .held(HeldDeviceKey(key, path))
        }

        /// By `--device-key FILE|none`, before anything is read.
        package init(naming arguments: Arguments) {
            switch arguments.path("device-key") {
            case nil: self = .usual
            case Option.noDeviceKey: self = .none
            // Absolute, because the daemon changes its directory.
            case .some(let path): self = .file((try? path.absolute()) ?? path)
            }
        }
    }

    /// The device key. A key in the default directory that does not open the keybag is ignored: it may be damaged, or belong to
    /// a copy of the volume, and a recovery code or portable passphrase does not need one.
    package func deviceKey(_ choice: DeviceKeyChoice) throws(CommandFailure) -> FoundDeviceKey {
        guard bag.hasDeviceKey else { return FoundDeviceKey() }
        switch choice {
        case .none: return FoundDeviceKey()
        case .held(let held):
            do throws(SodiumError) { return FoundDeviceKey(try held.key.copy(), held.path) } catch {
                throw ErrorMessages.memory(error)
            }
        case .file(let path):
            guard let key = try DeviceKeyFile.read(path, isOptional: false) else { return FoundDeviceKey() }
            return FoundDeviceKey(key, path)
        case .usual: return try usualDeviceKey()
        }
    }

    private func usualDeviceKey() throws(CommandFailure) -> FoundDeviceKey {
        let volume = bag.volumeID
        // Only info comes here with a state file that cannot be used.
        let own = (try? place().deviceKey(volume)) ?? LocalFile.deviceKey(of: volume)
        var problem: CommandFailure?
        let others = LocalFile.deviceKeys(of: volume).filter { !$0.isBeingErased && $0.path != own }.map(\.path)
        for path in [own] + others {
            do throws(CommandFailure) {
                guard let key = try DeviceKeyFile.read(path, isOptional: true) else { continue }
                if opens(with: key) != nil {
                    problem = problem ?? wrongDeviceKey(path)
                } else {
                    return FoundDeviceKey(key, path)
                }
            } catch {
                problem =
                    problem ?? .init(error.code, "\(error.message); \(ErrorMessages.withoutDeviceKey(self.path))")
            }
        }
        return FoundDeviceKey(problem: problem)
    }

    /// The failure if a passphrase needs the device key, and no key is here: where it was looked for.
    func deviceKeyNeeded() -> CommandFailure {
        let usual = (try? place().deviceKey(bag.volumeID)) ?? LocalFile.deviceKey(of: bag.volumeID)
        var message = "\(ErrorMessages.keybag(.deviceKeyNeeded, path).message) (\(usual) is missing)"
        if let other = LocalState.otherVolume(at: store, than: bag.volumeID) {
            message +=
                ". The keybag is of the volume \(bag.volumeID), and this machine knows \(path) as the volume \(other): the keybag, or the whole directory, was exchanged; \(KeybagAdvice.restoring(path))"
        }
        return .init(.authentication, message)
    }

    /// The failure of a key that does not open the keybag.
    package func wrongDeviceKey(_ key: HostPath?) -> CommandFailure {
        let reason = ErrorMessages.keybag(.wrongDeviceKey, path).message
        return .init(
            .authentication,
            "device key \(key.map { "\($0)" } ?? "of the volume"): \(reason); \(ErrorMessages.withoutDeviceKey(path))")
    }

    /// The default path of a new device key of this store. It replaces the key that opens the keybag now, or a file that is not
    /// a key, but never another store's key.
    package func newDeviceKeyPath() throws(CommandFailure) -> HostPath {
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
