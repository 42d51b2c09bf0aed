// Block ciphers: published vectors, both implementations of AES-256-GCM against each other.

import Testing
import VolumeFormat

@testable import SodiumKit

/// A block sealed by one backend: nonce ‖ ciphertext ‖ tag.
private func sealed(
    _ suite: CipherSuite, _ backend: CipherBackend, _ keyBytes: [UInt8], _ nonce: [UInt8], _ text: [UInt8],
    _ data: [UInt8]
) throws -> [UInt8] {
    let cipher = try BlockCipher(suite: suite, key: try key(keyBytes), backend: backend)
    var buffer = nonce + text + [UInt8](repeating: 0, count: 16)
    withMutableBytes(&buffer) { bytes in
        cipher.seal(&bytes, place(suite, text.count), associatedData: data.span)
    }
    return buffer
}

private func opened(
    _ suite: CipherSuite, _ backend: CipherBackend, _ keyBytes: [UInt8], _ block: [UInt8], _ data: [UInt8]
) throws -> (isRight: Bool, text: [UInt8]) {
    let cipher = try BlockCipher(suite: suite, key: try key(keyBytes), backend: backend)
    var buffer = block
    let place = place(suite, block.count - suite.nonceLength - 16)
    let isRight = withMutableBytes(&buffer) { bytes in
        cipher.open(&bytes, place, associatedData: data.span)
    }
    // The other way of opening says the same.
    var output = [UInt8](repeating: 0xFF, count: place.text.count + 7)
    let isRightToo = withMutableBytes(&output) { output in
        cipher.open(block.span, place, into: &output, at: 7, associatedData: data.span)
    }
    #expect(isRight == isRightToo)
    #expect(Array(output.dropFirst(7)) == Array(buffer[place.text]))
    #expect(output.prefix(7).allSatisfy { $0 == 0xFF })
    return (isRight, Array(buffer[place.text]))
}

private func place(_ suite: CipherSuite, _ count: Int) -> BlockPlace {
    BlockPlace(nonce: 0, text: suite.nonceLength..<suite.nonceLength + count, tag: suite.nonceLength + count)
}

private let backends: [(CipherSuite, CipherBackend)] = CipherSuite.allCases.flatMap { suite in
    CipherBackend.allCases.filter { $0.isAvailable(for: suite) }.map { (suite, $0) }
}

struct CipherTests {
    @Test func aesGCMVector() throws {
        // The GCM specification's test case 16 (McGrew, Viega).
        let keyBytes = hex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308")
        let text = hex(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
                + "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39")
        let expected = hex(
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
                + "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b")
        for (suite, backend) in backends where suite == .aes256GCM {
            let block = try sealed(
                suite, backend, keyBytes, hex("cafebabefacedbaddecaf888"), text,
                hex("feedfacedeadbeeffeedfacedeadbeefabaddad2"))
            #expect(Array(block.dropFirst(12)) == expected, "\(backend)")
        }
    }

    @Test func xChaChaVector() throws {
        // draft-irtf-cfrg-xchacha-03, A.3.1.
        let text = Array(
            ("Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
                + "sunscreen would be it.").utf8)
        let expected = hex(
            "bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb731c7f1b0b4aa6440bf3a82f4eda7e39"
                + "ae64c6708c54c216cb96b72e1213b4522f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3fff9"
                + "21f9664c97637da9768812f615c68b13b52ec0875924c1c7987947deafd8780acf49")
        let keyBytes = (0x80...0x9F).map { UInt8($0) }
        let nonce = (0x40...0x57).map { UInt8($0) }
        let data = hex("50515253c0c1c2c3c4c5c6c7")
        let block = try sealed(.xChaCha20Poly1305, .sodium, keyBytes, nonce, text, data)
        #expect(Array(block.dropFirst(24)) == expected)
        var output = [UInt8](repeating: 0, count: text.count + 16)
        let secret = try key(keyBytes)
        withMutableBytes(&output) { output in
            XChaCha.seal(
                text.span, key: secret, nonce: nonce.span, associatedData: data.span, into: &output)
        }
        #expect(output == expected)
    }

    @Test(.enabled(if: CipherBackend.ipsecMB.isAvailable(for: .aes256GCM), "IPsec-MB is not for this processor"))
    func bothImplementationsMakeTheSameBytes() throws {
        let sizes = [1, 15, 16, 17, 63, 64, 3932, 4060, 4096] + (0..<200).map { _ in Int.random(in: 1...9000) }
        for size in sizes {
            let keyBytes = randomArray(32)
            let nonce = randomArray(12)
            let text = randomArray(size)
            let data = randomArray(Int.random(in: 0...80))
            let one = try sealed(.aes256GCM, .ipsecMB, keyBytes, nonce, text, data)
            let other = try sealed(.aes256GCM, .openSSL, keyBytes, nonce, text, data)
            #expect(one == other, "\(size) bytes")
            for backend in [CipherBackend.ipsecMB, .openSSL] {
                let (isRight, plain) = try opened(.aes256GCM, backend, keyBytes, one, data)
                #expect(isRight && plain == text, "\(backend), \(size) bytes")
            }
        }
    }

    @Test(arguments: backends)
    func anyChangedBitIsRefused(suite: CipherSuite, backend: CipherBackend) throws {
        for _ in 0..<60 {
            let keyBytes = randomArray(32)
            let text = randomArray(Int.random(in: 1...5000))
            let data = randomArray(32)
            let block = try sealed(suite, backend, keyBytes, randomArray(suite.nonceLength), text, data)
            let (isRight, plain) = try opened(suite, backend, keyBytes, block, data)
            #expect(isRight && plain == text)
            // Nonce, text or tag.
            var changed = block
            changed[Int.random(in: 0..<block.count)] ^= 1 << UInt8.random(in: 0...7)
            // The tag.
            var changedTag = block
            changedTag[block.count - 1 - Int.random(in: 0..<16)] ^= 1 << UInt8.random(in: 0...7)
            var changedData = data
            changedData[Int.random(in: 0..<32)] ^= 1
            var otherKey = keyBytes
            otherKey[0] ^= 0x80
            for (keyBytes, block, data) in [
                (keyBytes, changed, data), (keyBytes, changedTag, data), (keyBytes, block, changedData),
                (otherKey, block, data), (keyBytes, block, []),
            ] {
                let (isRight, plain) = try opened(suite, backend, keyBytes, block, data)
                #expect(!isRight)
                #expect(plain.allSatisfy { $0 == 0 })
            }
        }
    }

    @Test(arguments: backends)
    func sealingFromAnotherBufferIsTheSame(suite: CipherSuite, backend: CipherBackend) throws {
        let keyBytes = randomArray(32)
        let nonce = randomArray(suite.nonceLength)
        let text = randomArray(4048)
        let cipher = try BlockCipher(suite: suite, key: try key(keyBytes), backend: backend)
        var buffer = nonce + [UInt8](repeating: 0, count: 4048 + 16)
        withMutableBytes(&buffer) { buffer in
            cipher.seal(text.span, into: &buffer, place(suite, 4048), associatedData: Span<UInt8>())
        }
        #expect(buffer == (try sealed(suite, backend, keyBytes, nonce, text, [])))
    }

    @Test(arguments: backends)
    func ciphertextAndTagInOnePiece(suite: CipherSuite, backend: CipherBackend) throws {
        let keyBytes = randomArray(32)
        let nonce = randomArray(suite.nonceLength)
        let text = randomArray(4048)
        let cipher = try BlockCipher(suite: suite, key: try key(keyBytes), backend: backend)
        var block = [UInt8](repeating: 0, count: 4048 + 16)
        withMutableBytes(&block) { block in
            cipher.seal(text.span, nonce: nonce.span, associatedData: Span<UInt8>(), into: &block)
        }
        #expect(nonce + block == (try sealed(suite, backend, keyBytes, nonce, text, [])))
        var plain = [UInt8](repeating: 0, count: 4048)
        let isRight = withMutableBytes(&plain) { plain in
            cipher.open(block.span, nonce: nonce.span, associatedData: Span<UInt8>(), into: &plain)
        }
        #expect(isRight && plain == text)
        block[4060] ^= 1
        let isRightStill = withMutableBytes(&plain) { plain in
            cipher.open(block.span, nonce: nonce.span, associatedData: Span<UInt8>(), into: &plain)
        }
        #expect(!isRightStill && plain.allSatisfy { $0 == 0 })
    }

    @Test(arguments: backends)
    func oneCipherServesManyThreads(suite: CipherSuite, backend: CipherBackend) async throws {
        let keyBytes = randomArray(32)
        let cipher = try BlockCipher(suite: suite, key: try key(keyBytes), backend: backend)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    for _ in 0..<100 {
                        let text = randomArray(1000)
                        var buffer = randomArray(suite.nonceLength) + text + randomArray(16)
                        let isRight = withMutableBytes(&buffer) { bytes in
                            cipher.seal(&bytes, place(suite, 1000), associatedData: Span<UInt8>())
                            return cipher.open(&bytes, place(suite, 1000), associatedData: Span<UInt8>())
                        }
                        #expect(isRight && Array(buffer[place(suite, 1000).text]) == text)
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    @Test(arguments: backends)
    func aWipedCipherOpensNothing(suite: CipherSuite, backend: CipherBackend) throws {
        let keyBytes = randomArray(32)
        let block = try sealed(suite, backend, keyBytes, randomArray(suite.nonceLength), randomArray(100), [])
        let cipher = try BlockCipher(suite: suite, key: try key(keyBytes), backend: backend)
        cipher.wipe()
        var buffer = block
        #expect(!withMutableBytes(&buffer) { cipher.open(&$0, place(suite, 100), associatedData: Span<UInt8>()) })
    }

    @Test func everyCipherIsMeasured() throws {
        let speeds = try measureCiphers(milliseconds: 2)
        #expect(speeds.count == backends.count)
        #expect(speeds.allSatisfy { $0.sealBytesPerSecond > 0 && $0.openBytesPerSecond > 0 })
        #expect(speeds.filter(\.isUsed).count == CipherSuite.allCases.count)
    }
}
