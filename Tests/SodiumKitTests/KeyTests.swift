// Derivation, MACs, XChaCha20, HPKE and Argon2id against vectors made elsewhere.

import Testing

@testable import SodiumKit

struct KeyTests {
    @Test func derivedKeysAreThoseOfAnotherImplementation() throws {
        // Python's hashlib.blake2b(bytes([len(label)]) + label + context, key=key, digest_size=32).
        let context = (0..<16).map { UInt8($0) }
        let one = try deriveKey(
            from: try countingKey(), label: "protectfs1/header", context: context.span)
        #expect(array(one) == hex("dd69e2b36fbc48eb372ebca458352fd9c3d2209f85ca4cc1abc526253d1fcbb1"))
        let two = try deriveKey(fromSecret: context.span, label: "protectfs1/header")
        #expect(array(two) == hex("7d4823b0fb8f6a18abfdf3a0cfcbf1f5bb61d1c38cb5da7dacb0ef57b9bcff64"))
    }

    @Test func macsAreThoseOfAnotherImplementation() throws {
        let key = try countingKey()
        let abc = Array("abc".utf8)
        let def = Array("def".utf8)
        #expect(
            array(mac128(key, abc.span, def.span)) == hex("9354937c2934ef80443588f91cfe4c6c"))
        let expected = hex("4b27895482b5a5b9dc579b795d730c2adf4d190169065b22be5c1f913365c399")
        #expect(array(mac256(key, abc.span, def.span)) == expected)
        let whole = abc + def
        #expect(array(mac256(key, whole.span)) == expected)
        #expect(
            array(hash256(abc.span))
                == hex("bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319"))
    }

    @Test func comparisonLooksAtEveryByte() {
        let one = randomArray(40)
        let isItself = constantTimeEqual(one.span, one.span)
        #expect(isItself)
        let isEqual = constantTimeEqual(Span<UInt8>(), Span<UInt8>())
        #expect(isEqual)
        let shorter = Array(one.dropLast())
        let isPrefix = constantTimeEqual(one.span, shorter.span)
        #expect(!isPrefix)
        for index in one.indices {
            var other = one
            other[index] ^= 1
            let isChanged = !constantTimeEqual(one.span, other.span)
            #expect(isChanged)
        }
    }

    @Test(arguments: [0, 1, 63, 64, 65, 175, 4096])
    func theStreamFromCounterOneIsTheAEADWithoutItsTag(count: Int) throws {
        let key = try SecretKey.random()
        let nonce = randomArray(16) + [UInt8](repeating: 0, count: 8)
        let text = randomArray(count)
        var stream = text
        withMutableBytes(&stream) { XChaCha.applyStream(to: &$0, key: key, nonce: nonce.span) }
        var sealed = [UInt8](repeating: 0, count: count + 16)
        withMutableBytes(&sealed) {
            XChaCha.seal(text.span, key: key, nonce: nonce.span, into: &$0)
        }
        #expect(stream == Array(sealed.dropLast(16)))
        let secret = try XChaCha.openBytes(sealed.span, key: key, nonce: nonce.span)
        let opened = optionalArray(secret)
        #expect(opened == text)
        sealed[Int.random(in: 0..<sealed.count)] ^= 4
        let tampered = try XChaCha.openBytes(sealed.span, key: key, nonce: nonce.span) == nil
        #expect(tampered)
        let short = Array(sealed.prefix(15))
        let isShort = try XChaCha.openBytes(short.span, key: key, nonce: nonce.span) == nil
        #expect(isShort)
    }

    /// RFC 9180, A.2.1: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20Poly1305, base mode, sequence number 0.
    private struct Vector {
        let info = hex("4f6465206f6e2061204772656369616e2055726e")
        let ephemeral = hex("f4ec9b33b792c372c1d2c2063507b684ef925b8c75a42dbcbf57d63ccd381600")
        let recipient = hex("8057991eef8f1f1af18f4a9491d16a1ce333f695d4db8e38da75975c4478e0fb")
        let recipientPublic = hex("4310ee97d88cc1f088a5576c77ab0cf5c3ac797f3d95139c6c84b5429c59662a")
        let encapsulated = hex("1afa08d3dec047a643885163f1180476fa7ddb54c6a8029ea33f95796bf2ac4a")
        let shared = hex("0bbe78490412b4bbea4812666f7916932b828bba79942424abb65244930d69a7")
        let key = hex("ad2744de8e17f4ebba575b3f5f5a8fa1f69c2a07f6e7500bc60ca6e3e3ec1c91")
        let nonce = hex("5c4d98150661b848853b547f")
        let data = hex("436f756e742d30")
        let text = hex("4265617574792069732074727574682c20747275746820626561757479")
        let sealed = hex(
            "1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db21993c62ce81883d2dd1b51a28")
    }

    @Test func ed25519SignsAsTheRFC() throws {
        // RFC 8032, 7.1, test 2.
        let seed = try key(hex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"))
        let publicKey = try Ed25519.publicKey(of: seed)
        #expect(array(publicKey) == hex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"))
        let message: [UInt8] = [0x72]
        let signature = try Ed25519.signature(over: message.span, by: seed)
        let expected =
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
            + "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
        #expect(signature == hex(expected))
        func isValid(_ signature: [UInt8], over message: [UInt8]) -> Bool {
            Ed25519.isValid(signature.span, over: message.span, by: publicKey)
        }
        #expect(isValid(signature, over: message) && !isValid(signature, over: signature))
        #expect(!isValid(Array(signature.dropLast()), over: message))
    }

    @Test func hpkeSealsAsTheRFC() throws {
        let vector = Vector()
        let ephemeral = try key(vector.ephemeral)
        #expect(array(X25519.publicKey(of: ephemeral)) == vector.encapsulated)
        var output = [UInt8](repeating: 0, count: vector.text.count + HPKE.overhead)
        try withMutableBytes(&output) { output in
            try HPKE.seal(
                vector.text.span, to: vector.recipientPublic.span, ephemeral: ephemeral,
                info: vector.info.span, associatedData: vector.data.span, into: &output)
        }
        #expect(output == vector.encapsulated + vector.sealed)
    }

    @Test func hpkeOpensAsTheRFC() throws {
        let vector = Vector()
        let recipient = try key(vector.recipient)
        #expect(array(X25519.publicKey(of: recipient)) == vector.recipientPublic)
        let sealed = vector.encapsulated + vector.sealed
        var output = [UInt8](repeating: 0, count: vector.text.count)
        let isRight = try withMutableBytes(&output) { output in
            try HPKE.open(
                sealed.span, privateKey: recipient, info: vector.info.span,
                associatedData: vector.data.span, into: &output)
        }
        #expect(isRight && output == vector.text)
        for index in sealed.indices {
            var tampered = sealed
            tampered[index] ^= 1
            let isRight = try withMutableBytes(&output) { output in
                try HPKE.open(
                    tampered.span, privateKey: recipient, info: vector.info.span,
                    associatedData: vector.data.span, into: &output)
            }
            #expect(!isRight, "byte \(index)")
        }
    }

    @Test func hpkeWrapsKeys() throws {
        let recipient = try SecretKey.random()
        let publicKey = array(X25519.publicKey(of: recipient))
        let wrapped = try SecretKey.random()
        let info = randomArray(64)
        let data = randomArray(64)
        var output = [UInt8](repeating: 0, count: 80)
        try withMutableBytes(&output) { output in
            try wrapped.withBytes { bytes in
                try HPKE.seal(
                    bytes, to: publicKey.span, info: info.span, associatedData: data.span,
                    into: &output)
            }
        }
        let secret = try HPKE.openKey(
            output.span, privateKey: recipient, info: info.span, associatedData: data.span)
        #expect(optionalArray(secret) == array(wrapped))
        let other = try HPKE.openKey(
            output.span, privateKey: wrapped, info: info.span, associatedData: data.span)
        #expect(optionalArray(other) == nil)
    }

    @Test func aPublicKeyOfLowOrderIsRefused() throws {
        let zero = [UInt8](repeating: 0, count: 32)
        var output = [UInt8](repeating: 0, count: 80)
        #expect(throws: SodiumError.invalidPublicKey) {
            try withMutableBytes(&output) { output in
                try HPKE.seal(
                    zero.span, to: zero.span, info: Span<UInt8>(), associatedData: Span<UInt8>(), into: &output)
            }
        }
        let recipient = try SecretKey.random()
        let sealed = try HPKE.openKey(
            [UInt8](repeating: 0, count: 80).span, privateKey: recipient, info: Span<UInt8>(),
            associatedData: Span<UInt8>())
        #expect(optionalArray(sealed) == nil)
    }

    @Test func argon2idIsThatOfAnotherImplementation() throws {
        // Python's cryptography: Argon2id(salt=bytes(range(16)), length=32, iterations=3, lanes=1, memory_cost=8192).
        let password = Array("password".utf8)
        let salt = (0..<16).map { UInt8($0) }
        let parameters = Argon2Parameters(passes: 3, memory: 8 << 20)
        let key = try PasswordHash.argon2id(
            password.span, salt: salt.span, parameters: parameters)
        #expect(array(key) == hex("c73cd0839f0457959748cb78a6de6277bfd15defe79d4bb4864890fe68b3e048"))
        // An empty password is hashed too; what to think of it is not for this layer to say.
        let empty = try PasswordHash.argon2id(Span<UInt8>(), salt: salt.span, parameters: parameters)
        #expect(array(empty) != array(key))
    }

    @Test func parametersOutsideOfTheRangeAreRefused() {
        let largest: UInt64 = 1 << 30
        #expect(Argon2Parameters(passes: 1, memory: 8 << 20).isAcceptable(largestMemory: largest))
        #expect(Argon2Parameters(passes: 16, memory: 1 << 30).isAcceptable(largestMemory: largest))
        for (passes, memory) in [
            (0, 64 << 20), (17, 64 << 20), (3, 8 << 20 - 1024), (3, 1 << 30 + 1024), (3, 64 << 20 + 1),
            (UInt32.max, UInt64.max), (3, 0),
        ] as [(UInt32, UInt64)] {
            #expect(!Argon2Parameters(passes: passes, memory: memory).isAcceptable(largestMemory: largest))
        }
        let salt = randomArray(16)
        #expect(throws: SodiumError.passwordHashMemory) {
            _ = try PasswordHash.argon2id(
                salt.span, salt: salt.span,
                parameters: Argon2Parameters(passes: 3, memory: 1 << 60)
            ).isEqual(to: try SecretKey())
        }
    }

    @Test func calibrationStaysWithinItsBounds() throws {
        let parameters = try PasswordHash.calibrated(seconds: 0.1)
        #expect(parameters.isAcceptable())
        #expect(parameters.passes >= 3 && parameters.memory >= 64 << 20)
    }
}

struct AvailableMemoryTests {
    private static let meminfo = "MemTotal: 16000000 kB\nMemFree: 1 kB\nMemAvailable:    8000000 kB\n"

    private func bytes(_ files: [String: String]) -> UInt64 {
        AvailableMemory.bytes { files[$0] }
    }

    @Test func withoutCgroupTheMachineCounts() {
        #expect(bytes(["/proc/meminfo": Self.meminfo]) == 8_000_000 * 1024)
        #expect(bytes([:]) == 1 << 30)
        #expect(bytes(["/proc/meminfo": "MemAvailable: x kB"]) == 1 << 30)
    }

    @Test func theTightestCgroupOfVersionTwoCounts() {
        let files = [
            "/proc/meminfo": Self.meminfo, "/proc/self/cgroup": "0::/a/b\n",
            "/sys/fs/cgroup/a/memory.max": "500000000\n", "/sys/fs/cgroup/a/memory.current": "300000000\n",
            "/sys/fs/cgroup/a/memory.stat": "anon 1\ninactive_file 100000000\n",
            "/sys/fs/cgroup/a/b/memory.max": "max\n",
        ]
        #expect(bytes(files) == 300_000_000)
    }

    @Test func insideAContainerTheRootStandsForThePath() {
        let files = [
            "/proc/meminfo": Self.meminfo, "/proc/self/cgroup": "0::/not/visible/here\n",
            "/sys/fs/cgroup/memory.max": "400000000\n", "/sys/fs/cgroup/memory.current": "500000000\n",
        ]
        #expect(bytes(files) == 0)
    }

    @Test func versionOneCounts() {
        let files = [
            "/proc/meminfo": Self.meminfo, "/proc/self/cgroup": "5:cpu,memory:/x\n1:name=systemd:/x\n",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
            "/sys/fs/cgroup/memory/x/memory.limit_in_bytes": "250000000",
            "/sys/fs/cgroup/memory/x/memory.usage_in_bytes": "50000000",
        ]
        #expect(bytes(files) == 200_000_000)
    }

    @Test func thisMachineHasSome() {
        #expect(AvailableMemory.bytes() > 1 << 20)
    }
}
