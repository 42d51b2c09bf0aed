// What a command is, the list of all of them, and their help.

import HostSystem

/// One command of the program, or one of a group such as `class get`.
struct Command: Sendable {
    /// The words that select it.
    let name: String
    /// What follows the name in the usage line.
    let operands: String
    /// One sentence.
    let summary: String
    /// More, in full lines; may be empty.
    let details: String
    /// Its options.
    let options: [Option]
    /// Does it.
    let run: @Sendable (Arguments) throws(CommandFailure) -> ExitCode

    /// Makes a command.
    init(
        _ name: String, _ operands: String, _ summary: String, details: String = "", options: [Option] = [],
        run: @escaping @Sendable (Arguments) throws(CommandFailure) -> ExitCode
    ) {
        self.name = name
        self.operands = operands
        self.summary = summary
        self.details = details
        self.options = options
        self.run = run
    }

    /// Whether it uses keys itself. One that does not works also where the primitives do not: a lock above all.
    var usesKeys: Bool {
        ![
            "lock", "unlock", "status", "watch", "wait", "unmount", "class get", "class set", "class list", "version",
        ].contains(name)
    }

    /// All commands in the order of the help.
    static let all: [Command] = [
        .initialise, .mount, .unlock, .lock, .status, .watch, .wait, .unmount, .classGet, .classSet, .classList,
        .secretSet, .secretGet, .secretList, .secretDelete, .passphraseChange, .passphraseAdd, .passphraseRemove,
        .passphraseList, .recoveryNew, .recoveryUse, .check,
        .info, .speed, .erase, .version,
    ]

    /// The help of this command.
    var help: String {
        var text = "Usage: protectfs \(name)"
        if options.contains(where: { $0.help != nil }) { text += " [OPTION]…" }
        if !operands.isEmpty { text += " \(operands)" }
        text += "\n\n\(summary)\n"
        if !details.isEmpty { text += "\n\(details)\n" }
        text += "\nOptions:\n"
        for option in options + [Option("help", letter: "h", help: "show this help")] {
            guard let help = option.help else { continue }
            var name = option.letter.map { "-\($0), --\(option.name)" } ?? "    --\(option.name)"
            if let value = option.value { name += "=\(value)" }
            text += name.count > 32 ? "  \(name)\n\(String(repeating: " ", count: 36))" : "  " + name.padded(to: 34)
            text += help + "\n"
        }
        return text
    }

    /// The help of the whole program.
    static var overview: String {
        var text =
            "Usage: protectfs COMMAND [OPTION]… [OPERAND]…\n\nAn encrypted directory whose files each carry a protection class.\n\n"
        for command in all { text += "  " + command.name.padded(to: 20) + command.summary + "\n" }
        text += "\nEvery command has --help. Exit codes:\n"
        for (code, meaning) in ExitCode.table { text += "  " + "\(code.number)".padded(to: 5) + meaning + "\n" }
        text += "fsck has those of fsck(8), added up: 0, 1 repaired, 4 errors left, 8 not done, 16 wrong command line, "
        return text + "32 interrupted.\n"
    }
}

extension String {
    /// Spaces behind it up to `width` characters.
    func padded(to width: Int) -> String {
        count >= width ? self : self + String(repeating: " ", count: width - count)
    }
}
