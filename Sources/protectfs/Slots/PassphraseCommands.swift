// `protectfs passphrase change`, and what `slot add` and `slot list` do for passphrases.

import CLibrary
import CommandSupport
import Control
import HostSystem
import Keybag
import SodiumKit
import VolumeAccess
import VolumeFormat

extension Command {
    static let passphraseChange = Command(
        "passphrase change", .keys, [.volume], "Changes a passphrase; no file is re-encrypted.",
        details: "It changes the passphrase that you unlock with, or with --slot another one.",
        options: [
            Option(
                "slot", value: .slot,
                help: "the number of the passphrase; needed with the recovery code if there are several"),
            Option(
                "label", value: .label,
                help: "change the name in lists, which anyone with a copy of the volume can read"),
        ] + Option.keybag + Option.newPassphrase,
        examples: [.init("protectfs passphrase change ~/.documents", "Ask for the old and the new passphrase.")],
        run: KeybagCommands.change)

    /// A former name of `slot add`, where --tpm2 opens the volume: to `slot add` it is the new slot.
    static let passphraseAdd = Command(
        "passphrase add", .keys, [.volume], "Adds another passphrase.",
        options: [Option("portable", help: "make one that works without the device key"), .label] + Option.keybag
            + Option.newPassphrase,
        examples: [.init("protectfs passphrase add ~/.documents", "Add a passphrase.")],
        run: KeybagCommands.addPassphrase)
}

extension KeybagCommands {
    static func change(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let path = arguments.operands[0]
        var slot = try slotNumber(arguments)
        let label = try label(arguments)
        let opened = try open(arguments, path, prompt: "Current passphrase of \(path): ") {
            (credential: borrowing Credential, access: CheckedVolume, deviceKey: borrowing FoundDeviceKey)
                throws(CommandFailure) in
            switch credential {
            case .passphrase(let passphrase):
                if slot == nil { slot = try slotNumber(openedBy: passphrase, deviceKey.key, access) }
            default:
                let slots = access.bag.slots.filter { $0.kind == .passphrase }
                if slot == nil, slots.count == 1 { slot = slots[0].id }
            }
        }
        guard let slot else {
            throw .init(
                .usage,
                "several passphrases; choose one with --slot NUMBER (protectfs slot list shows the numbers)")
        }
        let isBound = opened.access.bag.slots.first { $0.id == slot }?.isBound ?? false
        let passphrase = try CredentialInput.newPassphrase(arguments, isBound: isBound)
        let cost = try opened.policy.cost()
        let next = try edit(path) { () throws(KeybagError) in
            switch opened.deviceKey.key {
            case .some(let key):
                try opened.access.bag.changingPassphrase(
                    ofSlot: slot, to: passphrase, deviceKey: key, cost: cost, label: label, keys: opened.keys)
            case .none:
                try opened.access.bag.changingPassphrase(
                    ofSlot: slot, to: passphrase, cost: cost, label: label, keys: opened.keys)
            }
        }
        let code = try replace(opened, by: next, .passphraseChange, "the passphrase is not changed")
        return Output.done(
            "the passphrase is changed",
            "The passphrase is changed. Older copies of the volume still open with the old one.\n", code)
    }

    /// The name of new slots, as given. An empty one means none.
    static func label(_ arguments: Arguments) throws(CommandFailure) -> String? {
        guard let label = try arguments.text("label") else { return nil }
        guard label.isEmpty || SlotLabel.text(Array(label.utf8)) != nil else {
            throw ErrorMessages.keybag(.unusableLabel, arguments.operands[0])
        }
        return label
    }

    /// The number that `--slot` gives.
    static func slotNumber(_ arguments: Arguments) throws(CommandFailure) -> UInt32? {
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
            throw ErrorMessages.keybag(error, access.path)
        }
    }

    /// Adds a passphrase.
    static func addPassphrase(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let path = arguments.operands[0]
        let label = try label(arguments) ?? Command.slotAdd.name
        let opened = try open(arguments, path)
        let isPortable = arguments.has("portable") || !opened.access.bag.hasDeviceKey
        try opened.policy.checkPortable(isPortable)
        if !isPortable, let failure = opened.deviceKey.missing("and only a --portable passphrase works without it") {
            throw failure
        }
        let passphrase = try CredentialInput.newPassphrase(arguments, isBound: !isPortable)
        let cost = try opened.policy.cost()
        let next = try edit(path) { () throws(KeybagError) in
            switch opened.deviceKey.key {
            case .some(let key) where !isPortable:
                return try opened.access.bag.addingPassphrase(
                    passphrase, boundTo: key, cost: cost, label: label, keys: opened.keys)
            default:
                return try opened.access.bag.addingPortablePassphrase(
                    passphrase, cost: cost, label: label, keys: opened.keys)
            }
        }
        let code = try replace(opened, by: next, .slotAdd, "the passphrase is not added")
        let count = next.slots.count { $0.kind == .passphrase }
        return Output.done(
            "the passphrase is added",
            arguments.has("json")
                ? describeAdded(to: opened.access.bag, in: next)
                : "Added a\(isPortable ? " portable" : "") passphrase; the volume now has \(count).\n", code)
    }

    /// A command that removes needs a number.
    static var missingSlot: CommandFailure {
        .init(.usage, "--slot is missing; protectfs slot list shows the numbers")
    }

    static func list(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let access = try FoundVolume(arguments.operands[0])
        access.warnIfRefused()
        if arguments.has("json") {
            Output.line(JSONValue.array(access.bag.slots.map(describe)).line)
            return .success
        }
        var table = Table("SLOT", "KIND", "LABEL", "MADE", "DEVICE KEY", "COST OF A GUESS")
        let (slots, more) = shown(access.bag)
        for slot in slots {
            table.add(
                "\(slot.id)", kindName(slot), slot.label.name ?? "–", made(slot) ?? "–", slot.isBound ? "needed" : "–",
                cost(slot) ?? "–")
        }
        Output.print(table.text + (more.map { $0 + "\n" } ?? ""))
        if let cheap = CheapHashes(access.bag) {
            Output.note("protectfs: note: \(cheap.problem); \(cheap.advice(access.path))")
        }
        return .success
    }

    /// The slots that a person sees, and a text for the others. Slots of newer versions may have no key, so a keybag can have
    /// 65,535 of them.
    static func shown(_ bag: Keybag) -> (slots: [Keybag.SlotSummary], more: String?) {
        let most = 32
        var newer = 0
        let slots = bag.slots.filter { slot in
            if slot.kind == nil { newer += 1 }
            return slot.kind != nil || newer <= most
        }
        return (slots, newer > most ? "and \(newer - most) more that newer versions made (--json shows all)" : nil)
    }

    /// A slot for programs.
    static func describe(_ slot: Keybag.SlotSummary) -> JSONValue {
        .fields([
            ("slot", .integer(Int64(slot.id))), ("kind", .string(slot.kind.map(kindName) ?? "newer")),
            ("kindNumber", .integer(Int64(slot.kindNumber))), ("label", .optional(slot.label.name)),
            ("made", slot.label.seconds.map { .integer(Int64(clamping: $0)) } ?? .null),
            ("boundToDeviceKey", .bool(slot.isBound)),
            ("passes", slot.cost.map { .integer(Int64($0.passes)) } ?? .null),
            ("memory", slot.cost.map { .integer(Int64(clamping: $0.memory)) } ?? .null),
            ("recipient", .optional(slot.recipient)),
            ("tpm2", slot.tpm2.map(describe) ?? .null),
            ("usesPIN", slot.securityKey.map { .bool($0.usesPIN) } ?? .null),
        ])
    }

    private static func describe(_ tpm2: SlotTPM2) -> JSONValue {
        .fields([
            ("pin", .bool(tpm2.hasPIN)), ("pcrs", .array(tpm2.pcrNumbers.map { .integer(Int64($0)) })),
            ("storageKey", .string(Hexadecimal.text(tpm2.parentName))),
        ])
    }

    /// The kind of a slot in words.
    static func kindName(_ slot: Keybag.SlotSummary) -> String {
        slot.kind.map(kindName) ?? "made by a newer version (kind \(slot.kindNumber))"
    }

    /// The date when a slot was made. Nil if the slot does not name a date that can be shown.
    static func made(_ slot: Keybag.SlotSummary) -> String? {
        // The year 9999 is the last one of four digits.
        guard let seconds = slot.label.seconds, seconds < 253_370_764_800 else { return nil }
        return WallClock.local(Int64(seconds))
    }

    /// The cost of a slot's password hash. Nil if it has none.
    static func cost(_ slot: Keybag.SlotSummary) -> String? {
        slot.cost.map { "Argon2id, \($0.passes) passes, \($0.memory >> 20) MiB" }
    }

    private static func kindName(_ kind: SlotLayout.Kind) -> String {
        switch kind {
        case .device: "device key"
        case .passphrase: "passphrase"
        case .recovery: "recovery code"
        case .recipient: "recipient"
        case .tpm2: "TPM"
        case .securityKey: "security key"
        }
    }
}
