// Wrapping and unwrapping file keys under the class keys.

package import SodiumKit
package import VolumeFormat

extension HeldKeys {
    /// Wraps `fileKey` for a header of `protectionClass` into its 80 bytes.
    ///
    /// A, C, D: nonce 24, ciphertext 32, tag 16, zero 8 (XChaCha20-Poly1305). B: HPKE to the volume's public key, with
    /// no secret in memory.
    /// - Parameter associatedData: the header's 64 bytes for the wrap.
    /// - Throws: `KeyError.locked` if the class key is not in memory.
    package func wrap(
        _ fileKey: borrowing SecretKey, for protectionClass: ProtectionClass, associatedData: Span<UInt8>
    ) throws(KeyError) -> InlineArray<80, UInt8> {
        switch protectionClass {
        case .complete: return try Self.wrap(fileKey, complete, protectionClass, associatedData)
        case .completeUntilFirstUserAuthentication:
            return try Self.wrap(fileKey, untilFirstUnlock, protectionClass, associatedData)
        case .none: return try Self.wrap(fileKey, none, protectionClass, associatedData)
        case .completeUnlessOpen: return try wrapToPublicKey(fileKey, associatedData)
        }
    }

    /// Unwraps the 80 bytes of a header into the file key.
    ///
    /// - Throws: `KeyError.locked` if the class key is not in memory, `.unknownGeneration`, `.authenticationFailed`.
    package func unwrap(
        _ wrapped: Span<UInt8>, for protectionClass: ProtectionClass, generation: UInt16, associatedData: Span<UInt8>
    ) throws(KeyError) -> SecretKey {
        guard hasKey(protectionClass) else { throw .locked(protectionClass) }
        guard generation == self.generation(of: protectionClass) else { throw .unknownGeneration(generation) }
        guard wrapped.count == 80 else { throw .authenticationFailed }
        switch protectionClass {
        case .complete: return try Self.unwrap(wrapped, complete, protectionClass, associatedData)
        case .completeUntilFirstUserAuthentication:
            return try Self.unwrap(wrapped, untilFirstUnlock, protectionClass, associatedData)
        case .none: return try Self.unwrap(wrapped, none, protectionClass, associatedData)
        case .completeUnlessOpen: return try unwrapWithPrivateKey(wrapped, associatedData)
        }
    }
}

extension HeldKeys {
    private static func wrap(
        _ fileKey: borrowing SecretKey, _ held: borrowing Held<ClassKey>, _ protectionClass: ProtectionClass,
        _ associatedData: Span<UInt8>
    ) throws(KeyError) -> InlineArray<80, UInt8> {
        switch held {
        case .absent: throw .locked(protectionClass)
        case .present(let classKey):
            let nonce: InlineArray<24, UInt8> = randomInlineBytes()
            var result = InlineArray<80, UInt8>(repeating: 0)
            var bytes = result.mutableSpan
            bytes.copy(nonce.span, to: 0)
            var sealed = bytes._mutatingExtracting(24..<72)
            fileKey.withBytes { plaintext in
                XChaCha.seal(
                    plaintext, key: classKey.wrap, nonce: nonce.span, associatedData: associatedData,
                    into: &sealed)
            }
            return result
        }
    }

    private static func unwrap(
        _ wrapped: Span<UInt8>, _ held: borrowing Held<ClassKey>, _ protectionClass: ProtectionClass,
        _ associatedData: Span<UInt8>
    ) throws(KeyError) -> SecretKey {
        switch held {
        case .absent: throw .locked(protectionClass)
        case .present(let classKey):
            // Otherwise bytes 72–79 could be changed without failing the wrap. The header's MAC covers them as well.
            guard wrapped.extracting(72..<80).isAllZero else { throw .authenticationFailed }
            let key: SecretKey?
            do throws(SodiumError) {
                key = try XChaCha.openKey(
                    wrapped.extracting(24..<72), key: classKey.wrap, nonce: wrapped.extracting(0..<24),
                    associatedData: associatedData)
            } catch {
                throw .memory(error)
            }
            guard let key else { throw .authenticationFailed }
            return key
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
        _ wrapped: Span<UInt8>, _ associatedData: Span<UInt8>
    ) throws(KeyError) -> SecretKey {
        switch unlessOpen {
        case .absent: throw .locked(.completeUnlessOpen)
        case .present(let privateKey):
            let info = AssociatedData.hpkeInfo(volume: volumeID, publicKey: publicKey)
            let key: SecretKey?
            do throws(SodiumError) {
                key = try HPKE.openKey(
                    wrapped, privateKey: privateKey, info: info.span, associatedData: associatedData)
            } catch {
                throw .memory(error)
            }
            guard let key else { throw .authenticationFailed }
            return key
        }
    }
}
