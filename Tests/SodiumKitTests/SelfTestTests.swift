// The known-answer tests: they hold here, and each of them notices a primitive that is broken in the way it looks for.

import HostSystem
import Testing
import VolumeFormat

@testable import SodiumKit

struct SelfTestTests {
    private static let backends = CipherBackend.allCases.filter { $0.isAvailable(for: .aes256GCM) }

    @Test func everyPrimitiveHolds() throws {
        try SelfTest.run()
        #expect(SelfTest.all.count == 9)
        #expect(Set(SelfTest.all.map(\.primitive)).count == SelfTest.all.count)
    }

    @Test func itIsQuick() throws {
        try SelfTest.run()
        let best =
            try (0..<5).map { _ in
                let start = monotonicNanoseconds()
                try SelfTest.run()
                return monotonicNanoseconds() - start
            }.min() ?? .max
        print("self-test: \(best / 1000) µs")
        // A debug build, and a busy machine.
        #expect(best < 2_000_000_000)
    }

    @Test func theFirstThatFailsIsNamed() {
        let answers = [
            KnownAnswer(primitive: "one") { true }, KnownAnswer(primitive: "two") { false },
            KnownAnswer(primitive: "three") { false },
        ]
        #expect(throws: SelfTestFailure.wrong(primitive: "two")) { try SelfTest.run(answers) }
        // No memory is no verdict on a primitive; a key agreement that refuses a good key is one.
        let throwing: @Sendable (SodiumError) -> [KnownAnswer] = { error in
            [KnownAnswer(primitive: "x") { () throws(SodiumError) in throw error }]
        }
        #expect(throws: SelfTestFailure.memory(.outOfMemory)) { try SelfTest.run(throwing(.outOfMemory)) }
        #expect(throws: SelfTestFailure.wrong(primitive: "x")) { try SelfTest.run(throwing(.invalidPublicKey)) }
    }

    /// A wrong bit in what comes out, at one length only: every path of a library that works on many blocks at once.
    @Test(arguments: backends, [1, 15, 16, 17, 64, 255, 256, 257, 768, 1024, 4060, 4096])
    func aWrongBitAtOneLengthIsFound(backend: CipherBackend, length: Int) throws {
        var sealing = BlockFunctions(.aes256GCM, backend)
        let right = sealing
        #expect(try GCMAnswers.hold(right))
        sealing.seal = { (key, nonce, text, data) throws(SodiumError) in
            var sealed = try right.seal(key, nonce, text, data)
            if text.count == length { sealed[length - 1] ^= 4 }
            return sealed
        }
        #expect(try !GCMAnswers.hold(sealing))
        var opening = right
        opening.open = { (key, nonce, sealed, data) throws(SodiumError) in
            var (isRight, text) = try right.open(key, nonce, sealed, data)
            if text.count == length { text[0] ^= 1 }
            return (isRight, text)
        }
        #expect(try !GCMAnswers.hold(opening))
    }

    /// Encryption and decryption that are wrong in the same way agree with each other.
    @Test func aConsistentErrorIsFound() throws {
        for (functions, holds) in [
            (BlockFunctions(.aes256GCM, try #require(Self.backends.first)), GCMAnswers.hold),
            (BlockFunctions(.xChaCha20Poly1305, .sodium), XChaChaAnswers.hold), (.xChaCha, XChaChaAnswers.hold),
        ] {
            #expect(try holds(functions))
            let wrong = BlockFunctions(
                seal: { (key, nonce, text, data) throws(SodiumError) in
                    try functions.seal(key, nonce.reversed(), text, data)
                },
                open: { (key, nonce, sealed, data) throws(SodiumError) in
                    try functions.open(key, nonce.reversed(), sealed, data)
                })
            #expect(try !holds(wrong))
        }
    }

    @Test func aTagThatIsNotComparedIsFound() throws {
        for (functions, holds) in [
            (BlockFunctions(.aes256GCM, try #require(Self.backends.first)), GCMAnswers.hold),
            (BlockFunctions(.xChaCha20Poly1305, .sodium), XChaChaAnswers.hold), (.xChaCha, XChaChaAnswers.hold),
        ] {
            var accepting = functions
            accepting.open = { (key, nonce, sealed, data) throws(SodiumError) in
                (true, try functions.open(key, nonce, sealed, data).text)
            }
            #expect(try !holds(accepting))
            // Refused, but the plaintext was left there.
            var leaving = functions
            leaving.open = { (key, nonce, sealed, data) throws(SodiumError) in
                let (isRight, text) = try functions.open(key, nonce, sealed, data)
                return (isRight, isRight ? text : text.map { _ in 1 })
            }
            #expect(try !holds(leaving))
        }
    }
}
