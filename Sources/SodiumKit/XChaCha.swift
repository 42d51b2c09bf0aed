// XChaCha20-Poly1305 for small data (wraps, bundles, attributes, symlinks), and its stream cipher alone for names.

internal import CSodium

/// XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha) and XChaCha20, by libsodium.
package enum XChaCha {
    /// Bytes of a nonce.
    package static let nonceLength = 24
    /// Bytes of a tag.
    package static let tagLength = 16

    /// Encrypts `plaintext` to `output`: ciphertext, then tag. `output` has `plaintext.count + tagLength` bytes.
    package static func seal(
        _ plaintext: Span<UInt8>, key: borrowing SecretKey, nonce: Span<UInt8>, associatedData: Span<UInt8> = Span(),
        into output: inout MutableSpan<UInt8>
    ) {
        precondition(nonce.count == nonceLength)
        precondition(output.count == plaintext.count + tagLength)
        initializeSodium()
        let key = unsafe UnsafePointer(key.pointer)
        unsafe output.withUnsafeMutableBytes { output in
            unsafe plaintext.withUnsafeBytes { text in
                unsafe nonce.withUnsafeBytes { nonce in
                    unsafe associatedData.withUnsafeBytes { data in
                        // The lengths were checked above. The key is borrowed, so it outlives the call.
                        unsafe _ = crypto_aead_xchacha20poly1305_ietf_encrypt(
                            output.bytes, nil, text.bytes, UInt64(text.count), data.bytes, UInt64(data.count), nil,
                            nonce.bytes, key)
                    }
                }
            }
        }
    }

    /// Decrypts `sealed` (ciphertext, then tag) to `output`, which has `sealed.count - tagLength` bytes.
    ///
    /// - Returns: false if the tag is wrong or `sealed` is too short. `output` then contains no plaintext.
    package static func open(
        _ sealed: Span<UInt8>, key: borrowing SecretKey, nonce: Span<UInt8>, associatedData: Span<UInt8> = Span(),
        into output: inout MutableSpan<UInt8>
    ) -> Bool {
        precondition(nonce.count == nonceLength)
        guard sealed.count >= tagLength else { return false }
        precondition(output.count == sealed.count - tagLength)
        initializeSodium()
        let key = unsafe UnsafePointer(key.pointer)
        return unsafe output.withUnsafeMutableBytes { output in
            unsafe sealed.withUnsafeBytes { sealed in
                unsafe nonce.withUnsafeBytes { nonce in
                    unsafe associatedData.withUnsafeBytes { data in
                        // The lengths were checked above. libsodium compares the tag before it writes.
                        unsafe crypto_aead_xchacha20poly1305_ietf_decrypt(
                            output.bytes, nil, nil, sealed.bytes, UInt64(sealed.count), data.bytes,
                            UInt64(data.count), nonce.bytes, key) == 0
                    }
                }
            }
        }
    }

    /// Encrypts or decrypts `bytes` in place with XChaCha20 from block `counter` on. It does not authenticate, so the caller
    /// must verify the result.
    ///
    /// From counter 1 it gives the bytes of XChaCha20-Poly1305 without the tag.
    package static func applyStream(
        to bytes: inout MutableSpan<UInt8>, key: borrowing SecretKey, nonce: Span<UInt8>, counter: UInt64 = 1
    ) {
        precondition(nonce.count == nonceLength)
        guard !bytes.isEmpty else { return }
        initializeSodium()
        let key = unsafe UnsafePointer(key.pointer)
        unsafe bytes.withUnsafeMutableBytes { bytes in
            unsafe nonce.withUnsafeBytes { nonce in
                // Working in place is allowed: source and destination are the same memory (libsodium, crypto_stream_*_xor).
                unsafe _ = crypto_stream_xchacha20_xor_ic(
                    bytes.bytes, bytes.bytes, UInt64(bytes.count), nonce.bytes, counter, key)
            }
        }
    }

    /// Opens a sealed 32-byte key (48 bytes with its tag). Nil if it does not verify.
    package static func openKey(
        _ sealed: Span<UInt8>, key: borrowing SecretKey, nonce: Span<UInt8>, associatedData: Span<UInt8> = Span()
    ) throws(SodiumError) -> SecretKey? {
        guard sealed.count == SecretKey.byteCount + tagLength else { return nil }
        var result = try SecretKey()
        let isOpen = result.withMutableBytes { output in
            open(sealed, key: key, nonce: nonce, associatedData: associatedData, into: &output)
        }
        guard isOpen else { return nil }
        return consume result
    }

    /// Opens sealed bytes into secret memory. Nil if they do not verify.
    package static func openBytes(
        _ sealed: Span<UInt8>, key: borrowing SecretKey, nonce: Span<UInt8>, associatedData: Span<UInt8> = Span()
    ) throws(SodiumError) -> SecretBytes? {
        guard sealed.count >= tagLength else { return nil }
        var result = try SecretBytes(byteCount: sealed.count - tagLength)
        let isOpen = result.withMutableBytes { output in
            open(sealed, key: key, nonce: nonce, associatedData: associatedData, into: &output)
        }
        guard isOpen else { return nil }
        return consume result
    }
}
