// HPKE (RFC 9180) in base mode, one message per context. It wraps file keys for class B without a secret.

internal import CSodium

/// DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20-Poly1305, base mode, a single message at sequence number 0.
package enum HPKE {
    /// Bytes that sealing adds: the encapsulated key (32) and the tag (16).
    package static let overhead = 48

    /// Seals `plaintext` to the owner of `publicKey`.
    ///
    /// - Parameter output: encapsulated key ‖ ciphertext ‖ tag, `plaintext.count + overhead` bytes.
    /// - Throws: `invalidPublicKey`, or a failure of locked memory.
    package static func seal(
        _ plaintext: Span<UInt8>, to publicKey: Span<UInt8>, info: Span<UInt8>, associatedData: Span<UInt8>,
        into output: inout MutableSpan<UInt8>
    ) throws(SodiumError) {
        let ephemeral = try SecretKey.random()
        try seal(
            plaintext, to: publicKey, ephemeral: ephemeral, info: info, associatedData: associatedData, into: &output)
    }

    /// The same with a given ephemeral private key, for the RFC's vectors.
    static func seal(
        _ plaintext: Span<UInt8>, to publicKey: Span<UInt8>, ephemeral: borrowing SecretKey, info: Span<UInt8>,
        associatedData: Span<UInt8>, into output: inout MutableSpan<UInt8>
    ) throws(SodiumError) {
        precondition(output.count == plaintext.count + overhead)
        guard publicKey.count == 32 else { throw .invalidPublicKey }
        let encapsulated = X25519.publicKey(of: ephemeral)
        let shared = try X25519.sharedSecret(ephemeral, publicKey)
        let context = try Context(
            shared: shared, encapsulated: encapsulated.span, publicKey: publicKey, info: info)
        unsafe output.withUnsafeMutableBytes { output in
            for index in 0..<32 { unsafe output[index] = encapsulated[index] }
            unsafe plaintext.withUnsafeBytes { text in
                unsafe associatedData.withUnsafeBytes { data in
                    context.nonce.withBytes { nonce in
                        unsafe nonce.withUnsafeBytes { nonce in
                            // The output's length was checked above. Its first 32 bytes are the encapsulated key.
                            unsafe _ = crypto_aead_chacha20poly1305_ietf_encrypt(
                                output.bytes + 32, nil, text.bytes, UInt64(text.count), data.bytes,
                                UInt64(data.count), nil, nonce.bytes, context.key.pointer)
                        }
                    }
                }
            }
        }
    }

    /// Opens `sealed` (encapsulated key ‖ ciphertext ‖ tag) to `output`, which has `sealed.count - overhead` bytes.
    ///
    /// - Returns: false if it does not verify or is too short. `output` then contains no plaintext.
    package static func open(
        _ sealed: Span<UInt8>, privateKey: borrowing SecretKey, info: Span<UInt8>, associatedData: Span<UInt8>,
        into output: inout MutableSpan<UInt8>
    ) throws(SodiumError) -> Bool {
        guard sealed.count >= overhead else { return false }
        precondition(output.count == sealed.count - overhead)
        let encapsulated = sealed.extracting(0..<32)
        let publicKey = X25519.publicKey(of: privateKey)
        let shared: SecretKey
        do throws(SodiumError) {
            shared = try X25519.sharedSecret(privateKey, encapsulated)
        } catch .invalidPublicKey {
            return false
        } catch {
            throw error
        }
        let context = try Context(
            shared: shared, encapsulated: encapsulated, publicKey: publicKey.span, info: info)
        return unsafe output.withUnsafeMutableBytes { output in
            unsafe sealed.withUnsafeBytes { sealed in
                unsafe associatedData.withUnsafeBytes { data in
                    context.nonce.withBytes { nonce in
                        unsafe nonce.withUnsafeBytes { nonce in
                            // At least 48 bytes: the part after the encapsulated key includes a tag.
                            unsafe crypto_aead_chacha20poly1305_ietf_decrypt(
                                output.bytes, nil, nil, sealed.bytes + 32, UInt64(sealed.count - 32),
                                data.bytes, UInt64(data.count), nonce.bytes, context.key.pointer) == 0
                        }
                    }
                }
            }
        }
    }

    /// Opens a sealed 32-byte key (80 bytes). Nil if it does not verify.
    package static func openKey(
        _ sealed: Span<UInt8>, privateKey: borrowing SecretKey, info: Span<UInt8>, associatedData: Span<UInt8>
    ) throws(SodiumError) -> SecretKey? {
        guard sealed.count == SecretKey.byteCount + overhead else { return nil }
        var result = try SecretKey()
        let isOpen = try result.withMutableBytes { output throws(SodiumError) in
            try open(sealed, privateKey: privateKey, info: info, associatedData: associatedData, into: &output)
        }
        guard isOpen else { return nil }
        return consume result
    }

    /// Key and nonce of the AEAD (RFC 9180, 4.1 and 5.1).
    struct Context: ~Copyable {
        let key: SecretKey
        let nonce: SecretBytes

        init(shared: borrowing SecretKey, encapsulated: Span<UInt8>, publicKey: Span<UInt8>, info: Span<UInt8>)
            throws(SodiumError)
        {
            let kem = Suite("KEM", [0x00, 0x20])
            let hpke = Suite("HPKE", [0x00, 0x20, 0x00, 0x01, 0x00, 0x03])
            // ExtractAndExpand of DHKEM, over kem_context = enc ‖ pkRm.
            let early = try shared.withBytes { bytes throws(SodiumError) in
                try kem.extract(salt: Span<UInt8>(), label: "eae_prk", bytes)
            }
            var secret = try SecretKey()
            secret.withMutableBytes { output in
                kem.expand(early, label: "shared_secret", encapsulated, publicKey, into: &output)
            }
            // KeySchedule: mode 0, no psk. Its context is not secret.
            let identityHash = try hpke.extract(salt: Span<UInt8>(), label: "psk_id_hash", Span<UInt8>())
            let infoHash = try hpke.extract(salt: Span<UInt8>(), label: "info_hash", info)
            let prk = try secret.withBytes { bytes throws(SodiumError) in
                try hpke.extract(salt: bytes, label: "secret", Span<UInt8>())
            }
            var schedule = try SecretBytes(byteCount: 65)
            schedule.withMutableBytes { bytes in
                unsafe bytes.withUnsafeMutableBytes { bytes in
                    // Mode byte 0, then two hashes of 32 bytes.
                    unsafe (bytes.bytes + 1).update(from: identityHash.pointer, count: 32)
                    unsafe (bytes.bytes + 33).update(from: infoHash.pointer, count: 32)
                }
            }
            var key = try SecretKey()
            key.withMutableBytes { output in
                schedule.withBytes { hpke.expand(prk, label: "key", $0, Span<UInt8>(), into: &output) }
            }
            var nonce = try SecretBytes(byteCount: 12)
            nonce.withMutableBytes { output in
                schedule.withBytes { hpke.expand(prk, label: "base_nonce", $0, Span<UInt8>(), into: &output) }
            }
            self.key = key
            self.nonce = nonce
        }
    }

    /// LabeledExtract and LabeledExpand under one suite_id (RFC 9180, 4).
    private struct Suite {
        private let identifier: [UInt8]

        init(_ name: String, _ numbers: [UInt8]) {
            identifier = Array(name.utf8) + numbers
        }

        func extract(salt: Span<UInt8>, label: String, _ material: Span<UInt8>) throws(SodiumError) -> SecretKey {
            let prefix = Array("HPKE-v1".utf8) + identifier + Array(label.utf8)
            let result = try SecretKey()
            var mac = HMAC(key: salt)
            mac.update(prefix.span)
            mac.update(material)
            unsafe mac.finish(into: result.pointer)
            return result
        }

        /// At most 32 bytes: one block of HKDF-Expand.
        func expand(
            _ key: borrowing SecretKey, label: String, _ first: Span<UInt8>, _ second: Span<UInt8>,
            into output: inout MutableSpan<UInt8>
        ) {
            let count = output.count
            precondition(count > 0 && count <= 32)
            let prefix = [0, UInt8(count)] + Array("HPKE-v1".utf8) + identifier + Array(label.utf8)
            let last: [UInt8] = [1]
            key.withBytes { key in
                var mac = HMAC(key: key)
                mac.update(prefix.span)
                mac.update(first)
                mac.update(second)
                mac.update(last.span)
                mac.finish(prefix: &output)
            }
        }
    }
}
