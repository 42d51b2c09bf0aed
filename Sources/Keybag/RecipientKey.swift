// A recipient's key pair: made, as text, and from text. Its private key opens the slots that are encrypted to its public key.

package import SodiumKit
import VolumeFormat

/// The keys of recipients.
package enum RecipientKey {
    /// The texts of a new key pair.
    package struct Pair: ~Copyable {
        /// The private key's, to be written to a file.
        package let privateText: SecretBytes
        /// The public key's.
        package let publicText: String

        /// Makes a key pair.
        package init() throws(SodiumError) {
            let key = try SecretKey.random()
            privateText = try RecipientKey.text(ofPrivateKey: key)
            publicText = RecipientKey.text(ofPublicKey: X25519.publicKey(of: key))
        }
    }

    /// First bytes of BLAKE2b-256(the form's prefix ‖ key).
    private static func checksum(_ key: Span<UInt8>, _ form: RecipientText) -> InlineArray<4, UInt8> {
        let prefix = Array(form.checksumPrefix.utf8)
        let hash = hash256(prefix.span, key)
        return hash.span.inline(at: 0)
    }

    /// The text of a public key.
    package static func text(ofPublicKey key: InlineArray<32, UInt8>) -> String {
        let form = RecipientText.publicKey
        let bytes = key.span.copiedBytes() + checksum(key.span, form).span.copiedBytes()
        var text = [UInt8](repeating: 0, count: form.length)
        var output = text.mutableSpan
        form.encode(bytes.span, into: &output)
        return String(decoding: text, as: UTF8.self)
    }

    /// The text of a private key, in locked memory.
    private static func text(ofPrivateKey key: borrowing SecretKey) throws(SodiumError) -> SecretBytes {
        let form = RecipientText.privateKey
        var bytes = try SecretBytes(byteCount: RecipientText.keyLength + RecipientText.checksumLength)
        key.withBytes { key in
            let checksum = checksum(key, form)
            bytes.withMutableBytes { bytes in
                bytes.copy(key, to: 0)
                bytes.copy(checksum.span, to: RecipientText.keyLength)
            }
        }
        var text = try SecretBytes(byteCount: form.length)
        bytes.withBytes { bytes in text.withMutableBytes { form.encode(bytes, into: &$0) } }
        return text
    }

    /// The private key in a text.
    ///
    /// - Throws: `recipientKeyTypo` if it is not the text of a private key.
    package static func privateKey(from text: Span<UInt8>) throws(KeybagError) -> SecretKey {
        try key(in: text, .privateKey)
    }

    /// The public key in a text.
    ///
    /// - Throws: `recipientKeyTypo` if it is not the text of a public key.
    package static func publicKey(from text: Span<UInt8>) throws(KeybagError) -> InlineArray<32, UInt8> {
        try key(in: text, .publicKey).withBytes { $0.inline(at: 0) }
    }

    private static func key(in text: Span<UInt8>, _ form: RecipientText) throws(KeybagError) -> SecretKey {
        var bytes = try secretMemory { () throws(SodiumError) in
            try SecretBytes(byteCount: RecipientText.keyLength + RecipientText.checksumLength)
        }
        guard bytes.withMutableBytes({ form.decode(text, into: &$0) }) else { throw .recipientKeyTypo }
        return try bytes.withBytes { bytes throws(KeybagError) in
            let key = bytes.extracting(0..<RecipientText.keyLength)
            let stated = bytes.extracting(RecipientText.keyLength..<bytes.count)
            guard constantTimeEqual(checksum(key, form).span, stated) else { throw .recipientKeyTypo }
            do throws(SodiumError) { return try SecretKey(copying: key) } catch { throw .memory(error) }
        }
    }
}

extension SlotRecipient {
    /// Encrypts the material of a recipient's slot, which has its number and its salt already.
    static func sealing(
        _ material: borrowing SecretKey, to publicKey: InlineArray<32, UInt8>, slot: SlotLayout, volumeID: VolumeID
    ) throws(KeybagError) -> SlotRecipient {
        let info = AssociatedData.recipientInfo(volume: volumeID, publicKey: publicKey)
        let context = slot.secretContext(volumeID)
        var sealed = [UInt8](repeating: 0, count: sealedLength)
        do throws(SodiumError) {
            var output = sealed.mutableSpan
            try material.withBytes { bytes throws(SodiumError) in
                try HPKE.seal(bytes, to: publicKey.span, info: info.span, associatedData: context.span, into: &output)
            }
        } catch .invalidPublicKey {
            throw .unusableRecipient
        } catch {
            throw .memory(error)
        }
        return SlotRecipient(publicKey: publicKey, sealed: sealed)
    }

    /// The material of the slot. Nil if it was changed.
    func open(
        _ privateKey: borrowing SecretKey, slot: SlotLayout, volumeID: VolumeID
    ) throws(KeybagError) -> SecretKey? {
        let info = AssociatedData.recipientInfo(volume: volumeID, publicKey: publicKey)
        let context = slot.secretContext(volumeID)
        return try secretMemory { () throws(SodiumError) in
            try HPKE.openKey(sealed.span, privateKey: privateKey, info: info.span, associatedData: context.span)
        }
    }
}
