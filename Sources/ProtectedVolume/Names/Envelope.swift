// The form in which targets of symlinks and values of attributes are stored: version, nonce, ciphertext, tag.

internal import SodiumKit
internal import VolumeFormat

/// Seals and opens version ‖ nonce ‖ ciphertext ‖ tag. The tag covers the version, so a newer version is told from damage.
enum Envelope {
    private static let version = UInt8(FormatVersion.current)
    /// The version of an envelope whose content is elsewhere, or together with that of others (docs/judge/volume-format.md, 7.6).
    static let overflowVersion: UInt8 = 3
    private static let textStart = 1 + XChaCha.nonceLength
    private static let overhead = textStart + XChaCha.tagLength

    /// The length of the content of `count` stored bytes; nil if they are too few.
    static func contentLength(stored count: Int) -> Int? { count >= overhead ? count - overhead : nil }

    /// The length of the stored form of `count` bytes.
    static func storedLength(content count: Int) -> Int { count + overhead }

    /// Whether the version byte, which nothing has verified, is the one that this program writes.
    static func isOurs(_ stored: [UInt8]) -> Bool { stored.first == version }

    static func seal(
        _ content: Span<UInt8>, key: borrowing SecretKey, boundTo context: [UInt8], version: UInt8 = version
    ) -> [UInt8] {
        let nonce: InlineArray<24, UInt8> = randomInlineBytes()
        var stored = [UInt8](repeating: 0, count: content.count + overhead)
        var raw = stored.mutableSpan
        raw.storeLittleEndian(version, at: 0)
        raw.copy(nonce.span, to: 1)
        var sealed = raw._mutatingExtracting(textStart..<raw.count)
        let data = [version] + context
        XChaCha.seal(content, key: key, nonce: nonce.span, associatedData: data.span, into: &sealed)
        // The cipher leaves its last block on the stack.
        wipeStackBelow()
        return stored
    }

    /// Opens the stored bytes of any version into as many bytes as the ciphertext has; false if they do not verify.
    static func open(
        _ stored: [UInt8], key: borrowing SecretKey, boundTo context: [UInt8], into output: inout MutableSpan<UInt8>
    ) -> Bool {
        guard let length = contentLength(stored: stored.count), length == output.count else { return false }
        let all = stored.span
        let data = [stored[0]] + context
        return XChaCha.open(
            all.extracting(textStart..<all.count), key: key, nonce: all.extracting(1..<textStart),
            associatedData: data.span, into: &output)
    }

    /// The same into an array; nil if the bytes do not verify.
    static func open(_ stored: [UInt8], key: borrowing SecretKey, boundTo context: [UInt8]) -> [UInt8]? {
        guard let length = contentLength(stored: stored.count) else { return nil }
        var content = [UInt8](repeating: 0, count: length)
        var raw = content.mutableSpan
        return open(stored, key: key, boundTo: context, into: &raw) ? content : nil
    }
}
