// The type of a command.

import CommandSupport
import HostSystem

/// One command of the program, or one of several under a word, such as `class get`.
struct Command: Sendable {
    /// The headings under which the help lists commands, in order.
    enum Group: String, CaseIterable, Sendable {
        case volumes = "Volumes"
        case mounting = "Mounting"
        case locking = "Locking"
        case classes = "Classes"
        case secrets = "Secrets"
        case keys = "Keys"
        case maintenance = "Maintenance"
        case other = "Other"
    }

    /// A command line and its effect.
    struct Example: Sendable {
        let line: String
        let meaning: String

        /// Makes an example.
        init(_ line: String, _ meaning: String) {
            self.line = line
            self.meaning = meaning
        }
    }

    /// The words that select it.
    let name: String
    /// Where the help lists it.
    let group: Group
    let operands: [Operand]
    /// One sentence.
    let summary: String
    /// More, in paragraphs with an empty line between them; may be empty.
    let details: String
    /// The rest of them, for the manual page alone.
    let more: String
    /// The manual page that has the command, if it is not that of the program.
    let manualPage: String?
    /// Options of which one must be given, as the usage line shows them; nil if none must.
    let requires: String?
    let options: [Option]
    /// One or two ways to use it.
    let examples: [Example]
    /// Whether it uses keys itself. A command that does not also works if the self-test of the primitives fails, above all
    /// lock.
    let usesKeys: Bool
    /// Whether libraries have secrets in ordinary memory, which must be overwritten when it is freed.
    let wipesFreedMemory: Bool
    /// Runs it.
    let run: @Sendable (Arguments) throws(CommandFailure) -> ExitCode

    /// Makes a command.
    init(
        _ name: String, _ group: Group, _ operands: [Operand], _ summary: String, requires: String? = nil,
        details: String = "", more: String = "", manualPage: String? = nil, options: [Option] = [], examples: [Example],
        usesKeys: Bool = true,
        wipesFreedMemory: Bool = false, run: @escaping @Sendable (Arguments) throws(CommandFailure) -> ExitCode
    ) {
        self.name = name
        self.group = group
        self.operands = operands
        self.summary = summary
        self.requires = requires
        self.details = details
        self.more = more
        self.manualPage = manualPage
        self.options = options
        self.examples = examples
        self.usesKeys = usesKeys
        self.wipesFreedMemory = wipesFreedMemory
        self.run = run
    }

    /// The paragraphs of a text, each in one line.
    static func paragraphs(_ text: String) -> [String] {
        text.split(separator: "\n\n").map { $0.split(whereSeparator: \.isNewline).joined(separator: " ") }
    }

    /// The command's name and operands as the help and the manual page show them.
    var usage: String {
        let words =
            [name] + (options.contains { $0.help != nil } ? ["[OPTION]…"] : []) + (requires.map { [$0] } ?? [])
            + operands.map(\.usage)
        return "protectfs " + words.joined(separator: " ")
    }

    /// The exit code of a failure. `fsck` has those of fsck(8).
    func exitCode(of failure: CommandFailure) -> ExitCode {
        guard name == "fsck" else { return failure.code }
        return failure.code == .usage ? .checkUsage : .checkFailed
    }

    /// The first word of its name.
    var firstWord: String { String(name.split(separator: " ").first ?? "") }
    /// The last word of its name.
    var lastWord: String { String(name.split(separator: " ").last ?? "") }
}
