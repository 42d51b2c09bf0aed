// Known-answer tests. A primitive that does not give the published result is never used.

internal import CSodium
import VolumeFormat

/// The reason why keys must not be used here.
package enum SelfTestFailure: Error, Equatable, Sendable {
    /// This primitive, run by this code, gives a wrong result, so the library or the processor is broken.
    case wrong(primitive: String)
    /// There is not enough memory for the tests.
    case memory(SodiumError)
}

/// One primitive as protectfs uses it, with the test of its known answers.
struct KnownAnswer: Sendable {
    let primitive: String
    let holds: @Sendable () throws(SodiumError) -> Bool
}

/// The tests that run before the first key is used. The vectors are those of public standards. If a standard has none of the
/// size in use, another implementation has made them, which is named beside it.
package enum SelfTest {
    /// Runs all of them in a few milliseconds. They use no secrets.
    ///
    /// - Throws: at the first wrong answer.
    package static func run() throws(SelfTestFailure) {
        do throws(SodiumError) { _ = try unsafe ThreadScratch.prepared() } catch { throw .memory(error) }
        try run(all)
    }

    static func run(_ answers: [KnownAnswer]) throws(SelfTestFailure) {
        for answer in answers {
            let holds: Bool
            do throws(SodiumError) {
                holds = try answer.holds()
            } catch .invalidPublicKey {
                holds = false
            } catch {
                throw .memory(error)
            }
            guard holds else { throw .wrong(primitive: answer.primitive) }
        }
    }

    static var all: [KnownAnswer] {
        // This comes first, because its digest is used to compare the answers of others.
        var answers = [KnownAnswer(primitive: "BLAKE2b (libsodium)", holds: HashAnswers.blakeHolds)]
        let backend = CipherBackend.best(for: .aes256GCM)
        answers.append(
            KnownAnswer(primitive: "AES-256-GCM (\(backend.rawValue))") { () throws(SodiumError) in
                guard backend.isAvailable(for: .aes256GCM) else { return false }
                return try GCMAnswers.hold(BlockFunctions(.aes256GCM, backend))
            })
        return answers + [
            KnownAnswer(primitive: "XChaCha20-Poly1305 (libsodium)") { () throws(SodiumError) in
                guard try XChaChaAnswers.hold(BlockFunctions(.xChaCha20Poly1305, .sodium)) else { return false }
                return try XChaChaAnswers.hold(.xChaCha)
            },
            KnownAnswer(primitive: "XChaCha20 (libsodium)", holds: XChaChaAnswers.streamHolds),
            KnownAnswer(primitive: "HMAC-SHA-256 (libsodium)", holds: HashAnswers.hmacHolds),
            KnownAnswer(primitive: "X25519 (libsodium)", holds: KeyAnswers.agreementHolds),
            KnownAnswer(primitive: "HPKE (libsodium)", holds: KeyAnswers.hpkeHolds),
            KnownAnswer(primitive: "Argon2id (libsodium)", holds: KeyAnswers.argonHolds),
            KnownAnswer(primitive: "comparison in constant time (libsodium)", holds: HashAnswers.comparisonHolds),
        ]
    }
}

/// An AEAD as functions of bytes, so that a test can put a broken one in its place.
struct BlockFunctions: Sendable {
    typealias Seal =
        @Sendable (_ key: [UInt8], _ nonce: [UInt8], _ text: [UInt8], _ data: [UInt8])
        throws(SodiumError) -> [UInt8]
    typealias Open =
        @Sendable (_ key: [UInt8], _ nonce: [UInt8], _ sealed: [UInt8], _ data: [UInt8])
        throws(SodiumError) -> (isRight: Bool, text: [UInt8])

    /// Ciphertext, then tag.
    var seal: Seal
    /// Whether the tag is right, and the plaintext.
    var open: Open

    init(seal: @escaping Seal, open: @escaping Open) {
        self.seal = seal
        self.open = open
    }

    /// Blocks of files: sealed in place, as pages are, and opened into other memory, as reads do.
    init(_ suite: CipherSuite, _ backend: CipherBackend) {
        seal = { (key, nonce, text, data) throws(SodiumError) in
            let cipher = try BlockCipher(suite: suite, key: try secret(key), backend: backend)
            var block = nonce + text + [UInt8](repeating: 0, count: CipherSuite.tagLength)
            var bytes = block.mutableSpan
            cipher.seal(&bytes, place(suite, text.count), associatedData: data.span)
            return Array(block.dropFirst(nonce.count))
        }
        open = { (key, nonce, sealed, data) throws(SodiumError) in
            let cipher = try BlockCipher(suite: suite, key: try secret(key), backend: backend)
            let count = sealed.count - CipherSuite.tagLength
            let block = nonce + sealed
            var text = [UInt8](repeating: 0, count: count)
            var output = text.mutableSpan
            let isRight = cipher.open(
                block.span, place(suite, count), into: &output, at: 0,
                associatedData: data.span)
            return (isRight, text)
        }
    }

    /// Small data.
    static let xChaCha = BlockFunctions(
        seal: { (key, nonce, text, data) throws(SodiumError) in
            let key = try secret(key)
            var sealed = [UInt8](repeating: 0, count: text.count + XChaCha.tagLength)
            var output = sealed.mutableSpan
            XChaCha.seal(
                text.span, key: key, nonce: nonce.span,
                associatedData: data.span, into: &output)
            return sealed
        },
        open: { (key, nonce, sealed, data) throws(SodiumError) in
            let key = try secret(key)
            var text = [UInt8](repeating: 0, count: sealed.count - XChaCha.tagLength)
            var output = text.mutableSpan
            let isRight = XChaCha.open(
                sealed.span, key: key, nonce: nonce.span,
                associatedData: data.span, into: &output)
            return (isRight, text)
        })

    /// Whether `text` becomes `sealed` and comes back, and does not once a bit of anything is changed.
    func give(_ vector: SealedVector) throws(SodiumError) -> Bool {
        guard try seal(vector.key, vector.nonce, vector.text, vector.data) == vector.sealed else { return false }
        let (isRight, text) = try open(vector.key, vector.nonce, vector.sealed, vector.data)
        guard isRight, text == vector.text else { return false }
        let tag = vector.text.count
        for index in [0, tag - 1, tag, tag + 7, tag + 15] {
            var changed = vector.sealed
            changed[index] ^= 0x80
            guard try refuses(vector.key, vector.nonce, changed, vector.data) else { return false }
        }
        var (key, nonce) = (vector.key, vector.nonce)
        key[31] ^= 1
        nonce[nonce.count - 1] ^= 1
        guard try refuses(key, vector.nonce, vector.sealed, vector.data) else { return false }
        guard try refuses(vector.key, nonce, vector.sealed, vector.data) else { return false }
        return try refuses(vector.key, vector.nonce, vector.sealed, vector.data + [0])
    }

    private func refuses(
        _ key: [UInt8], _ nonce: [UInt8], _ sealed: [UInt8], _ data: [UInt8]
    ) throws(SodiumError) -> Bool {
        let (isRight, text) = try open(key, nonce, sealed, data)
        return !isRight && text.allSatisfy { $0 == 0 }
    }
}

/// The result of an AEAD for a text.
struct SealedVector {
    var key: [UInt8]
    var nonce: [UInt8]
    var text: [UInt8]
    var data: [UInt8]
    /// Ciphertext, then tag.
    var sealed: [UInt8]
}

private func place(_ suite: CipherSuite, _ count: Int) -> BlockPlace {
    BlockPlace(nonce: 0, text: suite.nonceLength..<suite.nonceLength + count, tag: suite.nonceLength + count)
}

/// The key of a public vector.
func secret(_ bytes: [UInt8]) throws(SodiumError) -> SecretKey { try SecretKey(copying: bytes.span) }
