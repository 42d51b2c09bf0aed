// What is sealed in a TPM, and how a PIN changes it: the auth value that the TPM asks for, and the material of the slot.

package import SodiumKit
import VolumeFormat

/// The hash of a PIN. Nil is for a slot without one.
package struct TPM2PIN: ~Copyable, Sendable {
    /// The longest PIN, in bytes.
    package static let maximumLength = Credential.maximumLength
    /// The cost of the hash, which the format fixes. A thief who copies the volume cannot use it, as the TPM counts wrong PINs.
    package static let cost = Argon2Parameters(passes: 3, memory: 64 << 20)

    private let hash: SecretKey

    /// Hashes a PIN.
    ///
    /// - Throws: `unusablePIN`, `passwordHashRefused` if the machine has too little memory, `memory`.
    package init(_ pin: borrowing SecretBytes, salt: InlineArray<16, UInt8>) throws(KeybagError) {
        guard pin.byteCount > 0, pin.byteCount <= Self.maximumLength else { throw .unusablePIN }
        hash = try pin.withBytes { bytes throws(KeybagError) in
            try Keybag.hash(bytes, salt: salt, cost: Self.cost)
        }
    }

    /// What a TPM is to seal: random bytes.
    package static func newSecret() throws(KeybagError) -> SecretKey {
        try secretMemory { () throws(SodiumError) in try SecretKey.random() }
    }

    /// What the TPM asks for. Its last byte is never zero, because a TPM drops zeros at the end.
    package func authValue() throws(KeybagError) -> SecretKey {
        try secretMemory { () throws(SodiumError) in
            var value = try deriveKey(from: hash, label: KeyLabel.tpm2Auth)
            value.withMutableBytes { $0[SecretKey.byteCount - 1] |= 1 }
            return value
        }
    }

    /// The material of the slot, from what the TPM has unsealed.
    package func material(from sealed: borrowing SecretKey) throws(KeybagError) -> SecretKey {
        try secretMemory { () throws(SodiumError) in
            try hash.withBytes { bytes throws(SodiumError) in
                try deriveKey(from: sealed, label: KeyLabel.tpm2PIN, context: bytes)
            }
        }
    }
}
