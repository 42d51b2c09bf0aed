// The help texts: of the program, of a command, and of the commands under a word.

import CommandSupport
import FuseFrontend
import HostSystem

/// Makes help texts from the table of commands.
enum Help {
    /// The longest line.
    private static let width = 80
    /// The column of the options' meanings.
    private static let indent = 30

    /// The help of the whole program.
    static var overview: String {
        var text = "Usage: protectfs COMMAND [OPTION]… [OPERAND]…\n\n"
        text += "An encrypted directory in which each file has a protection class.\n"
        for group in Command.Group.allCases {
            text += "\n\(group.rawValue):\n"
            for command in Command.all where command.group == group {
                text += item(command.name, command.summary, at: 22)
            }
        }
        text += "\nprotectfs help COMMAND explains a command.\n"
        for page in Page.allCases { text += item("protectfs help \(page.rawValue)", page.summary, at: indent) }
        text += "\nExit codes:\n"
        for (code, meaning) in ExitCode.table { text += item("\(code.number)", meaning, at: 7) }
        return text + wrapped(ExitCode.checkNote)
    }

    /// The help of one command.
    static func text(_ command: Command) -> String {
        var text = "Usage: \(command.usage)\n\n\(wrapped(command.summary))"
        for paragraph in Command.paragraphs(command.details) { text += "\n" + wrapped(paragraph) }
        text += "\nOptions:\n"
        for option in command.options + [.help] where option.credential == nil { text += item(option) }
        let pages = Page.allCases.filter { page in command.options.contains { page.has($0) } }
        if !pages.isEmpty { text += "\n" }
        for page in pages { text += wrapped("\(page.options): protectfs help \(page.rawValue)") }
        if !command.more.isEmpty {
            text += (pages.isEmpty ? "\n" : "") + "The rest: man \(command.manualPage ?? "protectfs")\n"
        }
        text += "\nExamples:\n"
        for example in command.examples {
            text += wrapped("# " + example.meaning, indent: 2) + "  \(example.line)\n"
        }
        return text
    }

    /// The help of a word with commands under it.
    static func text(_ word: String, _ commands: [Command]) -> String {
        var text = "Usage: protectfs \(word) SUBCOMMAND [OPTION]… [OPERAND]…\n\nSubcommands:\n"
        for command in commands { text += item(command.lastWord, command.summary, at: 12) }
        return text + "\nprotectfs help \(word) SUBCOMMAND explains a subcommand.\n"
    }

    /// A page that is not about one command.
    enum Page: String, CaseIterable {
        case credentials
        case mountOptions = "mount-options"

        /// What it explains, in the overview.
        var summary: String {
            switch self {
            case .credentials: "explains passphrases, other credentials, and their options"
            case .mountOptions: "explains the words of mount -o"
            }
        }

        /// The options that a command's help leaves to it.
        fileprivate var options: String {
            switch self {
            case .credentials: "Options that give a credential"
            case .mountOptions: "Mount options, after -o"
            }
        }

        fileprivate func has(_ option: Option) -> Bool {
            switch self {
            case .credentials: option.credential != nil && option.help != nil
            case .mountOptions: option.value?.isMountOptions ?? false
            }
        }

        /// The page.
        var text: String {
            switch self {
            case .credentials: Help.credentials
            case .mountOptions: Help.mountOptions
            }
        }
    }

    private static var credentials: String {
        var text = "Options that give a credential.\n"
        for paragraph in CredentialPart.introduction { text += "\n" + wrapped(paragraph) }
        for part in CredentialPart.allCases {
            text += "\n\(part.rawValue):\n" + part.options.map(item).joined()
            text += "\n" + wrapped("Of " + part.commands.map(\.name).joined(separator: ", ") + ".", indent: 2)
        }
        return text
    }

    private static var mountOptions: String {
        var text = "Mount options, after -o:\n"
        for option in MountOption.all where option.use == .protectfs {
            text += item(option.usage, option.meaning, at: indent)
        }
        func names(_ use: MountOption.Use) -> String {
            MountOption.all.filter { $0.use == use }.map(\.name).joined(separator: ", ")
        }
        text += "\n" + wrapped("The kernel gets these: \(names(.kernel)).")
        text += wrapped(
            "These are for fstab and have no effect: \(names(.ignored)), and every word that begins with x-.")
        return text
    }

    private static func item(_ option: Option) -> String {
        guard let help = option.help else { return "" }
        var name = (option.letter.map { "-\($0), " } ?? "    ") + "--\(option.name)"
        if let value = option.value { name += "=\(value.name)" }
        return item(name, help + (option.standard.map { " (default: \($0))" } ?? ""), at: indent)
    }

    /// A name with its meaning beside it, or below it if the name is long.
    private static func item(_ name: String, _ meaning: String, at column: Int) -> String {
        let text = wrapped(meaning, indent: column)
        return name.count + 4 > column
            ? "  \(name)\n\(text)" : "  " + name.padded(to: column - 2) + text.dropFirst(column)
    }

    /// Wrapped lines, each with its newline.
    private static func wrapped(_ text: String, indent: Int = 0) -> String {
        var (result, line) = ("", "")
        for word in text.split(separator: " ") {
            if !line.isEmpty, indent + line.count + 1 + word.count > width {
                result += String(repeating: " ", count: indent) + line + "\n"
                line = ""
            }
            line += (line.isEmpty ? "" : " ") + word
        }
        return result + String(repeating: " ", count: indent) + line + "\n"
    }
}

extension CredentialPart {
    /// The options of this part, each once, in the order of the commands that take them.
    var options: [Option] {
        var names: Set<String> = []
        return Command.all.flatMap(\.options).filter { $0.credential == self && names.insert($0.name).inserted }
    }

    /// The commands that take at least one of them.
    var commands: [Command] { Command.all.filter { $0.options.contains { $0.credential == self } } }
}
