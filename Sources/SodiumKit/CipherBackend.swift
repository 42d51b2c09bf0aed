// The code that runs a cipher suite on this machine.

internal import CLinuxShim
internal import HostSystem
package import VolumeFormat

extension CipherSuite {
    /// The suite for a new volume: AES-256-GCM if the processor has instructions for it. Without them it is slower, and its
    /// tables show in the processor's cache.
    package static var preferred: CipherSuite {
        pfs_has_aes_instructions() == 1 ? .aes256GCM : .xChaCha20Poly1305
    }
}

/// The code that runs a suite. The raw value is the library's name.
package enum CipherBackend: String, CaseIterable, Sendable {
    /// Intel's IPsec-MB, for AES-256-GCM on x86-64 with AES instructions.
    case ipsecMB = "IPsec-MB"
    /// OpenSSL's libcrypto, for AES-256-GCM on every processor.
    case openSSL = "OpenSSL"
    /// libsodium, for XChaCha20-Poly1305.
    case sodium = "libsodium"

    /// The environment variable that replaces IPsec-MB, for tests.
    private static let variable = "PROTECTFS_TEST_AES"

    /// Whether this code can run `suite` on this machine.
    package func isAvailable(for suite: CipherSuite) -> Bool {
        switch (self, suite) {
        case (.ipsecMB, .aes256GCM): IPsecMB.isAvailable
        case (.openSSL, .aes256GCM): OpenSSL.isAvailable
        case (.sodium, .xChaCha20Poly1305): true
        case (.ipsecMB, .xChaCha20Poly1305), (.openSSL, .xChaCha20Poly1305), (.sodium, .aes256GCM): false
        }
    }

    /// The code that runs `suite` here.
    package static func best(for suite: CipherSuite) -> CipherBackend {
        switch suite {
        case .aes256GCM: aes
        case .xChaCha20Poly1305: .sodium
        }
    }

    private static let aes: CipherBackend = {
        let wanted = SystemPaths.environment(variable)?.description
        return IPsecMB.isAvailable && wanted != CipherBackend.openSSL.rawValue ? .ipsecMB : .openSSL
    }()
}
