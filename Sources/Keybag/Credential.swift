// The credentials that unlock a volume.

package import SodiumKit

/// A passphrase or a recovery code, in locked memory.
package enum Credential: ~Copyable, Sendable {
    /// A passphrase, byte for byte as typed, without a newline.
    case passphrase(SecretBytes)
    /// The text of a recovery code as typed. Case, spaces and hyphens do not matter.
    case recoveryCode(SecretBytes)

    /// The longest passphrase, in bytes.
    package static let maximumLength = 4096
}
