// The credentials that unlock a volume.

package import SodiumKit

/// A passphrase, a recovery code or a recipient's private key, in locked memory.
package enum Credential: ~Copyable, Sendable {
    /// A passphrase, byte for byte as typed, without a newline.
    case passphrase(SecretBytes)
    /// The text of a recovery code as typed. Case, spaces and hyphens do not matter.
    case recoveryCode(SecretBytes)
    /// The text of a recipient's private key.
    case recipientKey(SecretBytes)

    /// What a credential is, by its name in the control protocol.
    package enum Form: String, Sendable {
        case passphrase
        case recoveryCode
        case recipientKey
    }

    /// A credential of `form`.
    package init(_ form: Form, _ secret: consuming SecretBytes) {
        switch form {
        case .passphrase: self = .passphrase(secret)
        case .recoveryCode: self = .recoveryCode(secret)
        case .recipientKey: self = .recipientKey(secret)
        }
    }

    /// What it is.
    package var form: Form {
        switch self {
        case .passphrase: .passphrase
        case .recoveryCode: .recoveryCode
        case .recipientKey: .recipientKey
        }
    }

    /// Lends the secret.
    package borrowing func withSecret<Result: ~Copyable, Failure: Error>(
        _ body: (borrowing SecretBytes) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        switch self {
        case .passphrase(let secret): try body(secret)
        case .recoveryCode(let secret): try body(secret)
        case .recipientKey(let secret): try body(secret)
        }
    }

    /// The longest passphrase, in bytes.
    package static let maximumLength = 4096
}
