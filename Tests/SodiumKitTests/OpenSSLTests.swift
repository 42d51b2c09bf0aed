// OpenSSL's contexts: where they are, what they keep of a key, and when they are given back. And the choice of a suite.

import HostSystem
import Testing
import VolumeFormat

@testable import SodiumKit

struct OpenSSLTests {
    @Test func itRunsOnEveryMachine() {
        #expect(CipherBackend.openSSL.isAvailable(for: .aes256GCM))
    }

    @Test func aContextIsInLockedMemory() throws {
        let flags = unsafe try #require(memoryFlags(of: UInt(bitPattern: OpenSSL.context())))
        #expect(flags.isSuperset(of: flagsOfSecrets))
    }

    /// A context after a block with one key is that after the same block with another. Only the tags differ, which are public.
    @Test(arguments: [1, 16, 100, 768, 4060], [true, false])
    func aContextKeepsNothingOfAKey(count: Int, isTagRight: Bool) throws {
        let (nonce, text) = (randomArray(12), randomArray(count))
        func context(after keyBytes: [UInt8]) throws -> [UInt8] {
            let cipher = try BlockCipher(suite: .aes256GCM, key: try key(keyBytes), backend: .openSSL)
            var sealed = [UInt8](repeating: 0, count: count + 16)
            withMutableBytes(&sealed) {
                cipher.seal(text.span, nonce: nonce.span, associatedData: text.span, into: &$0)
            }
            if !isTagRight { sealed[count] ^= 1 }
            var plain = [UInt8](repeating: 0, count: count)
            let isRight = withMutableBytes(&plain) {
                cipher.open(sealed.span, nonce: nonce.span, associatedData: text.span, into: &$0)
            }
            #expect(isRight == isTagRight)
            let bytes = unsafe Array(
                UnsafeRawBufferPointer(start: OpenSSL.context(), count: OpenSSL.contextSize))
            return without(Array(sealed.suffix(16)), bytes)
        }
        let keyBytes = randomArray(32)
        let one = try context(after: keyBytes)
        #expect(try one == context(after: randomArray(32)))
        #expect(one.contains { $0 != 0 })
    }

    /// `bytes` with zeros in place of every `part`.
    private func without(_ part: [UInt8], _ bytes: [UInt8]) -> [UInt8] {
        var result = bytes
        for start in 0...bytes.count - part.count where bytes[start..<start + part.count].elementsEqual(part) {
            for index in start..<start + part.count { result[index] = 0 }
        }
        return result
    }

    @Test func aThreadThatEndsGivesItsContextBack() throws {
        let addresses = Lock<Set<UInt>>([])
        for _ in 0..<200 {
            let thread = BackgroundThread(name: "context") {
                let address = unsafe UInt(bitPattern: OpenSSL.context())
                addresses.withLock { _ = $0.insert(address) }
            }
            try #require(thread).join()
        }
        // Other tests use contexts meanwhile.
        let count = addresses.withLock { $0.count }
        #expect((1..<100).contains(count))
    }

    /// The kernel's list of the processor's features says the same.
    @Test func aNewVolumeHasTheSuiteOfTheProcessor() throws {
        let features = try #require(AvailableMemory.readSmallFile("/proc/cpuinfo"))
        let words = features.split { $0 == " " || $0 == "\t" || $0 == "\n" }
        let hasAES = words.contains("aes") && (words.contains("pclmulqdq") || words.contains("pmull"))
        #expect(CipherSuite.preferred == (hasAES ? .aes256GCM : .xChaCha20Poly1305))
    }
}
