// What the commands that change a keybag share: opening it, changing a copy, putting that in its place.

import Control
import Glibc
import HostSystem
import Keybag
import SodiumKit
import VolumeFormat

extension Option {
    /// What the commands that change a keybag share.
    static let keybag = credentials + [deviceKey, previousKeybag, acceptKeybag]
}

/// The work of `passphrase` and `recovery`.
enum KeybagCommands {
    /// A volume that a credential has opened, and the device key where it is here.
    final class Opened {
        let access: CheckedVolume
        let deviceKey: FoundDeviceKey
        let keys: VolumeKeys
        let lock: KeybagLock

        init(
            access: CheckedVolume, deviceKey: consuming FoundDeviceKey, keys: consuming VolumeKeys,
            lock: consuming KeybagLock
        ) {
            self.access = access
            self.deviceKey = deviceKey
            self.keys = keys
            self.lock = lock
        }
    }

    /// Opens the volume and keeps other changes of its keybag out meanwhile.
    ///
    /// The keybag that is used is read and compared once more when other changes are kept out: a command may have changed
    /// it while a person was typing.
    /// - Parameter look: sees the credential, and the volume with the keybag that is used.
    static func open(
        _ arguments: Arguments, _ path: HostPath, prompt: String? = nil, isRecovery: Bool = false,
        _ look: (borrowing Credential, CheckedVolume, borrowing FoundDeviceKey) throws(CommandFailure) -> Void = {
            _, _, _ in
        }
    ) throws(CommandFailure) -> Opened {
        let before = try CheckedVolume(path, .init(arguments))
        if let note = try before.found.place().note(path) { Output.note(note) }
        let choice = isRecovery ? .none : VolumeAccess.DeviceKeyChoice(arguments)
        // Before anything is asked.
        _ = try before.found.deviceKey(choice)
        let offered: Credential
        if isRecovery, !arguments.has("recovery-file") {
            offered = .recoveryCode(
                try CredentialInput.secret(prompt: "Recovery code of \(path): ", option: "recovery-file"))
        } else {
            offered = try CredentialInput.credential(arguments, prompt: prompt ?? "Passphrase of \(path): ")
        }
        // Locked after the person has typed: a prompt must not hold up another command.
        let lock = try KeybagLock(before.bag.volumeID)
        let access = try before.readAgain()
        let deviceKey = try access.found.deviceKey(choice)
        let keys = try access.unlock(offered, deviceKey)
        try look(offered, access, deviceKey)
        // What cannot be destroyed is met, and said, by the change.
        _ = access.endChange(isAlone: true)
        return Opened(access: access, deviceKey: deviceKey, keys: keys, lock: lock)
    }

    /// Makes the changed keybag, translating what is wrong with it.
    static func edit<Result: ~Copyable>(
        _ path: HostPath, _ change: () throws(KeybagError) -> Result
    ) throws(CommandFailure) -> Result {
        do throws(KeybagError) { return try change() } catch { throw ErrorMessages.keybag(error, path) }
    }

    /// Replaces the keybag. Where that fails, the keybag is as it was, and the message says what that means.
    static func replace(
        _ opened: Opened, by next: Keybag, _ undone: String
    ) throws(CommandFailure) -> ExitCode {
        do throws(CommandFailure) { return try opened.access.replaceKeybag(by: next) } catch {
            throw .init(error.code, "\(error.message); \(undone)")
        }
    }
}
