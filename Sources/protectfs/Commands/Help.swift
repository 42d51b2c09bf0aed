// The help texts: of the program, of a command, and of the commands under a word.

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
        text += "\nprotectfs help COMMAND explains a command.\n\nExit codes:\n"
        for (code, meaning) in ExitCode.table { text += item("\(code.number)", meaning, at: 7) }
        return text + wrapped(ExitCode.checkNote)
    }

    /// The help of one command.
    static func text(_ command: Command) -> String {
        var text = "Usage: \(command.usage)\n\n\(wrapped(command.summary))"
        for paragraph in command.paragraphs { text += "\n" + wrapped(paragraph) }
        text += "\nOptions:\n"
        for option in command.options + [.help] {
            guard let help = option.help else { continue }
            var name = (option.letter.map { "-\($0), " } ?? "    ") + "--\(option.name)"
            if let value = option.value { name += "=\(value.name)" }
            text += item(name, help + (option.standard.map { " (default: \($0))" } ?? ""), at: indent)
        }
        if command.options.contains(where: { $0.name == "option" }) { text += mountOptions }
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

    private static var mountOptions: String {
        var text = "\nMount options, after -o:\n"
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

extension String {
    /// Padded with spaces to `width` characters.
    func padded(to width: Int) -> String {
        count >= width ? self : self + String(repeating: " ", count: width - count)
    }
}
