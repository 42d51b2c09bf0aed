// Code shared by the commands that change a keybag: opening it, changing a copy, and replacing it.

import CLibrary
import CommandSupport
import Control
import HostSystem
import Keybag
import SodiumKit
import VolumeAccess
import VolumeFormat

extension Option {
    /// Code shared by the commands that change a keybag.
    static let keybag = credentials + [deviceKey, previousKeybag, acceptKeybag]
}

/// The work of `slot`, `passphrase` and `recovery`.
enum KeybagCommands {
    /// A volume that a credential has opened, and the device key if it is here.
    final class Opened {
        let access: CheckedVolume
        let deviceKey: FoundDeviceKey
        let keys: VolumeKeys
        let lock: KeybagLock
        let policy: Policy

        init(
            access: CheckedVolume, deviceKey: consuming FoundDeviceKey, keys: consuming VolumeKeys,
            lock: consuming KeybagLock, policy: Policy
        ) {
            self.access = access
            self.deviceKey = deviceKey
            self.keys = keys
            self.lock = lock
            self.policy = policy
        }
    }

    /// Opens the volume and prevents other changes of its keybag meanwhile.
    ///
    /// The keybag is read and compared again under the lock, because a command may have changed it while a person was typing.
    /// - Parameter look: gets the credential, and the volume with the current keybag.
    static func open(
        _ arguments: Arguments, _ path: HostPath, prompt: String? = nil, isRecovery: Bool = false,
        _ look: (borrowing Credential, CheckedVolume, borrowing FoundDeviceKey) throws(CommandFailure) -> Void = {
            _, _, _ in
        }
    ) throws(CommandFailure) -> Opened {
        let policy = try Policy.read()
        let before = try CheckedVolume(path, .init(arguments))
        // This and the device key come before any prompt.
        if let obstacle = try before.obstacle() { throw obstacle }
        if let note = try before.found.place().note(path) { Output.note(note) }
        let choice = isRecovery ? .none : try FoundVolume.DeviceKeyChoice(arguments)
        _ = try before.found.deviceKey(choice)
        let opened = try CredentialInput.retrying(arguments) { () throws(CommandFailure) in
            let offered: Credential
            if isRecovery, !arguments.has("recovery-file") {
                offered = .recoveryCode(
                    try CredentialInput.secret(
                        prompt: "Recovery code of \(path): ", option: "recovery-file", what: "recovery code"))
            } else {
                offered = try CredentialInput.credential(
                    arguments, prompt: prompt ?? "Passphrase of \(path): ", before.bag)
            }
            // The lock is taken after the person has typed, because a prompt must not delay another command.
            let lock = try KeybagLock(before.bag.volumeID)
            let access = try before.readAgain(isAlone: true)
            if let obstacle = try access.obstacle() { throw obstacle }
            let deviceKey = try access.found.deviceKey(choice)
            let keys = try access.unlock(offered, deviceKey)
            try look(offered, access, deviceKey)
            return Opened(access: access, deviceKey: deviceKey, keys: keys, lock: lock, policy: policy)
        }
        // If something cannot be destroyed here, the change meets the same problem and reports it.
        _ = opened.access.endChange(isAlone: true)
        return opened
    }

    /// Makes the changed keybag and translates its errors.
    static func edit<Result: ~Copyable>(
        _ path: HostPath, _ change: () throws(KeybagError) -> Result
    ) throws(CommandFailure) -> Result {
        do throws(KeybagError) { return try change() } catch { throw ErrorMessages.keybag(error, path) }
    }

    /// Replaces the keybag, if the configuration allows it. If that fails, the keybag is unchanged, and the message says what that means.
    static func replace(
        _ opened: Opened, by next: Keybag, _ reason: Record.Reason, _ undone: String
    ) throws(CommandFailure) -> ExitCode {
        try replace(opened.access, opened.policy, by: next, reason, undone)
    }

    /// The same for a keybag that this command has written before.
    /// - Parameter changesPublicKey: whether class B has a new key.
    static func replace(
        _ access: CheckedVolume, _ policy: Policy, by next: Keybag, _ reason: Record.Reason,
        changesPublicKey: Bool = false, _ undone: String
    ) throws(CommandFailure) -> ExitCode {
        do throws(CommandFailure) {
            try policy.checkSlots(RequiredSlot.all(in: next), replacing: RequiredSlot.all(in: access.bag))
            let code = try access.replaceKeybag(by: next, changesPublicKey: changesPublicKey)
            Record.write(
                .keysChanged, next.volumeID,
                [.ownUser, .reason(reason), .result(code)] + Record.slots(from: access.bag, to: next))
            return code
        } catch {
            throw .init(error.code, "\(error.message); \(undone)")
        }
    }
}
