// `protectfs slot add`, `remove`, `list` and `test`: one family for everything that opens a volume.

import CommandSupport
import Control
import HostSystem
import Keybag
import VolumeAccess
import VolumeFormat

extension Option {
    /// Removes also what this version does not know.
    static let newerSlot = Option("newer", help: "remove the slot also if a newer version made it")
    /// What a command that removes says of newer slots.
    static let newerSlotDetails = """
        A slot that a newer version of protectfs made is removed only with --newer. This version does not know what opens
        it, and cannot make it again.
        """
}

extension Command {
    static let slotAdd = Command(
        "slot add", .keys, [.volume],
        "Adds a passphrase, or a recovery code, a recipient, this machine's TPM or a security key in its place.",
        details: """
            A volume has one recovery code at most, so the old one stops working when a new one is added.
            """,
        more: """
            A recipient opens the volume with a private key, on any machine and without the device key. Only its public key is
            needed to add it.

            A TPM opens the volume on this machine only, and only together with the device key if the volume has one. It
            does so without asking, or with a PIN (--pin), and only while the PCRs of --pcrs have the values of today. To
            open the volume for the command itself, give a passphrase, the recovery code or a recipient's key.

            A security key opens the volume on any machine, with its PIN and a touch. It is touched twice to add it. The slot
            is of no use without that very key, so keep another way to open the volume.
            """,
        options: [
            Option("portable", help: "make one that works without the device key"),
            Option("recovery", help: "make a recovery code, and show it once"),
            Option("recipient", value: .recipient, help: "add the owner of a public key: its text, or a file"),
            Option("tpm2", help: "add the TPM of this machine"),
            Option(
                "pcrs", value: Value(name: "NUMBERS", kind: .text), standard: TPM2Input.usualPCRs,
                help: "with --tpm2: the PCRs that must have the values of today, such as 7,14; none uses none"),
            Option("pin", help: "with --tpm2: the TPM wants a PIN each time"),
            Option("fido2", help: "add a security key (FIDO2)"),
            Option(
                "fido2-device", value: .securityKey, standard: "the one that is connected",
                help: "with --fido2, add the security key at DEVICE"),
            Option("no-pin", help: "with --fido2, want a touch only, and no PIN"),
            Option(
                "new-fido2-pin-file", value: .file, credential: .new,
                help:
                    "with --fido2, read the PIN of the key that is added from the first line of FILE; - is standard input"
            ),
            Option(
                "new-fido2-pin-command", value: .command, isPrivate: true, credential: .new,
                help:
                    "with --fido2, run CMD and read the PIN of the key that is added from the first line of its output"),
            .label, .json,
        ] + Option.keybag.filter { $0.name != Option.tpm2.name } + Option.newPassphrase,
        examples: [
            .init("protectfs slot add --label office ~/.documents", "Add a passphrase, named in lists."),
            .init("protectfs slot add --tpm2 --pin ~/.documents", "Let the machine's TPM open it, with a PIN."),
            .init("protectfs slot add --fido2 --label keyring ~/.documents", "Open it with a security key."),
        ], run: KeybagCommands.addSlot)

    static let slotRemove = Command(
        "slot remove", .keys, [.volume],
        "Removes a passphrase, the recovery code, a recipient, a TPM or a security key.",
        requires: "--slot=NUMBER",
        details: """
            The last passphrase stays, and so does the last slot that opens the volume without the device key. The device
            key's own slot is not removed.

            \(Option.newerSlotDetails)
            """,
        options: [Option("slot", value: .slot, help: "the number of the slot, as slot list shows it"), .newerSlot]
            + Option.keybag,
        examples: [.init("protectfs slot remove --slot 3 ~/.documents", "Remove slot 3.")],
        run: KeybagCommands.removeSlot)

    static let slotList = Command(
        "slot list", .keys, [.volume], "Lists what opens a volume.",
        details: """
            COST OF A GUESS is the work of the password hash for each try: how often it passes over how much memory.
            """, options: [.json],
        examples: [.init("protectfs slot list ~/.documents", "Show the slots with their numbers and names.")],
        run: KeybagCommands.list)

    static let slotTest = Command(
        "slot test", .keys, [.volume], "Says which slot a credential opens, without mounting.",
        details: "Nothing is changed. If no slot opens, the exit code is 3.",
        options: [.json] + Option.keybag,
        examples: [
            .init("protectfs slot test ~/.documents", "Ask for a passphrase, and name the slot that it opens."),
            .init(
                "protectfs slot test --recovery-file code ~/.documents",
                "Check that a written recovery code is still valid."),
        ], run: KeybagCommands.testSlot)
}

extension KeybagCommands {
    static func addSlot(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        for option in Self.newSecurityKey where arguments.has(option) && !arguments.has("fido2") {
            throw .init(.usage, "use --\(option) together with --fido2")
        }
        for option in ["pcrs", "pin"] where arguments.has(option) && !arguments.has("tpm2") {
            throw .init(.usage, "--\(option) has no meaning without --tpm2")
        }
        guard let kind = ["recovery", "recipient", "tpm2", "fido2"].first(where: arguments.has) else {
            return try addPassphrase(arguments)
        }
        let others = ["recovery", "recipient", "tpm2", "fido2", "portable"] + Option.newPassphrase.map(\.name)
        if let other = others.first(where: { $0 != kind && arguments.has($0) }) {
            throw .init(.usage, "--\(kind) and --\(other) cannot be used together")
        }
        if let recipient = arguments.path("recipient") { return try addRecipient(arguments, recipient) }
        if kind == "tpm2" { return try addTPM2(arguments) }
        if arguments.has("fido2") { return try addSecurityKey(arguments) }
        return try newRecovery(arguments)
    }

    private static func addTPM2(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let path = arguments.operands[0]
        let label = try label(arguments) ?? Command.slotAdd.name
        // Here --tpm2 and what comes with it are about the new slot.
        let opening = arguments.without(([.tpm2] + Option.tpm2Details).map(\.name))
        let opened = try open(opening, path)
        if opened.access.bag.hasDeviceKey,
            let failure = opened.deviceKey.missing("and the slot of a TPM works only together with it")
        {
            throw failure
        }
        let made = try TPM2Input.make(arguments)
        // A wrong PIN is tried once, so the PIN of a second slot would never be.
        if made.slot.hasPIN,
            let old = opened.access.bag.slots.first(where: {
                $0.tpm2?.hasPIN == true && $0.tpm2?.parentName == made.slot.parentName
            })
        {
            throw .init(
                .usage,
                "slot \(old.id) of the volume is for this TPM with a PIN already; remove it first (slot remove --slot \(old.id)); nothing was changed"
            )
        }
        let next = try edit(path) { () throws(KeybagError) in
            try opened.access.bag.addingTPM2(
                made.slot, material: made.material, deviceKey: opened.deviceKey.key, label: label, keys: opened.keys)
        }
        let code = try replace(opened, by: next, .slotAdd, "the TPM is not added")
        if let warning = made.warning { Output.note("protectfs: warning: \(warning)") }
        return Output.done(
            "the TPM is added",
            arguments.has("json")
                ? describeAdded(to: opened.access.bag, in: next)
                : "Added the TPM of this machine; --tpm2 opens the volume with it\(made.slot.hasPIN ? " and the PIN" : "").\n",
            code)
    }

    /// The options that say something of a security key that is added.
    private static let newSecurityKey = ["fido2-device", "no-pin", "new-fido2-pin-file", "new-fido2-pin-command"]

    private static func addSecurityKey(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let path = arguments.operands[0]
        let label = try label(arguments) ?? Command.slotAdd.name
        // A key that cannot be used is told before any prompt.
        let device = try SecurityKeyInput.newDevice(arguments)
        let opened = try open(arguments, path)
        let made = try SecurityKeyInput.make(device, arguments)
        let next = try edit(path) { () throws(KeybagError) in
            try opened.access.bag.addingSecurityKey(made.key, secret: made.secret, label: label, keys: opened.keys)
        }
        let code = try replace(opened, by: next, .slotAdd, "the security key is not added")
        return Output.done(
            "the security key is added",
            arguments.has("json")
                ? describeAdded(to: opened.access.bag, in: next)
                : "Added the security key; it opens the volume\(made.key.usesPIN ? " with its PIN and a touch" : " with a touch").\n",
            code)
    }

    private static func addRecipient(
        _ arguments: Arguments, _ recipient: HostPath
    ) throws(CommandFailure) -> ExitCode {
        let path = arguments.operands[0]
        let label = try label(arguments) ?? Command.slotAdd.name
        // A wrong key is told before any prompt.
        let publicKey = try RecipientKeyFile.publicKey(recipient)
        let opened = try open(arguments, path)
        let next = try edit(path) { () throws(KeybagError) in
            try opened.access.bag.addingRecipient(publicKey, label: label, keys: opened.keys)
        }
        let code = try replace(opened, by: next, .slotAdd, "the recipient is not added")
        return Output.done(
            "the recipient is added",
            arguments.has("json")
                ? describeAdded(to: opened.access.bag, in: next)
                : "Added \(RecipientKey.text(ofPublicKey: publicKey)); its private key opens the volume.\n", code)
    }

    static func removeSlot(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let path = arguments.operands[0]
        guard let number = try slotNumber(arguments) else { throw missingSlot }
        let opened = try open(arguments, path)
        let next = try edit(path) { () throws(KeybagError) in
            try opened.access.bag.removingSlot(number, newer: arguments.has("newer"), keys: opened.keys)
        }
        let code = try replace(opened, by: next, .slotRemove, "the slot is not removed")
        return Output.done(
            "the slot is removed",
            "Removed slot \(number). Older copies of the volume still open with it.\n", code)
    }

    static func testSlot(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let path = arguments.operands[0]
        let access = try CheckedVolume(path, .init(arguments))
        let deviceKey = try access.found.deviceKey(try .init(arguments))
        let number = try CredentialInput.retrying(arguments) { () throws(CommandFailure) in
            let credential = try CredentialInput.credential(arguments, prompt: "Passphrase of \(path): ", access.bag)
            return try access.unlock(credential, deviceKey).slot
        }
        guard let slot = access.bag.slots.first(where: { $0.id == number }) else {
            preconditionFailure("keys of this keybag are from one of its slots")
        }
        if arguments.has("json") {
            Output.line(describe(slot).line)
        } else {
            Output.print(
                "It opens slot \(slot.id), \(kindName(slot))\(slot.label.name.map { " \"\($0)\"" } ?? "").\n")
        }
        return .success
    }

    /// The slot that `next` has and `old` has not, as a line for programs.
    static func describeAdded(to old: Keybag, in next: Keybag) -> String {
        let known = Set(old.slots.map(\.id))
        return next.slots.first { !known.contains($0.id) }.map { describe($0).line + "\n" } ?? ""
    }
}
