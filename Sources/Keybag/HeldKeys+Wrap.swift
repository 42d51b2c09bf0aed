// Wrapping and unwrapping file keys under the class keys.

package import SodiumKit
package import VolumeFormat

extension HeldKeys {
    /// Wraps `fileKey` for a header of `protectionClass` into its 80 bytes.
    ///
    /// A, 7, C, D: nonce 24, ciphertext 32, tag 16, zero 8 (XChaCha20-Poly1305). B: HPKE to the volume's public key, with
    /// no secret in memory.
    /// - Parameters:
    ///   - associatedData: the header's 64 bytes for the wrap.
    ///   - nonce: random, and used for this file key alone.
    /// - Throws: `KeyError.locked` if the class key is not in memory.
    package func wrap(
        _ fileKey: borrowing SecretKey, for protectionClass: ProtectionClass, associatedData: Span<UInt8>,
        nonce: InlineArray<24, UInt8> = randomInlineBytes()
    ) throws(KeyError) -> InlineArray<80, UInt8> {
        switch protectionClass {
        case .complete: return try wrap(fileKey, complete, protectionClass, associatedData, nonce)
        case .completeWhenUserInactive: return try wrap(fileKey, whenInactive, protectionClass, associatedData, nonce)
        case .completeUntilFirstUserAuthentication:
            return try wrap(fileKey, untilFirstUnlock, protectionClass, associatedData, nonce)
        case .none: return try wrap(fileKey, none, protectionClass, associatedData, nonce)
        case .completeUnlessOpen: return try wrapToPublicKey(fileKey, associatedData)
        }
    }

    /// Unwraps the 80 bytes of a header into the file key.
    ///
    /// - Throws: `KeyError.locked` if the class key is not in memory, `.unknownGeneration`, `.authenticationFailed`.
    package func unwrap(
        _ wrapped: Span<UInt8>, for protectionClass: ProtectionClass, generation: UInt16, associatedData: Span<UInt8>
    ) throws(KeyError) -> SecretKey {
        guard wrapped.count == 80 else { throw .authenticationFailed }
        switch protectionClass {
        case .complete: return try Self.unwrap(wrapped, complete, protectionClass, generation, associatedData)
        case .completeWhenUserInactive:
            return try Self.unwrap(wrapped, whenInactive, protectionClass, generation, associatedData)
        case .completeUntilFirstUserAuthentication:
            return try Self.unwrap(wrapped, untilFirstUnlock, protectionClass, generation, associatedData)
        case .none: return try Self.unwrap(wrapped, none, protectionClass, generation, associatedData)
        case .completeUnlessOpen: return try unwrapWithPrivateKey(wrapped, generation, associatedData)
        }
    }
}

extension HeldKeys {
    private func wrap(
        _ fileKey: borrowing SecretKey, _ held: borrowing Held, _ protectionClass: ProtectionClass,
        _ associatedData: Span<UInt8>, _ nonce: InlineArray<24, UInt8>
    ) throws(KeyError) -> InlineArray<80, UInt8> {
        switch held {
        case .absent: throw .locked(protectionClass)
        case .present(let keys):
            return try keys.withOpener(generation(of: protectionClass)) { key in
                var result = InlineArray<80, UInt8>(repeating: 0)
                var bytes = result.mutableSpan
                bytes.copy(nonce.span, to: 0)
                var sealed = bytes._mutatingExtracting(24..<72)
                fileKey.withBytes { plaintext in
                    XChaCha.seal(
                        plaintext, key: key, nonce: nonce.span, associatedData: associatedData, into: &sealed)
                }
                return result
            }
        }
    }

    private static func unwrap(
        _ wrapped: Span<UInt8>, _ held: borrowing Held, _ protectionClass: ProtectionClass, _ generation: UInt16,
        _ associatedData: Span<UInt8>
    ) throws(KeyError) -> SecretKey {
        switch held {
        case .absent: throw .locked(protectionClass)
        case .present(let keys):
            return try keys.withOpener(generation) { (opener) throws(KeyError) in
                // Otherwise bytes 72–79 could be changed without failing the wrap. The header's MAC covers them as well.
                guard wrapped.extracting(72..<80).isAllZero else { throw .authenticationFailed }
                let key = try keyMemory { () throws(SodiumError) in
                    try XChaCha.openKey(
                        wrapped.extracting(24..<72), key: opener, nonce: wrapped.extracting(0..<24),
                        associatedData: associatedData)
                }
                guard let key else { throw .authenticationFailed }
                return key
            }
        }
    }

    private func wrapToPublicKey(
        _ fileKey: borrowing SecretKey, _ associatedData: Span<UInt8>
    ) throws(KeyError) -> InlineArray<80, UInt8> {
        // Otherwise someone who can write to the store could put their own key there and read the file.
        guard isPublicKeyProven else { throw .locked(.completeUnlessOpen) }
        let info = AssociatedData.hpkeInfo(volume: volumeID, publicKey: publicKey)
        var result = InlineArray<80, UInt8>(repeating: 0)
        var bytes = result.mutableSpan
        do throws(SodiumError) {
            try fileKey.withBytes { plaintext throws(SodiumError) in
                try HPKE.seal(
                    plaintext, to: publicKey.span, info: info.span,
                    associatedData: associatedData,
                    into: &bytes)
            }
        } catch {
            throw .memory(error)
        }
        return result
    }

    private func unwrapWithPrivateKey(
        _ wrapped: Span<UInt8>, _ generation: UInt16, _ associatedData: Span<UInt8>
    ) throws(KeyError) -> SecretKey {
        try withPrivateKey(generation) { (privateKey, publicKey) throws(KeyError) in
            let info = AssociatedData.hpkeInfo(volume: volumeID, publicKey: publicKey)
            let key = try keyMemory { () throws(SodiumError) in
                try HPKE.openKey(wrapped, privateKey: privateKey, info: info.span, associatedData: associatedData)
            }
            guard let key else { throw .authenticationFailed }
            return key
        }
    }

    /// Lends class B's private key of `generation`, and gives its public key.
    ///
    /// - Throws: `locked`, `unknownGeneration`, and the errors of `body`.
    func withPrivateKey<Result: ~Copyable>(
        _ generation: UInt16,
        _ body: (borrowing SecretKey, InlineArray<32, UInt8>) throws(KeyError) -> Result
    ) throws(KeyError) -> Result {
        switch unlessOpen {
        case .absent: throw .locked(.completeUnlessOpen)
        case .present(let keys):
            return try keys.withOpener(generation) { (key) throws(KeyError) in
                // The keybag names the public key of the generation that is in use only.
                let isInUse = generation == self.generation(of: .completeUnlessOpen)
                return try body(key, isInUse ? publicKey : X25519.publicKey(of: key))
            }
        }
    }
}
