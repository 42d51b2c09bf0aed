// Reads passphrases and recovery codes from the terminal, a file or a command, but never from arguments or the environment.

import CLibrary
package import CommandSupport
import HostSystem
package import Keybag
import PassphraseStrength
package import SodiumKit

/// Reads secrets straight into locked memory.
package enum CredentialInput {
    /// The largest size of a passphrase file.
    static let largestFile: off_t = 65536

    /// The credential for an existing volume, from the source in the options or the terminal.
    ///
    /// - Parameter bag: the volume's keybag, which a TPM or a security key needs.
    package static func credential(
        _ arguments: Arguments, prompt: String, _ bag: @autoclosure () throws(CommandFailure) -> Keybag
    ) throws(CommandFailure) -> Credential {
        try TPM2Input.checkDetails(arguments)
        try requireOneWay(arguments)
        if let path = arguments.path("recovery-file") {
            return .recoveryCode(try line(ofFile: path, option: "recovery-file"))
        }
        if let path = arguments.path("recipient-key") {
            return .recipientKey(try line(ofFile: path, option: "recipient-key"))
        }
        if arguments.has("fido2-key") {
            return .securityKey(try SecurityKeyInput.secret(arguments, try bag()))
        }
        for option in [Option.pinFile, .pinCommand] where arguments.has(option.name) {
            throw .init(.usage, "use --\(option.name) together with --fido2-key")
        }
        if arguments.has("tpm2") { return try TPM2Input.credential(arguments, try bag()) }
        return .passphrase(try passphrase(arguments, prompt: prompt))
    }

    /// The passphrase of an existing volume. A command that takes no other credential asks for it alone.
    package static func passphrase(_ arguments: Arguments, prompt: String) throws(CommandFailure) -> SecretBytes {
        try requireOneWay(arguments)
        if let path = arguments.path("passphrase-file") { return try line(ofFile: path, option: "passphrase-file") }
        if let command = arguments.path("passphrase-command") {
            return try line(printedBy: command, option: "passphrase-command")
        }
        if let name = arguments.path("passphrase-credential") {
            return try line(ofCredential: name, option: "passphrase-credential")
        }
        if arguments.has("ask-password") { return try answer(toPrompt: prompt, option: "ask-password") }
        return try secret(prompt: prompt, option: "passphrase-file")
    }

    private static func requireOneWay(_ arguments: Arguments) throws(CommandFailure) {
        let given = Option.ways.map(\.name).filter { arguments.has($0) }
        if given.count > 1 { throw .init(.usage, "--\(given[0]) and --\(given[1]) cannot be used together") }
    }

    /// Refuses the source of a credential beside --no-unlock, which uses none.
    package static func refuseUnused(_ arguments: Arguments) throws(CommandFailure) {
        guard arguments.has("no-unlock"), let option = Option.ways.map(\.name).first(where: arguments.has) else {
            return
        }
        throw .init(.usage, "--no-unlock and --\(option) cannot be used together")
    }

    /// How often a passphrase may be typed.
    private static let attempts = 3

    /// Runs `body`, which asks for a credential and uses it. If it was typed and is wrong, the person may type it again.
    package static func retrying<Result>(
        _ arguments: Arguments, _ body: () throws(CommandFailure) -> Result
    ) throws(CommandFailure) -> Result {
        let isTyped =
            arguments.has("ask-password") || TPM2Input.isTyped(arguments)
            || !Option.ways.map(\.name).contains { arguments.has($0) }
        for _ in 1..<attempts where isTyped {
            do throws(CommandFailure) { return try body() } catch {
                guard error.code == .authentication, ErrorMessages.mistyped.contains(where: error.message.contains)
                else { throw error }
                Output.error("\(error.message); try again")
            }
        }
        return try body()
    }

    /// A new passphrase. The terminal asks for it twice, and again if it is too easy to guess.
    ///
    /// - Parameter isBound: it works only together with a device key, so a copy of the volume is not enough to brute-force it.
    package static func newPassphrase(
        _ arguments: Arguments, isBound: Bool, prompt: String = "New passphrase: ", orPlain: Bool = false
    ) throws(CommandFailure) -> SecretBytes {
        var files = ["new-passphrase-file"]
        var commands = ["new-passphrase-command"]
        var credentials = ["new-passphrase-credential"]
        if orPlain {
            files.append("passphrase-file")
            commands.append("passphrase-command")
            credentials.append("passphrase-credential")
        }
        let given = (files + commands + credentials).filter { arguments.has($0) }
        if given.count > 1 { throw .init(.usage, "--\(given[0]) and --\(given[1]) cannot be used together") }
        let mayBeWeak = isBound || arguments.has("weak-passphrase")
        for option in files {
            guard let path = arguments.path(option) else { continue }
            return try judged(try line(ofFile: path, option: option), isBound, mayBeWeak)
        }
        for option in commands {
            guard let command = arguments.path(option) else { continue }
            return try judged(try line(printedBy: command, option: option), isBound, mayBeWeak)
        }
        for option in credentials {
            guard let name = arguments.path(option) else { continue }
            return try judged(try line(ofCredential: name, option: option), isBound, mayBeWeak)
        }
        for _ in 0..<2 {
            let typed = try twice(prompt: prompt, option: files[files.count - 1], what: "passphrase")
            do throws(CommandFailure) { return try judged(typed, isBound, mayBeWeak) } catch {
                Output.error(error.message)
            }
        }
        return try judged(
            try twice(prompt: prompt, option: files[files.count - 1], what: "passphrase"), isBound, mayBeWeak)
    }

    /// Refuses a passphrase that is easy to guess, or warns of it.
    private static func judged(
        _ passphrase: consuming SecretBytes, _ isBound: Bool, _ mayBeWeak: Bool
    ) throws(CommandFailure) -> SecretBytes {
        let strength: PassphraseStrength
        do throws(SodiumError) { strength = try PassphraseStrength(of: passphrase) } catch {
            throw ErrorMessages.memory(error)
        }
        let advice = "four or more unusual words are better"
        if strength < .minimum, !mayBeWeak {
            throw .init(
                .authentication,
                "the passphrase is too easy to guess for anyone with a copy of the volume; \(advice). --weak-passphrase accepts it. Nothing was changed"
            )
        }
        if strength < .minimum {
            let who = isBound ? "anyone with the volume and the device key" : "anyone with a copy of the volume"
            Output.note("protectfs: warning: the passphrase is easy to guess for \(who); \(advice)")
        } else if strength < .comfortable, !isBound {
            Output.note(
                "protectfs: warning: the passphrase can be guessed, with much effort, by anyone with a copy of the volume; \(advice)"
            )
        }
        return passphrase
    }

    /// Asks twice on the terminal for a new secret, and again if the two differ.
    package static func twice(prompt: String, option: String, what: String) throws(CommandFailure) -> SecretBytes {
        // What is typed between the two prompts is not shown either.
        let terminal: QuietTerminal
        do throws(SystemError) { terminal = try QuietTerminal.open() } catch { throw cannotAsk(error, option, what) }
        for attempt in 1... {
            let first = try secret(from: terminal, prompt: prompt, option: option, what: what)
            let second = try secret(from: terminal, prompt: "Once more: ", option: option, what: what)
            if first.withBytes({ one in second.withBytes { other in constantTimeEqual(one, other) } }) { return first }
            guard attempt < attempts else { break }
            Output.error("the two \(what)s differ; try again")
        }
        throw .init(.authentication, "the two \(what)s differ; nothing was changed")
    }

    /// Asks on the terminal. Without one the error names `option` and its command variant.
    package static func secret(
        prompt: String, option: String, what: String = "passphrase"
    ) throws(CommandFailure) -> SecretBytes {
        let terminal: QuietTerminal
        do throws(SystemError) { terminal = try QuietTerminal.open() } catch { throw cannotAsk(error, option, what) }
        return try secret(from: terminal, prompt: prompt, option: option, what: what)
    }

    /// Asks on the terminal. Nil if nothing is typed.
    ///
    /// - Parameter option: named if there is no terminal.
    package static func secretOrNone(prompt: String, option: String) throws(CommandFailure) -> SecretBytes? {
        var secret: SecretBytes
        do throws(SodiumError) { secret = try SecretBytes(byteCount: Credential.maximumLength) } catch {
            throw ErrorMessages.memory(error)
        }
        do throws(SystemError) {
            let terminal = try QuietTerminal.open()
            let count = try secret.withMutableBytes { (span: inout MutableSpan<UInt8>) throws(SystemError) -> Int in
                try terminal.read(prompt: prompt, into: &span)
            }
            guard count > 0 else { return nil }
            secret.shorten(to: count)
            return secret
        } catch {
            throw cannotAsk(error, option, "passphrase")
        }
    }

    private static func secret(
        from terminal: borrowing QuietTerminal, prompt: String, option: String, what: String
    ) throws(CommandFailure) -> SecretBytes {
        do {
            return try fill(source: "the \(what)", what: what) { span throws(SystemError) in
                try terminal.read(prompt: prompt, into: &span)
            }
        } catch let error as CommandFailure {
            throw error
        } catch {
            guard let error = error as? SystemError else { throw .init(.failure, "the terminal could not be read") }
            throw cannotAsk(error, option, what)
        }
    }

    private static func cannotAsk(_ error: SystemError, _ option: String, _ what: String) -> CommandFailure {
        let hasCommand = ["passphrase-file", "pin-file"].contains(where: option.hasSuffix)
        let command = hasCommand ? " or --" + option.dropLast(4) + "command" : ""
        switch error.code {
        case ENXIO, ENOTTY, EIO, ENODEV, ENOENT, EACCES:
            return .init(
                .authentication, "cannot ask for the \(what) without a terminal; use --\(option)\(command)")
        case EINTR: return .init(.authentication, "interrupted; nothing was changed")
        default: return ErrorMessages.system(error)
        }
    }

    /// A file of a secret; `-` is the standard input.
    private static func opened(_ path: HostPath, _ source: String) throws -> Descriptor {
        guard path == standardInput else { return try Descriptor(opening: path, O_RDONLY | O_NOCTTY) }
        guard !Terminal.isTerminal(0) else {
            throw CommandFailure(
                .usage,
                "\(source): standard input is a terminal, which would show the secret; use a file, or leave the option out"
            )
        }
        return try Descriptor(duplicating: 0)
    }

    /// The value of an option that means standard input.
    private static let standardInput = HostPath("-")

    /// Reads a line that may end as lines of DOS do.
    private static func lineWithoutReturn(
        from file: borrowing Descriptor, into span: inout MutableSpan<UInt8>, deadline: UInt64? = nil
    ) throws(SystemError) -> Int {
        let count = try Terminal.readLine(from: file, into: &span, deadline: deadline)
        guard count > 0, span[count - 1] == UInt8(ascii: "\r") else { return count }
        span[count - 1] = 0
        return count - 1
    }

    /// What an option gives, or an operand, which is a file with the key of a recipient.
    private static func noun(_ option: String?) -> String {
        guard let option, !option.hasPrefix("recipient") else { return "key" }
        if option.contains("-pin-") { return "PIN" }
        return option.hasPrefix("recovery") ? "recovery code" : "passphrase"
    }

    /// The first line of a file.
    ///
    /// - Parameter option: the option that names the file. Nil if an operand does.
    static func line(ofFile path: HostPath, option: String?) throws(CommandFailure) -> SecretBytes {
        let source = (option.map { "--\($0) " } ?? "") + path.description
        do {
            let file = try opened(path, source)
            let status = try file.status()
            if status.st_mode & S_IFMT == S_IFDIR {
                throw SystemError(code: EISDIR, call: "read", subject: path.description)
            }
            if status.st_mode & S_IFMT == S_IFREG, status.st_size > largestFile {
                throw CommandFailure(
                    .authentication,
                    "\(source): too large for a file with a secret (\(status.st_size) bytes); the first line must be the secret"
                )
            }
            return try fill(source: source, what: noun(option)) { span throws(SystemError) in
                try lineWithoutReturn(from: file, into: &span)
            }
        } catch let error as CommandFailure {
            throw error
        } catch {
            let reason = (error as? SystemError)?.reason ?? "cannot be read"
            throw .init(.authentication, "\(source): \(reason)")
        }
    }

    /// The first line of what a command prints.
    static func line(printedBy command: HostPath, option: String) throws(CommandFailure) -> SecretBytes {
        let words = [Array("sh".utf8), Array("-c".utf8), command.bytes]
        return try line(of: HostPath("/bin/sh"), words, option: option) { "the command failed with exit code \($0)" }
    }

    /// The first line that a program prints.
    ///
    /// - Parameter failed: what to say of its exit code, if it has printed none.
    static func line(
        of program: HostPath, _ words: [[UInt8]], option: String, failed: (Int32) -> String
    ) throws(CommandFailure) -> SecretBytes {
        do {
            var pipe = try Pipe()
            guard let writing = pipe.writing.take(), let reading = pipe.reading.take() else {
                preconditionFailure("a new pipe has two ends")
            }
            let child = try ChildProcess.start(program, words, descriptors: [(1, writing.number)])
            _ = consume writing
            let secret: SecretBytes
            do {
                let deadline = monotonicNanoseconds() + patience
                secret = try fill(source: "--\(option)", what: noun(option)) { span throws(SystemError) in
                    try lineWithoutReturn(from: reading, into: &span, deadline: deadline)
                }
            } catch {
                let isOver = (error as? SystemError)?.code == ETIMEDOUT
                // It may have closed its output and go on, or wait for ever to write the rest of a line that is too long.
                guard !isOver, try ProcessWatch(child.id).waitForEnd(seconds: secondsToEnd) else {
                    throw endless(child, option)
                }
                // Its exit code explains more than its missing output.
                if case .exited(let code) = try child.wait(), code != 0 {
                    throw CommandFailure(.authentication, "--\(option): \(failed(code))")
                }
                throw error
            }
            let watch = try ProcessWatch(child.id)
            do { try drain(reading, until: monotonicNanoseconds() + afterLine) } catch let error as SystemError {
                // A process that the command has left behind may keep the pipe.
                guard error.code == ETIMEDOUT else { throw error }
            }
            guard watch.waitForEnd(seconds: secondsToEnd) else { throw endless(child, option) }
            guard try child.wait() == .exited(0) else {
                throw CommandFailure(.authentication, "--\(option): the command failed")
            }
            return secret
        } catch let error as CommandFailure {
            throw error
        } catch {
            if let error = error as? SystemError, error.call == "posix_spawn" {
                throw .init(.authentication, "--\(option): \(program) cannot be run: \(error.reason)")
            }
            let reason = (error as? SystemError)?.reason ?? "cannot be run"
            throw .init(.authentication, "--\(option): \(reason)")
        }
    }

    /// How long a command may take for its first line, for instance because it asks a person, and how long it may run after it.
    private static let (patience, afterLine): (UInt64, UInt64) = (600_000_000_000, 8_000_000_000)
    private static let secondsToEnd: Int32 = 2

    /// Ends a command that does not end by itself, and what it has started.
    private static func endless(_ child: ChildProcess, _ option: String) -> CommandFailure {
        child.killAll()
        return .init(.authentication, "--\(option): the command did not end, and was stopped")
    }

    /// Bytes that `drain` reads at a time.
    private static let drainedAtOnce = 4096

    /// Reads a command's output after its first line, so that it does not die of SIGPIPE. That output may be secret too.
    private static func drain(_ reading: borrowing Descriptor, until deadline: UInt64) throws {
        var rest: SecretBytes
        do throws(SodiumError) { rest = try SecretBytes(byteCount: Self.drainedAtOnce) } catch {
            throw ErrorMessages.memory(error)
        }
        for _ in 0..<256 {
            let count = try rest.withMutableBytes { (span: inout MutableSpan<UInt8>) throws(SystemError) -> Int in
                try reading.waitForInput(until: deadline)
                return try reading.read(into: &span, atOnce: true)
            }
            if count == 0 { return }
        }
    }

    /// Runs `read` on locked memory and keeps as many bytes as it returns. Empty and too long secrets are refused.
    private static func fill(
        source: String, what: String = "passphrase", _ read: (inout MutableSpan<UInt8>) throws(SystemError) -> Int
    ) throws -> SecretBytes {
        var secret: SecretBytes
        do throws(SodiumError) { secret = try SecretBytes(byteCount: Credential.maximumLength) } catch {
            throw ErrorMessages.memory(error)
        }
        let count: Int
        do throws(SystemError) {
            count = try secret.withMutableBytes { (span: inout MutableSpan<UInt8>) throws(SystemError) -> Int in
                try read(&span)
            }
        } catch {
            switch error.code {
            case E2BIG:
                throw CommandFailure(
                    .authentication, "\(source): the first line is longer than \(Credential.maximumLength) bytes")
            case EPIPE: throw CommandFailure(.authentication, "\(source): empty; a \(what) cannot be empty")
            default: throw error
            }
        }
        guard count > 0 else { throw CommandFailure(.authentication, "\(source): empty; a \(what) cannot be empty") }
        secret.shorten(to: count)
        return secret
    }
}

/// The cost of a new passphrase's hash on this machine.
package func calibratedCost() throws(CommandFailure) -> Argon2Parameters {
    do throws(SodiumError) { return try PasswordHash.calibrated() } catch { throw ErrorMessages.memory(error) }
}
