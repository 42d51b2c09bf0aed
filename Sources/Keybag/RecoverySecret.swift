// The recovery code: its 16 secret bytes, its checksum and its text.

import SodiumKit
import VolumeFormat

enum RecoverySecret {
    /// First 22 bits of BLAKE2b-256(`checksumPrefix` ‖ bytes).
    private static func checksum(_ bytes: Span<UInt8>) -> UInt32 {
        let prefix = Array("\(RecoveryCode.checksumPrefix)".utf8)
        let hash = hash256(prefix.span, bytes)
        return RecoveryCode.checksum(hash: hash.span)
    }

    /// 16 new random bytes.
    static func random() throws(SodiumError) -> SecretBytes {
        var secret = try SecretBytes(byteCount: RecoveryCode.byteCount)
        secret.withMutableBytes { randomBytes(into: &$0) }
        return secret
    }

    /// The 35 characters to print, once.
    static func text(of secret: borrowing SecretBytes) throws(SodiumError) -> SecretBytes {
        var text = try SecretBytes(byteCount: RecoveryCode.textLength)
        secret.withBytes { bytes in
            let checksum = checksum(bytes)
            text.withMutableBytes { RecoveryCode.encode(bytes, checksum: checksum, into: &$0) }
        }
        return text
    }

    /// The 16 bytes of a code as typed.
    ///
    /// - Throws: `KeybagError.recoveryCodeTypo` if it is not a code or its checksum does not match.
    static func parse(_ text: Span<UInt8>) throws(KeybagError) -> SecretBytes {
        var secret: SecretBytes
        do throws(SodiumError) {
            secret = try SecretBytes(byteCount: RecoveryCode.byteCount)
        } catch {
            throw .memory(error)
        }
        guard let stated = secret.withMutableBytes({ RecoveryCode.decode(text, into: &$0) }),
            secret.withBytes({ checksum($0) }) == stated
        else { throw .recoveryCodeTypo }
        return secret
    }
}
