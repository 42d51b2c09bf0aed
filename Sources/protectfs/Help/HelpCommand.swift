// `protectfs help`: explains commands, and prints the table of them for scripts.

import CommandSupport
import Control
import FuseFrontend
import HostSystem
import VolumeFormat

extension Command {
    static let help = Command(
        "help", .other, [Operand("COMMAND", .commandName, .any)],
        "Explains a command, or credentials, or mount-options.",
        details: """
            With --json it prints the table of all commands, options and mount options, from which the manual page and the
            completions of shells are made.
            """,
        options: [.json],
        examples: [
            .init("protectfs help mount", "Explain one command."),
            .init("protectfs help class set", "Explain a subcommand."),
            .init("protectfs help credentials", "Explain the options that give a passphrase or another credential."),
        ], usesKeys: false,
        run: { (arguments) throws(CommandFailure) in
            let text = try HelpLookup.text(arguments.operands.map(\.description))
            Output.print(arguments.has("json") ? CommandTable.json.line + "\n" : text)
            return .success
        })
}

/// Finds help by the words that name a command.
enum HelpLookup {
    /// The help of the command that `words` name, or of the program if there are none.
    static func text(_ words: [String]) throws(CommandFailure) -> String {
        guard let first = words.first else { return Help.overview }
        if words.count == 1, let page = Help.Page(rawValue: first) { return page.text }
        if let (command, length) = Command.find(words), length == words.count { return Help.text(command) }
        let group = Command.subcommands(of: first)
        if words.count == 1, !group.isEmpty { return Help.text(first, group) }
        if let (command, _) = Command.find(words) {
            throw .init(.usage, "help takes one command; see protectfs help \(command.name)")
        }
        throw unknown(words)
    }

    /// Names that other programs have for a command.
    private static let otherNames = [
        "-V": "--version", "-v": "--version", "passwd": "passphrase change", "password": "passphrase change",
        "open": "mount or unlock", "close": "unmount or lock", "edit": "mount: files are edited in the mount point",
        "create": "init", "new": "init", "format": "init", "list": "status", "ls": "status", "delete": "erase",
        "destroy": "erase", "verify": "fsck", "check": "fsck", "repair": "fsck --repair", "scrub": "fsck",
        "export": "keybag export", "backup": "keybag export: files are copied as they are in the volume",
        "restore": "keybag import: files are copied back into the volume", "-r": "mount -r",
    ]

    /// The failure for words that are not a command.
    static func unknown(_ words: [String]) -> CommandFailure {
        guard let first = words.first else { return .init(.usage, "a command is missing; see protectfs --help") }
        let group = Command.subcommands(of: first)
        guard !group.isEmpty else {
            let suggestion =
                Self.otherNames[first].map { " (did you mean \($0)?)" }
                ?? NearMiss.suggestion(for: first, among: Command.all.map { $0.firstWord })
            return .init(.usage, "unknown command \"\(first)\"\(suggestion); see protectfs --help")
        }
        let names = group.map(\.lastWord).joined(last: "or")
        guard words.count > 1, !words[1].hasPrefix("-") else {
            return .init(.usage, "\"\(first)\" needs a subcommand: \(names)")
        }
        return .init(.usage, "unknown subcommand \"\(words[1])\" of \"\(first)\"; use \(names)")
    }
}

/// The table of commands for scripts.
private enum CommandTable {
    static var json: JSONValue {
        .fields([
            ("version", .string(ProgramVersion.number)), ("groups", .array(Command.Group.allCases.map(json))),
            (
                "pages",
                .array(
                    Help.Page.allCases.map {
                        .fields([("name", .string($0.rawValue)), ("summary", .string($0.summary))])
                    })
            ),
            ("credentials", credentials), ("mountOptions", .array(MountOption.all.map(json))),
            (
                "exitCodes",
                .array(
                    ExitCode.table.map {
                        .fields([("code", .integer(Int64($0.0.number))), ("meaning", .string($0.1))])
                    })
            ),
            ("checkExitCodes", .string(ExitCode.checkNote)),
        ])
    }

    private static var credentials: JSONValue {
        .fields([
            ("introduction", .array(CredentialPart.introduction.map { .string($0) })),
            (
                "parts",
                .array(
                    CredentialPart.allCases.map { part in
                        .fields([
                            ("title", .string(part.rawValue)), ("options", .array(part.options.compactMap(json))),
                            ("commands", .array(part.commands.map { .string($0.name) })),
                        ])
                    })
            ),
        ])
    }

    private static func json(_ group: Command.Group) -> JSONValue {
        .fields([
            ("name", .string(group.rawValue)),
            ("commands", .array(Command.all.filter { $0.group == group }.map(json))),
        ])
    }

    private static func json(_ command: Command) -> JSONValue {
        .fields([
            ("name", .string(command.name)), ("usage", .string(command.usage)), ("summary", .string(command.summary)),
            ("details", .array(Command.paragraphs(command.details).map { .string($0) })),
            ("more", .array(Command.paragraphs(command.more).map { .string($0) })),
            ("manualPage", .string(command.manualPage ?? "protectfs")),
            (
                "operands",
                .array(
                    command.operands.map {
                        .fields(
                            json($0.value) + [("optional", .bool($0.isOptional)), ("repeated", .bool($0.repeats))])
                    })
            ),
            ("options", .array((command.options + [.help]).compactMap(json))),
            (
                "examples",
                .array(
                    command.examples.map {
                        .fields([("line", .string($0.line)), ("meaning", .string($0.meaning))])
                    })
            ),
        ])
    }

    private static func json(_ option: Option) -> JSONValue? {
        guard let help = option.help else { return nil }
        let mountWord: JSONValue =
            switch option.mountWord {
            case nil: .null
            case .plain: .string("plain")
            case .unlocking: .string("unlocking")
            }
        return .fields([
            ("name", .string(option.name)), ("letter", .optional(option.letter.map { "\($0)" })),
            ("value", option.value.map { .fields(json($0)) } ?? .null), ("help", .string(help)),
            ("default", .optional(option.standard)), ("repeated", .bool(option.repeats)), ("mountWord", mountWord),
            ("isCredential", .bool(option.credential != nil)),
        ])
    }

    private static func json(_ value: Value) -> [(String, JSONValue)] {
        var words: [String] = []
        let kind: String
        switch value.kind {
        case .text: kind = "text"
        case .path: kind = "path"
        case .directory: kind = "directory"
        case .mountPoint: kind = "mountPoint"
        case .command: kind = "command"
        case .mountOptions: kind = "mountOptions"
        case .commandName: kind = "commandName"
        case .words(let known): (kind, words) = ("words", known)
        }
        return [("name", .string(value.name)), ("kind", .string(kind)), ("words", .array(words.map { .string($0) }))]
    }

    private static func json(_ option: MountOption) -> JSONValue {
        .fields([
            ("name", .string(option.name)), ("value", .optional(option.value)), ("use", .string(option.use.rawValue)),
            ("meaning", .string(option.meaning)),
        ])
    }
}
