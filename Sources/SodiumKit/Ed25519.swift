// Ed25519 signatures, by which a keybag vouches for its keys.

internal import CSodium

/// Ed25519 (RFC 8032).
package enum Ed25519 {
    /// Bytes of a signature.
    package static let signatureLength = 64
    private static let secretLength = 64

    /// The public key of a private key, which is any 32 bytes (the seed).
    package static func publicKey(of seed: borrowing SecretKey) throws(SodiumError) -> InlineArray<32, UInt8> {
        let pair = try expand(seed)
        return pair.publicKey
    }

    /// Signs `message` with the private key `seed`.
    package static func signature(
        over message: Span<UInt8>, by seed: borrowing SecretKey
    ) throws(SodiumError) -> [UInt8] {
        let pair = try expand(seed)
        var result = [UInt8](repeating: 0, count: signatureLength)
        var output = result.mutableSpan
        unsafe output.withUnsafeMutableBytes { output in
            unsafe message.withUnsafeBytes { message in
                pair.secret.withBytes { secret in
                    unsafe secret.withUnsafeBytes { secret in
                        // The output has 64 bytes, and so has the secret.
                        unsafe _ = crypto_sign_detached(
                            output.bytes, nil, message.bytes, UInt64(message.count), secret.bytes)
                    }
                }
            }
        }
        // The C code has a nonce and scalars on its stack.
        wipeStackBelow()
        return result
    }

    /// Whether `signature` over `message` was made with the private key of `publicKey`.
    package static func isValid(
        _ signature: Span<UInt8>, over message: Span<UInt8>, by publicKey: InlineArray<32, UInt8>
    ) -> Bool {
        guard signature.count == signatureLength else { return false }
        initializeSodium()
        return unsafe signature.withUnsafeBytes { signature in
            unsafe message.withUnsafeBytes { message in
                unsafe publicKey.span.withUnsafeBytes { key in
                    // The lengths of signature and key are right.
                    unsafe crypto_sign_verify_detached(
                        signature.bytes, message.bytes, UInt64(message.count), key.bytes) == 0
                }
            }
        }
    }

    /// The two keys of libsodium's form.
    private struct Expanded: ~Copyable {
        let publicKey: InlineArray<32, UInt8>
        let secret: SecretBytes
    }

    private static func expand(_ seed: borrowing SecretKey) throws(SodiumError) -> Expanded {
        initializeSodium()
        var secret = try SecretBytes(byteCount: secretLength)
        var publicKey = InlineArray<32, UInt8>(repeating: 0)
        let pointer = unsafe UnsafePointer(seed.pointer)
        var output = publicKey.mutableSpan
        unsafe output.withUnsafeMutableBytes { output in
            secret.withMutableBytes { secret in
                unsafe secret.withUnsafeMutableBytes { secret in
                    // 32 bytes for the public key, 64 for the secret one, 32 of the seed.
                    unsafe _ = crypto_sign_seed_keypair(output.bytes, secret.bytes, pointer)
                }
            }
        }
        wipeStackBelow()
        return Expanded(publicKey: publicKey, secret: secret)
    }
}
