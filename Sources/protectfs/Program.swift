// The entry: finds the command, runs it, prints the one line of an error.

import Glibc
import HostSystem
import SodiumKit

@main
enum Program {
    /// Runs the program; everything ends here.
    static func main() {
        guard ProcessHardening.openStandardStreams() else { exit(ExitCode.failure.number) }
        try? ProcessHardening.apply()
        ProcessHardening.setName("protectfs")
        umask(0o077)
        let words = rawArguments()
        exit(run(words.dropFirst()).number)
    }

    /// Runs one command line without the program's name.
    static func run(_ words: ArraySlice<HostPath>) -> ExitCode {
        guard let first = words.first else {
            Output.error("a command is missing (see protectfs --help)")
            return .usage
        }
        switch first.description {
        case "--help", "-h", "help":
            Output.print(Command.overview)
            return .success
        case "--version":
            return run(["version"].map { HostPath($0) }[...])
        default: break
        }
        guard let (command, rest) = find(words) else {
            let group = Command.all.filter { $0.name.hasPrefix(first.description + " ") }.map(\.name)
            if group.isEmpty {
                Output.error("unknown command \"\(first)\" (see protectfs --help)")
            } else if words.dropFirst().first.map({ ["--help", "-h"].contains($0.description) }) ?? false {
                for command in Command.all where group.contains(command.name) { Output.print(command.help + "\n") }
                return .success
            } else {
                Output.error("say which: \(group.map { "protectfs " + $0 }.joined(separator: ", "))")
            }
            return .usage
        }
        let usage: ExitCode = command.name == "fsck" ? .checkUsage : .usage
        do throws(CommandFailure) {
            let arguments: Arguments
            do throws(CommandFailure) {
                arguments = try Arguments(rest, options: command.options)
            } catch {
                throw CommandFailure(usage, "\(command.name): \(error.message)")
            }
            // The indices are those of `rawArguments`.
            for text in arguments.privateTexts { ProcessHardening.hideArgument(text.word, from: text.byte) }
            if arguments.has("help") {
                Output.print(command.help)
                return .success
            }
            if command.usesKeys {
                do throws(SelfTestFailure) { try SelfTest.run() } catch {
                    let failure = ErrorMessages.primitive(error)
                    throw CommandFailure(usage == .checkUsage ? .checkFailed : failure.code, failure.message)
                }
            }
            return try command.run(arguments)
        } catch {
            Output.error(error.message)
            return error.code == .usage ? usage : error.code
        }
    }

    private static func find(_ words: ArraySlice<HostPath>) -> (Command, ArraySlice<HostPath>)? {
        for length in [2, 1] where words.count >= length {
            let name = words.prefix(length).map(\.description).joined(separator: " ")
            if let command = Command.all.first(where: { $0.name == name }) { return (command, words.dropFirst(length)) }
        }
        return nil
    }

    /// The arguments as the kernel gave them; `CommandLine.arguments` would repair bytes that are not UTF-8.
    private static func rawArguments() -> [HostPath] {
        let count = Int(CommandLine.argc)
        // argv has argc entries that live as long as the process.
        return (0..<count).compactMap { index in
            guard let word = unsafe CommandLine.unsafeArgv[index] else { return nil }
            return HostPath(
                bytes: unsafe UnsafeBufferPointer(start: word, count: strlen(word)).map { UInt8(bitPattern: $0) })
        }
    }
}
