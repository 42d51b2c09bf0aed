// Texts from outside: base64url, recovery codes, keys of recipients, UUIDs, class names. One text for one value where the format says so.

import VolumeFormat

enum TextTarget: FuzzTarget {
    static func fuzz(_ bytes: Span<UInt8>) {
        if let decoded = Base64URL.decode(bytes) {
            check(
                Base64URL.encode(decoded.span).span.hasSameBytes(as: bytes), "two texts give one value")
        }
        let text = Base64URL.encode(bytes)
        check(Base64URL.decode(text.span) == bytes.copiedBytes(), "base64url does not come back")

        var code = [UInt8](repeating: 0, count: RecoveryCode.byteCount)
        var raw = code.mutableSpan
        if let checksum = RecoveryCode.decode(bytes, into: &raw) {
            var written = [UInt8](repeating: 0, count: RecoveryCode.textLength)
            var writtenRaw = written.mutableSpan
            RecoveryCode.encode(code.span, checksum: checksum, into: &writtenRaw)
            var again = [UInt8](repeating: 0, count: RecoveryCode.byteCount)
            var againRaw = again.mutableSpan
            let againChecksum = RecoveryCode.decode(written.span, into: &againRaw)
            check(againChecksum == checksum && again == code, "a recovery code does not come back")
        }
        for form in [RecipientText.publicKey, .privateKey] {
            var key = [UInt8](repeating: 0, count: RecipientText.keyLength + RecipientText.checksumLength)
            var keyRaw = key.mutableSpan
            guard form.decode(bytes, into: &keyRaw) else { continue }
            var written = [UInt8](repeating: 0, count: form.length)
            var writtenRaw = written.mutableSpan
            form.encode(key.span, into: &writtenRaw)
            check(written.span.hasSameBytes(as: bytes), "two texts give one key")
        }
        let string = String(decoding: bytes.copiedBytes(), as: UTF8.self)
        if let identity = VolumeID(text: string) {
            check(identity.description == string, "two texts give one UUID")
        }
        _ = ReservedName.kind(of: bytes)
    }

    static func seeds() -> [[UInt8]] {
        var code = [UInt8](repeating: 0, count: RecoveryCode.textLength)
        var raw = code.mutableSpan
        RecoveryCode.encode(pattern(16).span, checksum: 12345, into: &raw)
        var key = [UInt8](repeating: 0, count: RecipientText.privateKey.length)
        var keyRaw = key.mutableSpan
        RecipientText.privateKey.encode(pattern(36).span, into: &keyRaw)
        return [
            code, key, Base64URL.encode(pattern(33).span), Array("AAECAw".utf8), Array(".protectfs.dir".utf8),
            Array(VolumeID(InlineArray(repeating: 7)).description.utf8), Array("NSFileProtectionComplete".utf8),
            Array(("~" + String(repeating: "a", count: 43) + ".n").utf8),
        ]
    }
}
