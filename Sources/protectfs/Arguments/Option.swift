// What options a command has.

/// One option of a command.
struct Option: Sendable {
    /// The long name without dashes.
    let name: String
    /// A one-letter name.
    let letter: Character?
    /// What the value is called in the help; nil for an option without one.
    let value: String?
    /// True when it may be given more than once.
    let repeats: Bool
    /// True when its value may hold a secret, and so must not stay in what ps(1) shows.
    let isPrivate: Bool
    /// One sentence for the help; nil keeps the option out of it.
    let help: String?

    /// Makes an option.
    init(
        _ name: String, letter: Character? = nil, value: String? = nil, repeats: Bool = false, isPrivate: Bool = false,
        help: String?
    ) {
        self.name = name
        self.letter = letter
        self.value = value
        self.repeats = repeats
        self.isPrivate = isPrivate
        self.help = help
    }

    /// The options that several commands share.
    static let json = Option("json", help: "report as JSON")
    /// Where the device key is.
    static let deviceKey = Option("device-key", value: "FILE", help: "the volume's device key (default: by its UUID)")
    /// A file with the passphrase.
    static let passphraseFile = Option(
        "passphrase-file", value: "FILE", help: "take the passphrase from FILE's first line")
    /// A command that prints the passphrase.
    static let passphraseCommand = Option(
        "passphrase-command", value: "CMD", isPrivate: true,
        help: "take the passphrase from the first line that CMD prints")
    /// A file with the recovery code.
    static let recoveryFile = Option(
        "recovery-file", value: "FILE", help: "use the recovery code in FILE's first line instead")
    /// A file with a passphrase to be set.
    static let newPassphraseFile = Option(
        "new-passphrase-file", value: "FILE", help: "take the new passphrase from FILE's first line")
    /// A command that prints a passphrase to be set.
    static let newPassphraseCommand = Option(
        "new-passphrase-command", value: "CMD", isPrivate: true,
        help: "take the new passphrase from the first line that CMD prints")
    /// A passphrase that would be refused.
    static let weakPassphrase = Option(
        "weak-passphrase", help: "take a new passphrase that is easy to guess, where it would be refused")
    /// What unlocks an existing volume.
    static let credentials = [passphraseFile, passphraseCommand, recoveryFile]
    /// What sets a new passphrase.
    static let newPassphrase = [newPassphraseFile, newPassphraseCommand, weakPassphrase]
    /// A keybag older than the one seen before.
    static let acceptKeybag = Option(
        "accept-keybag", help: "accept a keybag that is older or other than the one seen before on this machine")
    /// The keybag before the last change.
    static let previousKeybag = Option(
        "previous-keybag", help: "use the keybag from before a change that a crash cut off, where that is still there")
}
