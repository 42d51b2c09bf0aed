// `protectfs secret service`.

import CommandSupport
import Control
import HostSystem
import Keybag
import SessionServices
import VolumeAccess
import VolumeFormat

extension Command {
    static let secretService = Command(
        "secret service", .secrets, [.mountPoint],
        "Gives desktop programs the secrets of a volume, as the Secret Service (org.freedesktop.secrets).",
        details: """
            The service runs in the foreground, on the session bus, until the mount or the bus ends. The user unit
            protectfs-secrets starts it. Another program that provides org.freedesktop.secrets must end first.

            While the volume is locked, programs find items and their attributes, and no secret of a class that is closed. With
            --passphrase-command, a program that asks to unlock the collection has CMD run, and the volume is unlocked with what
            it prints. Without it, such a program is told that nothing was unlocked. A program that locks the collection locks
            the volume.
            """,
        options: [
            Option("class", value: .protectionClass, standard: "complete", help: "the class of new items"),
            .passphraseCommand,
        ],
        examples: [
            .init("protectfs secret service ~/documents", "Keep the passwords of desktop programs in a volume."),
            .init(
                "protectfs secret service --passphrase-command 'zenity --password' ~/documents",
                "Ask for the passphrase when a program needs one."),
        ], wipesFreedMemory: true,
        run: { (arguments) throws(CommandFailure) in
            let path = arguments.operands[0]
            let mount = try MountLookup.at(path)
            var newClass = ProtectionClass.complete
            if let word = try arguments.text("class") {
                guard let known = ProtectionClass(name: word) else { throw ErrorMessages.unknownClass(HostPath(word)) }
                newClass = known
            }
            return try SecretService(mount, class: newClass, ask: question(arguments, mount)).run()
        })

    /// Asks for the passphrase with the command in the options and unlocks; nil without a command.
    private static func question(_ arguments: Arguments, _ mount: MountEntry) -> (@Sendable () -> Void)? {
        guard arguments.has("passphrase-command") else { return nil }
        return {
            let path = mount.mountPoint
            do throws(CommandFailure) {
                let credential = try CredentialInput.credential(
                    arguments, prompt: "", try FoundVolume(mount.source).bag)
                let client = try DaemonConnection.connectProven(mount, path)
                _ = try DaemonConnection.call(path) { () throws(ControlError) in try client.unlock(credential) }
            } catch {
                Output.error(error.message)
            }
        }
    }
}
