// `protectfs recovery use`, and the recovery code of `slot add`.

import CLibrary
import CommandSupport
import Control
import HostSystem
import Keybag
import SodiumKit
import VolumeAccess
import VolumeFormat

extension Command {
    /// The former name of `slot add --recovery`.
    static let recoveryNew = Command(
        "recovery new", .keys, [.volume], "The same as slot add --recovery.", options: [.label, .json] + Option.keybag,
        examples: [.init("protectfs slot add --recovery ~/.documents", "Show a new recovery code, once.")],
        run: KeybagCommands.newRecovery)

    static let recoveryUse = Command(
        "recovery use", .keys, [.volume], "Resets the passphrase and the device key, using the recovery code.",
        details: """
            The old device key and the passphrases bound to it stop working. The file of the old key stays beside the new one, as
            UUID.key.old: older copies of the volume need it, and protectfs finds it for them. A device key of another copy of
            the volume is not replaced: the new key then gets a number, UUID.2.key.
            """,
        options: [
            Option("portable", help: "make a passphrase that works without the device key"),
            Option("recovery-file", value: .file, help: "read the recovery code from the first line of FILE"),
            Option(
                "device-key", value: .file, standard: Option.deviceKeyPlace,
                help: "write the new device key to FILE"),
            .label, .previousKeybag, .acceptKeybag, .json,
        ] + Option.newPassphrase,
        examples: [
            .init("protectfs recovery use ~/.documents", "Ask for the recovery code and a new passphrase.")
        ], run: KeybagCommands.useRecovery)
}

extension KeybagCommands {
    /// Makes a new recovery code.
    static func newRecovery(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let path = arguments.operands[0]
        try Output.requireOpen()
        let label = try label(arguments) ?? Command.slotAdd.name
        let opened = try open(arguments, path)
        let made = try edit(path) { () throws(KeybagError) in
            try opened.access.bag.renewingRecoveryCode(label: label, keys: opened.keys)
        }
        // The new code is shown before the old one becomes invalid, because a code that was never shown is lost.
        let isJSON = arguments.has("json")
        try Output.show(
            isJSON
                ? "{\"recoveryCode\":\"" : "New recovery code (write it down, it is not shown again):\n\n    ",
            secret: made.recoveryCode, isJSON ? "\"}\n" : "\n\n", kept: "the old one still works")
        let code = try replace(
            opened, by: made.bag, .slotAdd,
            "the recovery code that was shown is not valid; the old one still works")
        return Output.done(
            "the new recovery code is valid, and the old one no longer works",
            isJSON ? "" : "It is valid from now on; the old one no longer works.\n", code)
    }

    static func useRecovery(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let path = arguments.operands[0]
        if let place = arguments.path("device-key") {
            if place == Option.noDeviceKey {
                throw .init(
                    .usage,
                    "--device-key none: recovery use writes a new device key; give a file, or leave the option out")
            }
            try DeviceKeyFile.refuseInside(place, path)
        }
        let label = try label(arguments) ?? "recovery use"
        let opened = try open(arguments, path, isRecovery: true)
        let isBound = opened.access.bag.hasDeviceKey && !arguments.has("portable")
        if !opened.access.bag.hasDeviceKey, arguments.has("device-key") {
            throw .init(.usage, "\(path): the volume has no device key, so leave --device-key out; nothing was changed")
        }
        try opened.policy.checkPortable(!isBound)
        let passphrase = try CredentialInput.newPassphrase(arguments, isBound: isBound)
        let cost = try opened.policy.cost()
        if !opened.access.bag.hasDeviceKey {
            let next = try edit(path) { () throws(KeybagError) in
                try opened.access.bag.addingPortablePassphrase(
                    passphrase, cost: cost, label: label, keys: opened.keys)
            }
            let code = try replace(opened, by: next, .recoveryUse, "nothing was changed")
            return report(arguments, next, key: nil, code)
        }
        let key = try DeviceKeyFile.random()
        // If it is here it vouches for the new one.
        let before = (try? opened.access.found.deviceKey(.usual)) ?? FoundDeviceKey()
        let next = try edit(path) { () throws(KeybagError) in
            try opened.access.bag.recovering(
                passphrase: passphrase, portable: arguments.has("portable"), newDeviceKey: key,
                oldDeviceKey: before.key, cost: cost, label: label, keys: opened.keys)
        }
        let keyPath: HostPath
        if let given = arguments.path("device-key") {
            try DeviceKeyFile.requireKeyOrNothing(at: given)
            keyPath = given
        } else {
            keyPath = try opened.access.found.newDeviceKeyPath()
        }
        // The old key is kept under another name, because older copies of the volume need it.
        let old = try DeviceKeyFile.setAside(keyPath)
        let code: ExitCode
        do throws(CommandFailure) {
            try DeviceKeyFile.write(key, to: keyPath)
            code = try replace(opened, by: next, .recoveryUse, "nothing was changed")
        } catch {
            DeviceKeyFile.remove(keyPath)
            if let old { try? FileChange.rename(old, to: keyPath, replacing: false) }
            throw error
        }
        return report(arguments, next, key: keyPath, old: old, code)
    }

    private static func report(
        _ arguments: Arguments, _ bag: Keybag, key: HostPath?, old: HostPath? = nil, _ code: ExitCode
    ) -> ExitCode {
        let what = "the new passphrase is set" + (key.map { ", with the new device key \($0)" } ?? "")
        if arguments.has("json") {
            let fields: [(String, JSONValue)] = [
                ("deviceKey", .optional(path: key)), ("oldDeviceKey", .optional(path: old)),
            ]
            return Output.done(what, JSONValue.fields(fields).line + "\n", code)
        }
        var text =
            key == nil
            ? "The new passphrase is set. The volume has no device key, so the other passphrases still open it; protectfs slot list shows them.\n"
            : "The new passphrase is set; passphrases bound to the old device key no longer work.\n"
        if bag.slots.contains(where: { $0.kind == nil }) {
            text += "Slots of a newer version of protectfs are kept; protectfs slot list shows them.\n"
        }
        if let key { text += "New device key: \(key)\n" }
        if let old { text += "Old device key, which older copies of the volume need: \(old)\n" }
        return Output.done(
            what, text + "The recovery code is unchanged; protectfs slot add --recovery makes a new one.\n", code)
    }
}
