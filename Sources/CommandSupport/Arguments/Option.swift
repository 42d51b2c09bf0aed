// A command's options, their values, and its operands. The parser, the help, the man page and the completions all read this.

package import HostSystem
import VolumeFormat

/// The type of a value or an operand: its word in the help, and the completion in a shell.
package struct Value: Sendable {
    /// The completion in a shell.
    package enum Kind: Sendable {
        /// Any text or number. Nothing is completed.
        case text
        /// The path of a file or directory.
        case path
        /// The path of a directory.
        case directory
        /// A mount point of protectfs.
        case mountPoint
        /// A shell command.
        case command
        /// The words of `-o`, separated by commas.
        case mountOptions
        /// The name of a command of protectfs.
        case commandName
        /// One of these words.
        case words([String])
    }

    /// Its word in the help, in capitals.
    package let name: String
    /// The completion in a shell.
    package let kind: Kind

    /// Whether it is a list of words of `-o`.
    package var isMountOptions: Bool { if case .mountOptions = kind { true } else { false } }

    /// A value with its word and its completion.
    package init(name: String, kind: Kind) {
        self.name = name
        self.kind = kind
    }

    /// The path of a file.
    package static let file = Value(name: "FILE", kind: .path)
    /// A command that prints something.
    package static let command = Value(name: "CMD", kind: .command)
    /// A number of seconds.
    package static let seconds = Value(name: "SECONDS", kind: .text)
    /// The number of a passphrase.
    package static let slot = Value(name: "NUMBER", kind: .text)
    /// A public key, or a file with one.
    package static let recipient = Value(name: "PUBLICKEY|FILE", kind: .path)
    /// A security key: `auto`, a device file, or a socket.
    package static let securityKey = Value(name: "DEVICE", kind: .path)
    /// The name of a slot.
    package static let label = Value(name: "NAME", kind: .text)
    /// The name of a credential of systemd.
    static let credential = Value(name: "NAME", kind: .text)
    /// One of the five classes, by its name in `user.protection`.
    package static let protectionClass = Value(name: "CLASS", kind: .words(classes))
    /// The same, or the word that takes a directory's default away.
    package static let classOrInherit = Value(name: "CLASS", kind: .words(classes + ["\(ProtectionClass.inherit)"]))
    /// A class, and the files that get it.
    package static let classRule = Value(name: "CLASS:PATTERN", kind: .words(classes))
    private static let classes = ProtectionClass.allCases.map(\.canonicalName)
}

/// One option of a command.
package struct Option: Sendable {
    /// How mount(8) may give the option, as a word of `-o` with underscores in its name.
    package enum MountWord: Sendable {
        /// It may give it.
        case plain
        /// It may give it, and the option says how or whether to unlock.
        case unlocking
    }

    /// The long name without dashes.
    package let name: String
    /// A one-letter name.
    package let letter: Character?
    /// Its value. Nil for an option without one.
    package let value: Value?
    /// The default without the option, if it is not obvious.
    package let standard: String?
    /// True when it may be given more than once.
    package let repeats: Bool
    /// True when its value may contain a secret, and so must not stay visible in ps(1).
    let isPrivate: Bool
    /// Whether mount.fuse.protectfs takes it as a word of `-o`.
    package let mountWord: MountWord?
    /// Its part of `protectfs help credentials`, which shows it in place of the help of each command.
    package let credential: CredentialPart?
    /// One sentence for the help, without its full stop. Nil hides the option.
    package let help: String?

    /// Makes an option.
    package init(
        _ name: String, letter: Character? = nil, value: Value? = nil, standard: String? = nil, repeats: Bool = false,
        isPrivate: Bool = false, mountWord: MountWord? = nil, credential: CredentialPart? = nil, help: String?
    ) {
        self.name = name
        self.letter = letter
        self.value = value
        self.standard = standard
        self.repeats = repeats
        self.isPrivate = isPrivate
        self.mountWord = mountWord
        self.credential = credential
        self.help = help
    }

    /// An option of every command.
    package static let help = Option("help", letter: "h", help: "show this help")
    /// A report for programs.
    package static let json = Option("json", help: "print JSON (see JSON in the manual page)")
    /// The location of the device key.
    package static let deviceKey = Option(
        "device-key", value: .file, standard: deviceKeyPlace, mountWord: .plain, credential: .deviceKey,
        help: "read the device key from FILE, which may be a pipe; none uses no device key")
    /// The default path of a volume's device key (XDG Base Directory Specification).
    package static let deviceKeyPlace = "~/.local/state/protectfs/UUID.key"
    /// The value of `--device-key` that means none.
    package static let noDeviceKey = HostPath("none")
    /// A file with the passphrase.
    package static let passphraseFile = Option(
        "passphrase-file", value: .file, mountWord: .unlocking, credential: .opening,
        help: "read the passphrase from the first line of FILE; - is standard input")
    /// A command that prints the passphrase.
    package static let passphraseCommand = Option(
        "passphrase-command", value: .command, isPrivate: true, mountWord: .unlocking, credential: .opening,
        help: "run CMD and read the passphrase from the first line of its output")
    /// A credential of a service with the passphrase.
    package static let passphraseCredential = Option(
        "passphrase-credential", value: .credential, mountWord: .unlocking, credential: .opening,
        help: "read the passphrase from the first line of the systemd credential NAME")
    /// Asks with systemd-ask-password.
    package static let askPassword = Option(
        "ask-password", mountWord: .unlocking, credential: .opening,
        help: "ask with systemd-ask-password, which needs no terminal, for example at boot")
    /// A file with the recovery code.
    static let recoveryFile = Option(
        "recovery-file", value: .file, mountWord: .unlocking, credential: .opening,
        help:
            "read a recovery code from the first line of FILE, in place of a passphrase; - is standard input")
    /// A file with a recipient's private key.
    package static let recipientKey = Option(
        "recipient-key", value: .file, mountWord: .unlocking, credential: .opening,
        help: "read the private key of a recipient, as recipient new makes it, from FILE, in place of a passphrase")
    /// A security key that is connected.
    static let securityKey = Option(
        "fido2-key", value: .securityKey, repeats: true, mountWord: .unlocking, credential: .opening,
        help: "use a security key (FIDO2) in place of a passphrase: DEVICE, or with auto one that is connected")
    /// A file with the PIN of that key.
    package static let pinFile = Option(
        "fido2-pin-file", value: .file, mountWord: .plain, credential: .opening,
        help: "read the security key's PIN from the first line of FILE; - is standard input")
    /// A command that prints the PIN of that key.
    package static let pinCommand = Option(
        "fido2-pin-command", value: .command, isPrivate: true, mountWord: .plain, credential: .opening,
        help: "run CMD and read the security key's PIN from the first line of its output")
    /// A file with a new passphrase.
    static let newPassphraseFile = Option(
        "new-passphrase-file", value: .file, credential: .new,
        help: "read the new passphrase from the first line of FILE; - is standard input")
    /// A command that prints a new passphrase.
    static let newPassphraseCommand = Option(
        "new-passphrase-command", value: .command, isPrivate: true, credential: .new,
        help: "run CMD and read the new passphrase from the first line of its output")
    /// A credential of a service with a new passphrase.
    static let newPassphraseCredential = Option(
        "new-passphrase-credential", value: .credential, credential: .new,
        help: "read the new passphrase from the first line of the systemd credential NAME")
    /// Accepts a passphrase that would be refused.
    static let weakPassphrase = Option(
        "weak-passphrase", credential: .new, help: "accept a new passphrase that is easy to guess")
    /// The name of a slot. It is not encrypted.
    package static let label = Option(
        "label", value: .label, standard: "this command's name",
        help: "set the name in lists, which anyone with a copy of the volume can read")
    /// The options that unlock an existing volume.
    package static let credentials = ways + tpm2Details + [pinFile, pinCommand]
    /// Those of them that say with what. One of them may be given.
    package static let ways = [
        passphraseFile, passphraseCommand, passphraseCredential, askPassword, recoveryFile, recipientKey, tpm2,
        securityKey,
    ]
    /// The options that set a new passphrase.
    package static let newPassphrase = [
        newPassphraseFile, newPassphraseCommand, newPassphraseCredential, weakPassphrase,
    ]
    /// A keybag older than the one seen before.
    package static let acceptKeybag = Option(
        "accept-keybag", mountWord: .plain,
        help: "accept a keybag that is older than, or differs from, the one last seen on this machine")
    /// The keybag before the last change.
    package static let previousKeybag = Option(
        "previous-keybag", help: "use the keybag from before a change that a crash interrupted")
}

/// One operand of a command.
package struct Operand: Sendable {
    /// How often it is given.
    package enum Count: Sendable {
        /// Once.
        case one
        /// Once or not at all.
        case optional
        /// Once or more often; the last operand.
        case several
        /// Any number of times; the last operand.
        case any
    }

    /// What its value is, for help and completions.
    package let value: Value
    /// How often it is given.
    let count: Count

    /// Makes an operand.
    package init(_ name: String, _ kind: Value.Kind, _ count: Count = .one) {
        value = Value(name: name, kind: kind)
        self.count = count
    }

    /// Whether it may be left out.
    package var isOptional: Bool { count == .optional || count == .any }
    /// Whether it may be given more than once.
    package var repeats: Bool { count == .several || count == .any }

    /// The operand in the usage line.
    package var usage: String {
        let name = value.name + (repeats ? "…" : "")
        return isOptional ? "[\(name)]" : name
    }

    /// The directory with the encrypted files.
    package static let volume = Operand("VOLUME", .directory)
    /// Where a volume is mounted.
    package static let mountPoint = Operand("MOUNTPOINT", .mountPoint)
    /// The same for a command that takes the only mount without it.
    package static let onlyMount = Operand("MOUNTPOINT", .mountPoint, .optional)
    /// What such a command does without it.
    package static let onlyMountDetails = "Without a mount point, it is the only volume that you have mounted."
    /// Files and directories of a mount.
    package static let paths = Operand("PATH", .path, .several)
    /// The account of a secret.
    package static let account = Operand("ACCOUNT", .text)
}
