// The entry point: finds the command, runs it, and prints the one line of an error.

import CLibrary
import CommandSupport
import HostSystem
import SodiumKit
import VolumeAccess

@main
enum Program {
    /// Runs the program and exits.
    static func main() {
        guard ProcessHardening.openStandardStreams() else { exit(ExitCode.failure.number) }
        try? ProcessHardening.apply()
        ProcessHardening.setName("protectfs")
        umask(0o077)
        SystemPaths.moveFormerData()
        let words = rawArguments()
        let code = run(words.dropFirst())
        // A signal that came at a prompt ends the process now, when everything is cleaned up and the terminal echoes.
        QuietTerminal.raiseCaught()
        exit(code.number)
    }

    /// Runs one command line without the program's name.
    static func run(_ words: ArraySlice<HostPath>) -> ExitCode {
        let names = words.map(\.description)
        // Also for errors of the command line itself.
        Output.reportsJSON = names.prefix { $0 != "--" }.contains("--json")
        switch names.first {
        case "--help", "-h": return run(["help"].map { HostPath($0) }[...])
        case "--version": return run(["version"].map { HostPath($0) }[...])
        default: break
        }
        guard let (command, length) = Command.find(names) else {
            if names.count > 1, ["--help", "-h"].contains(names[1]), let text = try? HelpLookup.text([names[0]]) {
                Output.print(text)
                return .success
            }
            let failure = HelpLookup.unknown(names)
            Output.fail(failure)
            return failure.code
        }
        if command.wipesFreedMemory { ProcessHardening.wipeFreedMemory() }
        do throws(CommandFailure) {
            let arguments = try parse(words.dropFirst(length), command)
            Output.reportsJSON = arguments.has("json")
            if arguments.has("help") {
                Output.print(Help.text(command))
                return .success
            }
            if command.usesKeys {
                do throws(SelfTestFailure) { try SelfTest.run() } catch { throw ErrorMessages.primitive(error) }
            }
            return try command.run(arguments)
        } catch {
            let code = command.exitCode(of: error)
            // The signal says enough.
            if !QuietTerminal.hasSignal { Output.fail(error, exit: code) }
            return code
        }
    }

    /// Parses a command's words, and hides private ones from ps(1).
    private static func parse(
        _ words: ArraySlice<HostPath>, _ command: Command
    ) throws(CommandFailure) -> Arguments {
        do throws(CommandFailure) {
            let arguments = try Arguments(words, options: command.options)
            // The indices are those of `rawArguments`.
            for text in arguments.privateTexts { ProcessHardening.hideArgument(text.word, from: text.byte) }
            if !arguments.has("help") { try arguments.check(command.operands) }
            return arguments
        } catch {
            throw .init(error.code, "\(error.message); see protectfs help \(command.name)")
        }
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
