// The two cipher suites for blocks of files: their numbers on disk, their names, and their lengths.

/// The cipher of a volume's blocks, chosen by `protectfs init`. The raw value is its number on disk.
package enum CipherSuite: UInt8, CaseIterable, Sendable, Hashable {
    /// AES-256-GCM, 12-byte nonces.
    case aes256GCM = 1
    /// XChaCha20-Poly1305, 24-byte nonces.
    case xChaCha20Poly1305 = 2

    /// Bytes of a nonce.
    package var nonceLength: Int { self == .aes256GCM ? 12 : 24 }

    /// Bytes of the longest nonce of all suites.
    package static let longestNonce = 24

    /// Bytes of a tag, in both suites.
    package static let tagLength = 16

    /// The name that `protectfs init --cipher` takes, and that reports show.
    package var name: String { self == .aes256GCM ? "aes-256-gcm" : "xchacha20-poly1305" }

    /// The suite of this name. Nil for any other text.
    package init?(name: String) {
        guard let suite = Self.allCases.first(where: { $0.name == name }) else { return nil }
        self = suite
    }
}
