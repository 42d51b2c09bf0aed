// The parts of `protectfs help credentials`: options that many commands share.

/// A part of the page about options that give a credential.
package enum CredentialPart: String, CaseIterable, Sendable {
    /// What opens an existing volume.
    case opening = "Open a volume"
    /// Where the device key is.
    case deviceKey = "Device key"
    /// What a slot is made of.
    case new = "A new passphrase or PIN"

    /// What the page says above the options.
    package static let introduction = [
        """
        Without these options a command asks for the passphrase on the terminal. At most one of those that open a volume can \
        be given, with the options of its PIN.
        """,
        """
        A passphrase works only together with the device key, a file of 32 bytes outside the volume, and so does a TPM. A \
        portable passphrase, the recovery code, a recipient's private key and a security key work without it.
        """,
        """
        Secrets come from the terminal, the first line of a file, or the first line of what a command prints. They are never \
        taken from arguments or the environment.
        """,
    ]
}
