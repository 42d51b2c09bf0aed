// X25519 key pairs, for class B.

internal import CSodium

/// X25519 (RFC 7748).
package enum X25519 {
    /// The public key of a private key. Any 32 bytes are a private key.
    package static func publicKey(of privateKey: borrowing SecretKey) -> InlineArray<32, UInt8> {
        initializeSodium()
        var result = InlineArray<32, UInt8>(repeating: 0)
        let key = unsafe UnsafePointer(privateKey.pointer)
        var output = result.mutableSpan
        unsafe output.withUnsafeMutableBytes { output in
            unsafe _ = crypto_scalarmult_curve25519_base(output.bytes, key)
        }
        // The C code clamps a copy of the private key on its stack.
        wipeStackBelow()
        return result
    }

    /// The Diffie-Hellman secret. An error if it is all zero (a public key of low order; RFC 7748, 6.1).
    static func sharedSecret(
        _ privateKey: borrowing SecretKey, _ publicKey: Span<UInt8>
    ) throws(SodiumError) -> SecretKey {
        guard publicKey.count == 32 else { throw .invalidPublicKey }
        initializeSodium()
        let result = try SecretKey()
        let key = unsafe UnsafePointer(privateKey.pointer)
        let output = unsafe result.pointer
        let status = unsafe publicKey.withUnsafeBytes { point in
            // Both keys and the output have 32 bytes.
            unsafe crypto_scalarmult_curve25519(output, key, point.bytes)
        }
        wipeStackBelow()
        guard status == 0 else { throw .invalidPublicKey }
        return result
    }
}
