// `protectfs recipient new` and `show`: the key pairs to which slots are encrypted.

import CommandSupport
import Control
import HostSystem
import Keybag
import VolumeAccess

extension Operand {
    /// A file with a recipient's key.
    static let recipientFile = Operand("FILE", .path)
}

extension Command {
    static let recipientNew = Command(
        "recipient new", .keys, [.recipientFile],
        "Makes a key pair, writes the private key to FILE, and shows the public key.",
        details: """
            FILE opens every volume to which its public key was added (slot add --recipient). Keep it where the
            volumes are not: with a second device, or offline. An existing file is not overwritten.
            """,
        options: [.json],
        examples: [.init("protectfs recipient new escrow.key", "Make a key pair, and show its public key.")],
        run: RecipientCommands.new)

    static let recipientShow = Command(
        "recipient show", .keys, [.recipientFile], "Shows the public key of a file that recipient new has made.",
        options: [.json],
        examples: [.init("protectfs recipient show escrow.key", "Show the public key, to hand it over.")],
        run: RecipientCommands.show)
}

/// The work of `recipient`.
enum RecipientCommands {
    static func new(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let path = arguments.operands[0]
        let text = try RecipientKeyFile.make(path)
        return Output.done("\(path) has a new private key", shown(text, arguments))
    }

    static func show(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let key = try RecipientKeyFile.publicKey(ofFile: arguments.operands[0], option: nil)
        Output.print(shown(RecipientKey.text(ofPublicKey: key), arguments))
        return .success
    }

    private static func shown(_ text: String, _ arguments: Arguments) -> String {
        (arguments.has("json") ? JSONValue.fields([("publicKey", .string(text))]).line : text) + "\n"
    }
}
