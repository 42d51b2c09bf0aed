// The keys of a recipient as text: a prefix, then 32 bytes and 4 bytes of checksum in base64url.

/// One form of text, for public or for private keys. It works on spans, which the caller keeps in locked memory for a private key.
package struct RecipientText: Sendable {
    /// Bytes of a key.
    package static let keyLength = 32
    /// Bytes of the checksum.
    package static let checksumLength = 4
    private static let encodedLength = 48

    /// A public key, which anyone may see.
    package static let publicKey = RecipientText(
        prefix: "protectfs-public-1-", checksumPrefix: "protectfs1/recipient-public\0")
    /// A private key, which opens what is for its public key.
    package static let privateKey = RecipientText(
        prefix: "protectfs-private-1-", checksumPrefix: "protectfs1/recipient-private\0")

    /// The text's beginning, which says what it is.
    package let prefix: String
    /// The text before the key in the checksum's hash (BLAKE2b-256 without a key).
    package let checksumPrefix: String

    /// Characters of a text.
    package var length: Int { prefix.utf8.count + Self.encodedLength }

    /// Whether `text` begins as this form does.
    package func begins(_ text: Span<UInt8>) -> Bool {
        let prefix = Array(prefix.utf8)
        return text.count >= prefix.count && prefix.indices.allSatisfy { text[$0] == prefix[$0] }
    }

    /// Writes the text of 36 bytes, key and checksum. Traps if it does not fit.
    package func encode(_ bytes: Span<UInt8>, into text: inout MutableSpan<UInt8>) {
        precondition(bytes.count == Self.keyLength + Self.checksumLength)
        let prefix = Array(prefix.utf8)
        text.copy(prefix.span, to: 0)
        Base64URL.encode(bytes, into: &text, at: prefix.count)
    }

    /// Reads a text into 36 `bytes`, key and checksum, and says whether it has this form. The caller compares the checksum.
    package func decode(_ text: Span<UInt8>, into bytes: inout MutableSpan<UInt8>) -> Bool {
        precondition(bytes.count == Self.keyLength + Self.checksumLength)
        guard text.count == length, begins(text) else { return false }
        return Base64URL.decode(text.extracting(prefix.utf8.count..<length), into: &bytes) == bytes.count
    }
}
