// The credentials that unlock a volume.

package import SodiumKit

/// A passphrase, a recovery code, a recipient's private key, or what a TPM or a security key gave, in locked memory.
package enum Credential: ~Copyable, Sendable {
    /// A passphrase, byte for byte as typed, without a newline.
    case passphrase(SecretBytes)
    /// The text of a recovery code as typed. Case, spaces and hyphens do not matter.
    case recoveryCode(SecretBytes)
    /// The text of a recipient's private key.
    case recipientKey(SecretBytes)
    /// The 32 bytes that open a TPM's slot.
    case tpm2(SecretBytes)
    /// The 32 bytes that a security key gave for one slot.
    case securityKey(SecretBytes)

    /// What a credential is, by its name in the control protocol.
    package enum Form: String, Sendable {
        case passphrase
        case recoveryCode
        case recipientKey
        case tpm2
        case securityKey
    }

    /// A credential of `form`.
    package init(_ form: Form, _ secret: consuming SecretBytes) {
        switch form {
        case .passphrase: self = .passphrase(secret)
        case .recoveryCode: self = .recoveryCode(secret)
        case .recipientKey: self = .recipientKey(secret)
        case .tpm2: self = .tpm2(secret)
        case .securityKey: self = .securityKey(secret)
        }
    }

    /// What it is.
    package var form: Form {
        switch self {
        case .passphrase: .passphrase
        case .recoveryCode: .recoveryCode
        case .recipientKey: .recipientKey
        case .tpm2: .tpm2
        case .securityKey: .securityKey
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
        case .tpm2(let secret): try body(secret)
        case .securityKey(let secret): try body(secret)
        }
    }

    /// The longest passphrase, in bytes.
    package static let maximumLength = 4096
}
