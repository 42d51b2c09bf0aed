// The vectors of the known-answer tests, and their sources.

internal import CSodium

/// AES-256-GCM.
enum GCMAnswers {
    /// D. McGrew, J. Viega: The Galois/Counter Mode of Operation, test cases 14 to 16 (also NIST's, SP 800-38D).
    private static var published: [SealedVector] {
        let key = hexadecimal("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308")
        let nonce = hexadecimal("cafebabefacedbaddecaf888")
        let text = hexadecimal(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
                + "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255")
        let ciphertext = hexadecimal(
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
                + "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad")
        return [
            SealedVector(
                key: zeros(32), nonce: zeros(12), text: zeros(16), data: [],
                sealed: hexadecimal("cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919")),
            SealedVector(
                key: key, nonce: nonce, text: text, data: [],
                sealed: ciphertext + hexadecimal("b094dac5d93471bdec1a502270e3cc6c")),
            SealedVector(
                key: key, nonce: nonce, text: Array(text.prefix(60)),
                data: hexadecimal("feedfacedeadbeeffeedfacedeadbeefabaddad2"),
                sealed: ciphertext.prefix(60) + hexadecimal("76fc6ece0f4e1768cddf8853bb2d551b")),
        ]
    }

    /// The longest text: a page.
    private static let longest = 4096

    /// Lengths around the block, and around the 4, 8, 16 and 48 blocks that vector units process at once, up to a page.
    private static let lengths: [Int] =
        Array(1..<70) + [
            127, 128, 129, 191, 192, 193, 239, 240, 241, 255, 256, 257, 271, 272, 511, 512, 513, 767, 768, 769, 1023,
            1024,
            1025, 2048, 3071, 3932, 4048, 4060, 4064, longest,
        ]

    /// BLAKE2b-256 over the output of OpenSSL's AES-256-GCM for the first bytes of a text, for each of the lengths.
    private static let digest = "e7e83589e78c6153fcda091bc6e35e17a97a254b79916f98cbf9d450ba15e691"

    static func hold(_ cipher: BlockFunctions) throws(SodiumError) -> Bool {
        for vector in published {
            guard try cipher.give(vector) else { return false }
        }
        let (key, nonce, data) = (counting(0, 32), counting(64, 12), counting(128, 32))
        let text = (0..<longest).map { UInt8(truncatingIfNeeded: $0 * 7 + ($0 >> 8) * 13) }
        var all: [UInt8] = []
        all.reserveCapacity(lengths.reduce(0) { $0 + $1 + 16 })
        for length in lengths {
            let part = Array(text[..<length])
            let sealed = try cipher.seal(key, nonce, part, data)
            let (isRight, opened) = try cipher.open(key, nonce, sealed, data)
            guard isRight, opened == part else { return false }
            all += sealed
        }
        return bytes(hash256(all.span)) == hexadecimal(digest)
    }
}

/// XChaCha20-Poly1305 and its stream.
enum XChaChaAnswers {
    /// draft-irtf-cfrg-xchacha-03, A.3.1.
    static var vector: SealedVector {
        SealedVector(
            key: counting(0x80, 32), nonce: counting(0x40, 24),
            text: Array(
                ("Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
                    + "sunscreen would be it.").utf8),
            data: hexadecimal("50515253c0c1c2c3c4c5c6c7"),
            sealed: hexadecimal(
                "bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb731c7f1b0b4aa6440bf3a82f4eda7e39"
                    + "ae64c6708c54c216cb96b72e1213b4522f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3"
                    + "fff921f9664c97637da9768812f615c68b13b52ec0875924c1c7987947deafd8780acf49"))
    }

    static func hold(_ cipher: BlockFunctions) throws(SodiumError) -> Bool { try cipher.give(vector) }

    /// From block 1 on it is the AEAD's ciphertext.
    @Sendable static func streamHolds() throws(SodiumError) -> Bool {
        let vector = vector
        let key = try secret(vector.key)
        var text = vector.text
        var raw = text.mutableSpan
        XChaCha.applyStream(to: &raw, key: key, nonce: vector.nonce.span)
        return text.elementsEqual(vector.sealed.dropLast(XChaCha.tagLength))
    }
}

/// BLAKE2b in the sizes of the format, HMAC and comparison.
enum HashAnswers {
    /// BLAKE2b-256 of "abc" and the keyed ones: by CPython's hashlib.
    @Sendable static func blakeHolds() throws(SodiumError) -> Bool {
        let key = try secret(counting(0, 32))
        let (text, abc) = (counting(0, 200), Array("abc".utf8))
        let known = try secret(hexadecimal("dd69e2b36fbc48eb372ebca458352fd9c3d2209f85ca4cc1abc526253d1fcbb1"))
        let derived = try deriveKey(
            from: key, label: "protectfs1/header", context: counting(0, 16).span)
        return blake512Holds()
            && bytes(hash256(abc.span))
                == hexadecimal("bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319")
            && bytes(mac128(key, text.span)) == hexadecimal("8aa5152a0f33a31b72568b613ea3c92e")
            && bytes(mac256(key, text.span))
                == hexadecimal("a39ff6e7e838226fd50e24a55375ff3a39419fd93e32cc463f3f74323291c425")
            && derived.isEqual(to: known)
    }

    /// RFC 7693, appendix A: BLAKE2b-512 of "abc".
    private static func blake512Holds() -> Bool {
        initializeSodium()
        let text = Array("abc".utf8)
        var output = zeros(64)
        unsafe _ = crypto_generichash(&output, output.count, text, UInt64(text.count), nil, 0)
        return output
            == hexadecimal(
                "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1"
                    + "7d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923")
    }

    /// RFC 4231, test case 2.
    @Sendable static func hmacHolds() throws(SodiumError) -> Bool {
        let (key, text) = (Array("Jefe".utf8), Array("what do ya want for nothing?".utf8))
        var output = zeros(32)
        var hmac = HMAC(key: key.span)
        hmac.update(text.span)
        var raw = output.mutableSpan
        hmac.finish(prefix: &raw)
        return output == hexadecimal("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
    }

    /// Equal and unequal at every byte.
    @Sendable static func comparisonHolds() throws(SodiumError) -> Bool {
        let one = counting(0, 32)
        guard constantTimeEqual(one.span, counting(0, 32).span) else { return false }
        return one.indices.allSatisfy { index in
            var other = one
            other[index] ^= 1
            return !constantTimeEqual(one.span, other.span)
        }
    }
}

/// Primitives that derive keys from other secrets.
enum KeyAnswers {
    /// RFC 7748, 6.1.
    @Sendable static func agreementHolds() throws(SodiumError) -> Bool {
        let alice = try secret(hexadecimal("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"))
        let bob = try secret(hexadecimal("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"))
        let alicePublic = bytes(X25519.publicKey(of: alice))
        let bobPublic = bytes(X25519.publicKey(of: bob))
        let shared = try secret(hexadecimal("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"))
        let one = try X25519.sharedSecret(alice, bobPublic.span)
        let other = try X25519.sharedSecret(bob, alicePublic.span)
        return alicePublic == hexadecimal("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
            && bobPublic == hexadecimal("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
            && one.isEqual(to: shared) && other.isEqual(to: shared)
    }

    /// RFC 9180, A.2.1: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20Poly1305, base mode, sequence number 0.
    @Sendable static func hpkeHolds() throws(SodiumError) -> Bool {
        let info = hexadecimal("4f6465206f6e2061204772656369616e2055726e")
        let data = hexadecimal("436f756e742d30")
        let text = hexadecimal("4265617574792069732074727574682c20747275746820626561757479")
        let answer = hexadecimal(
            "1afa08d3dec047a643885163f1180476fa7ddb54c6a8029ea33f95796bf2ac4a"
                + "1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db21993c62ce81883d2dd1b51a28")
        let ephemeral = try secret(hexadecimal("f4ec9b33b792c372c1d2c2063507b684ef925b8c75a42dbcbf57d63ccd381600"))
        let recipient = try secret(hexadecimal("8057991eef8f1f1af18f4a9491d16a1ce333f695d4db8e38da75975c4478e0fb"))
        let publicKey = bytes(X25519.publicKey(of: recipient))
        var sealed = zeros(text.count + HPKE.overhead)
        var output = sealed.mutableSpan
        try HPKE.seal(
            text.span, to: publicKey.span, ephemeral: ephemeral, info: info.span,
            associatedData: data.span, into: &output)
        guard sealed == answer, try opens(sealed, recipient, info, data) == text else { return false }
        for index in [0, 31, 32, sealed.count - 17, sealed.count - 16, sealed.count - 1] {
            var changed = sealed
            changed[index] ^= 1
            guard try opens(changed, recipient, info, data) == nil else { return false }
        }
        guard try opens(sealed, recipient, info, data + [0]) == nil else { return false }
        return try opens(sealed, recipient, [], data) == nil
    }

    private static func opens(
        _ sealed: [UInt8], _ key: borrowing SecretKey, _ info: [UInt8], _ data: [UInt8]
    ) throws(SodiumError) -> [UInt8]? {
        var text = zeros(sealed.count - HPKE.overhead)
        var output = text.mutableSpan
        let isRight = try HPKE.open(
            sealed.span, privateKey: key, info: info.span,
            associatedData: data.span, into: &output)
        return isRight ? text : nil
    }

    /// The reference implementation (argon2-cffi): one lane, 64 KiB, two passes. RFC 9106's own vector has four lanes.
    @Sendable static func argonHolds() throws(SodiumError) -> Bool {
        let (password, salt) = (Array("password".utf8), counting(0, 16))
        let key = try PasswordHash.hash(
            password.span, salt: salt.span,
            parameters: Argon2Parameters(passes: 2, memory: 64 << 10))
        return key.isEqual(
            to: try secret(hexadecimal("716882821df77bc6414358b07159fb63ca1c90beaeb9d0ca0e43bd887dcf2ca9")))
    }
}

/// `count` bytes, counting up from `first`.
private func counting(_ first: Int, _ count: Int) -> [UInt8] {
    (first..<first + count).map { UInt8(truncatingIfNeeded: $0) }
}

private func zeros(_ count: Int) -> [UInt8] { [UInt8](repeating: 0, count: count) }

private func bytes<let count: Int>(_ array: InlineArray<count, UInt8>) -> [UInt8] { array.indices.map { array[$0] } }

/// The bytes of a vector's hexadecimal text.
private func hexadecimal(_ text: String) -> [UInt8] {
    let digits = text.utf8.map { $0 >= UInt8(ascii: "a") ? $0 - UInt8(ascii: "a") + 10 : $0 - UInt8(ascii: "0") }
    return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}
