// The code that runs a cipher suite on this machine.

internal import CSodium
package import VolumeFormat

extension CipherSuite {
    /// Whether this machine can run it. AES-256-GCM needs the processor's AES instructions.
    package var isAvailable: Bool { CipherBackend.best(for: self) != nil }
}

/// The code that runs a suite.
package enum CipherBackend: String, CaseIterable, Sendable {
    /// Intel's IPsec-MB, for AES-256-GCM on x86-64.
    case ipsecMB
    /// libsodium.
    case sodium

    /// Whether this code can run `suite` on this machine.
    package func isAvailable(for suite: CipherSuite) -> Bool {
        switch (self, suite) {
        case (.sodium, .xChaCha20Poly1305): true
        case (.sodium, .aes256GCM): Self.sodiumHasAES
        case (.ipsecMB, .aes256GCM): IPsecMB.isAvailable
        case (.ipsecMB, .xChaCha20Poly1305): false
        }
    }

    /// The fastest code that can run `suite` here. Nil if there is none.
    package static func best(for suite: CipherSuite) -> CipherBackend? {
        allCases.first { $0.isAvailable(for: suite) }
    }

    private static let sodiumHasAES: Bool = {
        initializeSodium()
        return crypto_aead_aes256gcm_is_available() == 1
    }()
}
