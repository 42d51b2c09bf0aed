// The keys of late records (the format, section 8): the MAC key of a lock, sealing without a secret, opening with class B's
// key.

internal import SodiumKit
package import VolumeFormat

/// The MAC key L of one lock's late records. It makes records but cannot read them, so it may stay in memory while locked.
package final class LateKey: Sendable {
    /// The late file's header, with L wrapped for class A.
    package let header: LateFileHeader
    /// Class B's public key of the generation that the header names. Records are sealed to it, also if the volume has got another
    /// one meanwhile.
    let publicKey: InlineArray<32, UInt8>
    private let key: SecretKey

    init(header: LateFileHeader, key: consuming SecretKey, publicKey: InlineArray<32, UInt8>) {
        self.header = header
        self.publicKey = publicKey
        self.key = key
    }

    /// The lock's number.
    package var number: UInt64 { header.number }

    /// The input for the first record's MAC: the MAC of the header.
    package var firstMAC: InlineArray<32, UInt8> {
        let bytes = header.bytes
        return mac256(key, bytes.span)
    }

    /// The MAC of a record.
    /// - Parameters:
    ///   - previous: the MAC of the previous record, or `firstMAC`.
    ///   - record: its bytes before the MAC.
    package func mac(after previous: InlineArray<32, UInt8>, _ record: Span<UInt8>) -> InlineArray<32, UInt8> {
        mac256(key, previous.span, record)
    }
}

extension HeldKeys {
    /// Draws the MAC key of the lock `number`, and wraps it under class key A.
    ///
    /// - Throws: `KeyError.locked` if that key is not in memory.
    package func makeLateKey(number: UInt64) throws(KeyError) -> LateKey {
        var header = LateFileHeader(
            generation: generation(of: .complete), publicKeyGeneration: generation(of: .completeUnlessOpen),
            volumeID: volumeID, number: number)
        let wrapKey = try lateWrapKey(header)
        let key = try keyMemory { () throws(SodiumError) in try SecretKey.random() }
        let nonce: InlineArray<24, UInt8> = randomInlineBytes()
        let plain = header.bytes
        var wrapped = InlineArray<72, UInt8>(repeating: 0)
        var bytes = wrapped.mutableSpan
        bytes.copy(nonce.span, to: 0)
        var sealed = bytes._mutatingExtracting(24..<72)
        key.withBytes { secret in
            XChaCha.seal(
                secret, key: wrapKey, nonce: nonce.span,
                associatedData: plain.span.extracting(LateFileHeader.authenticated), into: &sealed)
        }
        header.wrapped = wrapped
        return LateKey(header: header, key: key, publicKey: publicKey)
    }

    /// Unwraps the MAC key of a late file.
    ///
    /// - Throws: `KeyError.locked` if class key A is not in memory; `.otherVolume`, `.unknownGeneration`;
    ///   `.authenticationFailed` if the header was not made with that key; `.newer` if it was, and a newer version has made it.
    package func openLateKey(_ header: LateFileHeader) throws(KeyError) -> LateKey {
        guard header.volumeID == volumeID else { throw .otherVolume }
        let wrapKey = try lateWrapKey(header)
        let bytes = header.bytes
        let key = try keyMemory { () throws(SodiumError) in
            try XChaCha.openKey(
                bytes.span.extracting(LateFileHeader.wrapRange), key: wrapKey,
                nonce: bytes.span.extracting(LateFileHeader.nonceRange),
                associatedData: bytes.span.extracting(LateFileHeader.authenticated))
        }
        guard let key else { throw .authenticationFailed }
        // The header is genuine. Its records may be encrypted to a generation that is missing here.
        if header.isNewer || unlessOpen.isMissing(generation: header.publicKeyGeneration, seen: nil) { throw .newer }
        let publicKey = try withPrivateKey(header.publicKeyGeneration) { (_, publicKey) in publicKey }
        return LateKey(header: header, key: key, publicKey: publicKey)
    }

    /// Opens the sealed data of a record. The caller has checked its MAC, because the public key proves no author.
    ///
    /// - Returns: false if it does not verify.
    /// - Throws: `KeyError.locked` if class B's private key is not in memory.
    package func openLate(
        _ sealed: Span<UInt8>, _ record: LateRecordHeader, of header: LateFileHeader,
        into output: inout MutableSpan<UInt8>
    ) throws(KeyError) -> Bool {
        let data = AssociatedData.lateRecord(number: header.number, header: record)
        return try withPrivateKey(header.publicKeyGeneration) { (privateKey, publicKey) throws(KeyError) in
            let info = AssociatedData.lateInfo(volume: volumeID, publicKey: publicKey)
            return try keyMemory { () throws(SodiumError) in
                try HPKE.open(
                    sealed, privateKey: privateKey, info: info.span, associatedData: data.span, into: &output)
            }
        }
    }

    private func lateWrapKey(_ header: LateFileHeader) throws(KeyError) -> SecretKey {
        switch complete {
        case .absent: throw .locked(.complete)
        case .present(let keys):
            let classKey = try keys.key(header.generation)
            let context = AssociatedData.lateContext(volume: volumeID, number: header.number)
            return try keyMemory { () throws(SodiumError) in
                try deriveKey(from: classKey, label: KeyLabel.late, context: context.span)
            }
        }
    }
}

extension LateKey {
    /// Seals the data of a record to class B's public key. This needs no secret and works in every state.
    ///
    /// - Parameter output: `data.count + LateRecordHeader.sealOverhead` bytes.
    package func seal(
        _ data: Span<UInt8>, _ record: LateRecordHeader, into output: inout MutableSpan<UInt8>
    ) throws(KeyError) {
        let info = AssociatedData.lateInfo(volume: header.volumeID, publicKey: publicKey)
        let associated = AssociatedData.lateRecord(number: number, header: record)
        try keyMemory { () throws(SodiumError) in
            try HPKE.seal(
                data, to: publicKey.span, info: info.span,
                associatedData: associated.span, into: &output)
        }
    }
}
