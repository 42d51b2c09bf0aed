// The exit codes. They are part of the interface: documented in protectfs.1 and never renumbered.

/// The program's exit code.
package struct ExitCode: Equatable, Sendable {
    /// The number for exit(2).
    package let number: Int32

    /// Makes a code from its number.
    package init(number: Int32) { self.number = number }

    /// Done.
    package static let success = ExitCode(number: 0)
    /// The operating system refused or failed: permission, I/O, space, memory.
    package static let failure = ExitCode(number: 1)
    /// The command line or a configuration file was wrong. Nothing was done.
    package static let usage = ExitCode(number: 2)
    /// Wrong passphrase, recovery code or device key, or none given.
    package static let authentication = ExitCode(number: 3)
    /// Not a volume, or its keybag is damaged or older than one seen before.
    package static let volume = ExitCode(number: 4)
    /// Made by a newer version, not supported on this machine, or not in this version.
    package static let unsupported = ExitCode(number: 5)
    /// In use: another mount has the volume, or a program has the mount or file.
    package static let busy = ExitCode(number: 6)
    /// No protectfs volume is mounted there, or its daemon has died.
    package static let notMounted = ExitCode(number: 7)
    /// The volume is locked.
    package static let locked = ExitCode(number: 8)
    /// The mount point cannot be used.
    package static let mountPoint = ExitCode(number: 9)
    /// Locked, but the kernel still holds plaintext that it cannot drop yet.
    package static let sweeping = ExitCode(number: 10)
    /// Done, but the output could not be written to standard output.
    static let unsaid = ExitCode(number: 11)
    /// `wait` reached its timeout, as in timeout(1).
    package static let timeout = ExitCode(number: 124)

    /// fsck(8) adds these up: 1, something was repaired; 4, errors are left; 8, the report is incomplete; 32, interrupted. fsck(8) does
    /// not use 64: something was made by a newer version, which is no error.
    package static func check(
        hasRepaired: Bool, hasErrors: Bool, hasNewer: Bool, isInterrupted: Bool, isSaid: Bool
    ) -> ExitCode {
        ExitCode(
            number: (hasRepaired ? 1 : 0) + (hasErrors ? 4 : 0) + (isSaid ? 0 : 8) + (isInterrupted ? 32 : 0)
                + (hasNewer ? 64 : 0))
    }
    /// fsck(8): the check could not be done.
    package static let checkFailed = ExitCode(number: 8)
    /// fsck(8): wrong command line.
    package static let checkUsage = ExitCode(number: 16)

    /// The words for codes in the control protocol, and in the errors of --json.
    private static let words: [(ExitCode, String)] = [
        (.failure, "failed"), (.usage, "invalid"), (.authentication, "authentication"), (.volume, "damaged"),
        (.unsupported, "unsupported"), (.busy, "busy"), (.notMounted, "notMounted"), (.locked, "locked"),
        (.mountPoint, "mountPoint"), (.sweeping, "sweeping"), (.unsaid, "unsaid"), (.timeout, "timeout"),
    ]

    /// The stable word.
    package var word: String { Self.words.first { $0.0 == self }?.1 ?? "failed" }

    /// The code of a word. Nil for an unknown word.
    init?(word: String) {
        guard let known = Self.words.first(where: { $0.1 == word }) else { return nil }
        self = known.0
    }

    /// Every code with its meaning, as shown by `protectfs --help`.
    package static let table: [(ExitCode, String)] = [
        (.success, "success"),
        (.failure, "the system refused or failed (permission, I/O, space, memory)"),
        (.usage, "wrong command line or configuration file"),
        (.authentication, "wrong passphrase, recovery code or device key, or none given"),
        (.volume, "not a volume, its keybag is damaged or older than the one last seen, or inspect found damage"),
        (.unsupported, "made by a newer version, or not supported by this version or machine"),
        (.busy, "in use"),
        (.notMounted, "no protectfs volume is mounted there, or its daemon has died"),
        (.locked, "the volume is locked, or inspect had no passphrase for the class"),
        (.mountPoint, "the mount point cannot be used"),
        (.sweeping, "lock: the keys are wiped, but the kernel still holds plaintext"),
        (.unsaid, "done, but standard output could not be written"),
        (.timeout, "wait: timed out"),
    ]

    /// The codes of `fsck`, which differ.
    package static let checkNote =
        "fsck adds up the codes of fsck(8): 1 repaired, 4 errors left, 8 check or report incomplete, 16 wrong command line, 32 interrupted, 64 made by a newer version (not an error)."
}

/// A command's failure: a one-line message and the exit code.
package struct CommandFailure: Error {
    /// The exit code.
    package let code: ExitCode
    /// What happened, why, and what to do. One line without the program's name.
    package let message: String

    /// Makes a failure with a complete message.
    package init(_ code: ExitCode, _ message: String) {
        self.code = code
        self.message = message
    }
}
