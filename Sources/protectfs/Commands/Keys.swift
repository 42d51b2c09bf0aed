// `protectfs passphrase …` and `protectfs recovery …`: changes of the keybag, one slot at a time.

import Control
import Glibc
import HostSystem
import Keybag
import SodiumKit
import VolumeFormat

private let keyOptions: [Option] = Option.credentials + [.deviceKey, .previousKeybag, .acceptKeybag]

extension Command {
    static let passphraseChange = Command(
        "passphrase change", "VOLUME", "Changes the passphrase that you give; no file is touched.",
        options: [Option("slot", value: "NUMBER", help: "which one, when unlocked by the recovery code")] + keyOptions
            + Option.newPassphrase, run: Keys.change)

    static let passphraseAdd = Command(
        "passphrase add", "VOLUME", "Adds another passphrase.",
        options: [Option("portable", help: "one that works without the device key")] + keyOptions
            + Option.newPassphrase,
        run: Keys.add)

    static let passphraseRemove = Command(
        "passphrase remove", "VOLUME", "Removes a passphrase by its slot number; the last one stays.",
        options: [Option("slot", value: "NUMBER", help: "which one, as passphrase list shows it")] + keyOptions,
        run: Keys.remove)

    static let passphraseList = Command(
        "passphrase list", "VOLUME", "Lists what opens the volume.", options: [.json], run: Keys.list)

    static let recoveryNew = Command(
        "recovery new", "VOLUME", "Makes a new recovery code; the old one no longer works.",
        options: [.json] + keyOptions, run: Keys.newRecovery)

    static let recoveryUse = Command(
        "recovery use", "VOLUME", "Takes the recovery code and sets a new passphrase and a new device key.",
        details: """
            The old device key and the passphrases bound to it no longer work. The old key's file stays beside the new one, as
            UUID.key.old: copies of the volume made before need it, and are opened with it without being told. A device key that
            belongs to another copy of the volume is not replaced: the new one gets a number, UUID.2.key.
            """,
        options: [
            Option("portable", help: "make a passphrase that works without the device key"),
            .recoveryFile, Option("device-key", value: "FILE", help: "where to write the new device key"),
            .previousKeybag, .acceptKeybag, .json,
        ] + Option.newPassphrase, run: Keys.useRecovery)
}

/// The work of the commands on slots.
enum Keys {
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
                try SecretInput.secret(prompt: "Recovery code of \(path): ", option: "recovery-file"))
        } else {
            offered = try SecretInput.credential(arguments, prompt: prompt ?? "Passphrase of \(path): ")
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
        do throws(KeybagError) { return try change() } catch { throw Explain.keybag(error, path) }
    }

    /// Replaces the keybag. Where that fails, the keybag is as it was, and the message says what that means.
    private static func replace(
        _ opened: Opened, by next: Keybag, _ undone: String
    ) throws(CommandFailure) -> ExitCode {
        do throws(CommandFailure) { return try opened.access.replaceKeybag(by: next) } catch {
            throw .init(error.code, "\(error.message); \(undone)")
        }
    }

    static func change(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let path = try arguments.operands("VOLUME")[0]
        var slot = try slotNumber(arguments)
        let opened = try open(arguments, path, prompt: "Current passphrase of \(path): ") {
            (credential: borrowing Credential, access: CheckedVolume, deviceKey: borrowing FoundDeviceKey)
                throws(CommandFailure) in
            switch credential {
            case .passphrase(let passphrase):
                if slot == nil { slot = try slotNumber(openedBy: passphrase, deviceKey.key, access) }
            case .recoveryCode:
                let slots = access.bag.slots.filter { $0.kind == .passphrase }
                if slot == nil, slots.count == 1 { slot = slots[0].id }
            }
        }
        guard let slot else {
            throw .init(.usage, "--slot NUMBER says which passphrase to change (see protectfs passphrase list)")
        }
        let isBound = opened.access.bag.slots.first { $0.id == slot }?.isBound ?? false
        let passphrase = try SecretInput.newPassphrase(arguments, isBound: isBound)
        let cost = try calibratedCost()
        let next = try edit(path) { () throws(KeybagError) in
            switch opened.deviceKey.key {
            case .some(let key):
                try opened.access.bag.changingPassphrase(
                    ofSlot: slot, to: passphrase, deviceKey: key, cost: cost, keys: opened.keys)
            case .none:
                try opened.access.bag.changingPassphrase(ofSlot: slot, to: passphrase, cost: cost, keys: opened.keys)
            }
        }
        let code = try replace(opened, by: next, "the passphrase is not changed")
        return Output.done(
            "the passphrase is changed",
            "The passphrase is changed. Copies of the volume made before still open with the old one.\n", code)
    }

    private static func slotNumber(_ arguments: Arguments) throws(CommandFailure) -> UInt32? {
        guard let text = try arguments.text("slot") else { return nil }
        guard let number = UInt32(text) else { throw .init(.usage, "--slot: \"\(HostPath(text))\" is not a number") }
        return number
    }

    private static func slotNumber(
        openedBy passphrase: borrowing SecretBytes, _ deviceKey: borrowing SecretKey?, _ access: CheckedVolume
    ) throws(CommandFailure) -> UInt32 {
        do throws(KeybagError) {
            switch deviceKey {
            case .some(let key): return try access.bag.slot(openedBy: passphrase, deviceKey: key)
            case .none: return try access.bag.slot(openedBy: passphrase)
            }
        } catch {
            throw Explain.keybag(error, access.path)
        }
    }

    static func add(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let path = try arguments.operands("VOLUME")[0]
        let opened = try open(arguments, path)
        let isPortable = arguments.has("portable") || !opened.access.bag.hasDeviceKey
        if !isPortable, let failure = opened.deviceKey.missing("which only a --portable passphrase does without") {
            throw failure
        }
        let passphrase = try SecretInput.newPassphrase(arguments, isBound: !isPortable)
        let cost = try calibratedCost()
        let next = try edit(path) { () throws(KeybagError) in
            switch opened.deviceKey.key {
            case .some(let key) where !isPortable:
                return try opened.access.bag.addingPassphrase(passphrase, boundTo: key, cost: cost, keys: opened.keys)
            default:
                return try opened.access.bag.addingPortablePassphrase(passphrase, cost: cost, keys: opened.keys)
            }
        }
        let code = try replace(opened, by: next, "the passphrase is not added")
        let count = next.slots.count { $0.kind == .passphrase }
        return Output.done(
            "the passphrase is added", "Added a\(isPortable ? " portable" : "") passphrase; there are \(count) now.\n",
            code)
    }

    static func remove(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let path = try arguments.operands("VOLUME")[0]
        guard let slot = try slotNumber(arguments) else {
            throw .init(.usage, "--slot NUMBER says which passphrase (see protectfs passphrase list)")
        }
        let opened = try open(arguments, path)
        let next = try edit(path) { () throws(KeybagError) in
            try opened.access.bag.removingPassphrase(ofSlot: slot, keys: opened.keys)
        }
        let code = try replace(opened, by: next, "the passphrase is not removed")
        return Output.done(
            "the passphrase is removed",
            "Removed the passphrase in slot \(slot). Copies of the volume made before still open with it.\n", code)
    }

    static func list(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let access = try VolumeAccess(try arguments.operands("VOLUME")[0])
        access.warnIfRefused()
        if arguments.has("json") {
            Output.line(JSONValue.array(access.bag.slots.map(describe)).line)
            return .success
        }
        var table = Table("SLOT", "KIND", "DEVICE KEY", "PASSWORD HASH")
        for slot in access.bag.slots {
            let cost = slot.cost.map { "Argon2id, \($0.passes) passes, \($0.memory >> 20) MiB" } ?? "–"
            table.add("\(slot.id)", kindName(slot.kind), slot.isBound ? "needed" : "–", cost)
        }
        Output.print(table.text)
        return .success
    }

    /// A slot for programs.
    static func describe(_ slot: Keybag.SlotSummary) -> JSONValue {
        .fields([
            ("slot", .integer(Int64(slot.id))), ("kind", .string(kindName(slot.kind))),
            ("boundToDeviceKey", .bool(slot.isBound)),
            ("passes", slot.cost.map { .integer(Int64($0.passes)) } ?? .null),
            ("memory", slot.cost.map { .integer(Int64(clamping: $0.memory)) } ?? .null),
        ])
    }

    /// What a kind of slot is called.
    static func kindName(_ kind: SlotLayout.Kind) -> String {
        switch kind {
        case .device: "device key"
        case .passphrase: "passphrase"
        case .recovery: "recovery code"
        case .tpm2: "TPM2"
        case .fido2: "FIDO2"
        }
    }

    static func newRecovery(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let path = try arguments.operands("VOLUME")[0]
        try Output.requireOpen()
        let opened = try open(arguments, path)
        let made = try edit(path) { () throws(KeybagError) in
            try opened.access.bag.renewingRecoveryCode(keys: opened.keys)
        }
        // Written before the old one dies: one that nobody has seen is lost.
        let isJSON = arguments.has("json")
        try Output.show(
            isJSON
                ? "{\"recoveryCode\":\"" : "New recovery code (write it down, it is not shown again):\n\n    ",
            secret: made.recoveryCode, isJSON ? "\"}\n" : "\n\n", kept: "the old one still works")
        let code = try replace(
            opened, by: made.bag,
            "the recovery code that was shown is not valid; the old one still works")
        return Output.done(
            "the new recovery code is valid, and the old one no longer works",
            isJSON ? "" : "It is valid from now on; the old one no longer works.\n", code)
    }

    static func useRecovery(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let path = try arguments.operands("VOLUME")[0]
        if let place = arguments.path("device-key") {
            if place == HostPath("none") {
                throw .init(.usage, "--device-key none: say where to write the new device key, or leave it out")
            }
            try DeviceKeyFile.refuseInside(place, path)
        }
        let opened = try open(arguments, path, isRecovery: true)
        let isBound = opened.access.bag.hasDeviceKey && !arguments.has("portable")
        let passphrase = try SecretInput.newPassphrase(arguments, isBound: isBound)
        let cost = try calibratedCost()
        if !opened.access.bag.hasDeviceKey {
            let next = try edit(path) { () throws(KeybagError) in
                try opened.access.bag.addingPortablePassphrase(passphrase, cost: cost, keys: opened.keys)
            }
            let code = try replace(opened, by: next, "nothing was changed")
            return report(arguments, key: nil, code)
        }
        let key = try DeviceKeyFile.random()
        let next = try edit(path) { () throws(KeybagError) in
            try opened.access.bag.recovering(
                passphrase: passphrase, portable: arguments.has("portable"), newDeviceKey: key, cost: cost,
                keys: opened.keys)
        }
        let keyPath: HostPath
        if let given = arguments.path("device-key") {
            keyPath = given
        } else {
            keyPath = try opened.access.found.newDeviceKeyPath()
        }
        // The old key stays under another name: copies of the volume that were made before need it.
        let old = try DeviceKeyFile.setAside(keyPath)
        let code: ExitCode
        do throws(CommandFailure) {
            try DeviceKeyFile.write(key, to: keyPath)
            code = try replace(opened, by: next, "nothing was changed")
        } catch {
            DeviceKeyFile.remove(keyPath)
            if let old { try? FileChange.rename(old, to: keyPath, replacing: false) }
            throw error
        }
        return report(arguments, key: keyPath, old: old, code)
    }

    private static func report(
        _ arguments: Arguments, key: HostPath?, old: HostPath? = nil, _ code: ExitCode
    ) -> ExitCode {
        let what = "the new passphrase is set" + (key.map { ", with the new device key \($0)" } ?? "")
        if arguments.has("json") {
            let fields: [(String, JSONValue)] = [
                ("deviceKey", .optional(key?.description)), ("oldDeviceKey", .optional(old?.description)),
            ]
            return Output.done(what, JSONValue.fields(fields).line + "\n", code)
        }
        var text = "The new passphrase is set; passphrases bound to the old device key no longer work.\n"
        if let key { text += "New device key: \(key)\n" }
        if let old { text += "The one before, which copies of the volume made before need: \(old)\n" }
        return Output.done(
            what, text + "The recovery code is still the same; protectfs recovery new makes another.\n", code)
    }
}
