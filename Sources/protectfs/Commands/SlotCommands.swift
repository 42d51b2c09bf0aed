// `protectfs slot add`, `remove`, `list` and `test`: one family for everything that opens a volume.

import Control
import HostSystem
import Keybag
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
        "Adds a passphrase, a recovery code (--recovery) or a recipient (--recipient).",
        details: """
            A volume has one recovery code at most, so the old one stops working when a new one is added.

            A recipient opens the volume with a private key, on any machine and without the device key. Only its public key is
            needed to add it.
            """,
        options: [
            Option("portable", help: "make a passphrase that works without the device key"),
            Option("recovery", help: "make a recovery code in place of a passphrase, and show it once"),
            Option(
                "recipient", value: .recipient,
                help: "add the owner of a public key, given as text or as a file with it, in place of a passphrase"),
            .label, .json,
        ] + Option.keybag + Option.newPassphrase,
        examples: [
            .init("protectfs slot add --label office ~/.documents", "Add a passphrase, named in lists."),
            .init("protectfs slot add --recipient escrow.pub ~/.documents", "Let the owner of a key open it."),
        ], run: KeybagCommands.addSlot)

    static let slotRemove = Command(
        "slot remove", .keys, [.volume], "Removes a passphrase, the recovery code or a recipient.",
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
        "slot list", .keys, [.volume], "Lists what opens a volume.", options: [.json],
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
        let label = Command.slotAdd.name
        guard let kind = ["recovery", "recipient"].first(where: arguments.has) else {
            return try addPassphrase(arguments, .slotAdd, label: label)
        }
        let others = ["recovery", "recipient", "portable"] + Option.newPassphrase.map(\.name)
        if let other = others.first(where: { $0 != kind && arguments.has($0) }) {
            throw .init(.usage, "--\(kind) and --\(other) cannot be used together")
        }
        if let recipient = arguments.path("recipient") { return try addRecipient(arguments, recipient) }
        return try newRecovery(arguments, .slotAdd, label: label)
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
            let credential = try CredentialInput.credential(arguments, prompt: "Passphrase of \(path): ")
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
