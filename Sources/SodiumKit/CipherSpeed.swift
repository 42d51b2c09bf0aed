// Measures the speed of each cipher on this machine, for `protectfs speed`.

internal import HostSystem
package import VolumeFormat

/// The speed of one cipher on one core with 4 KiB blocks in memory.
package struct CipherSpeed: Sendable {
    /// The cipher.
    package let suite: CipherSuite
    /// The code that ran it.
    package let backend: CipherBackend
    /// Whether a volume of this suite uses this code here.
    package let isUsed: Bool
    /// Encryption, bytes per second.
    package let sealBytesPerSecond: Double
    /// Decryption, bytes per second.
    package let openBytesPerSecond: Double
}

/// Bytes of a block with nonce, field and tag, as in a volume.
private let blockSize = PageGeometry.pageSize
private let fieldLength = PageGeometry.fieldLength
private let tagLength = PageGeometry.tagLength

/// Runs every cipher that this machine has for about `milliseconds` in each direction.
package func measureCiphers(milliseconds: UInt64 = 100) throws(SodiumError) -> [CipherSpeed] {
    var result: [CipherSpeed] = []
    for suite in CipherSuite.allCases {
        for backend in CipherBackend.allCases where backend.isAvailable(for: suite) {
            let cipher = try BlockCipher(suite: suite, key: try SecretKey.random(), backend: backend)
            var buffer = try BufferPool.shared.take(atLeast: BufferPool.smallCapacity)
            let isUsed = CipherBackend.best(for: suite) == backend
            let pages = 7
            let seal = rate(milliseconds, bytes: pages * blockSize) {
                buffer.withMutableBytes(count: pages * blockSize) { bytes in
                    for page in 0..<pages {
                        cipher.seal(&bytes, place(page, suite), associatedData: Span<UInt8>())
                    }
                }
            }
            var output = try BufferPool.shared.take(atLeast: BufferPool.smallCapacity)
            let open = rate(milliseconds, bytes: pages * blockSize) {
                buffer.withBytes(count: pages * blockSize) { bytes in
                    output.withMutableBytes(count: blockSize) { output in
                        for page in 0..<pages {
                            _ = cipher.open(
                                bytes, place(page, suite), into: &output, at: 0, associatedData: Span<UInt8>())
                        }
                    }
                }
            }
            result.append(
                CipherSpeed(
                    suite: suite, backend: backend, isUsed: isUsed, sealBytesPerSecond: seal, openBytesPerSecond: open))
        }
    }
    return result
}

private func place(_ page: Int, _ suite: CipherSuite) -> BlockPlace {
    let start = page * blockSize
    let tag = start + blockSize - tagLength
    return BlockPlace(nonce: start, text: start + suite.nonceLength + fieldLength..<tag, tag: tag)
}

private func rate(_ milliseconds: UInt64, bytes: Int, _ body: () -> Void) -> Double {
    let start = monotonicNanoseconds()
    var now = start
    var rounds = 0
    repeat {
        body()
        rounds += 1
        now = monotonicNanoseconds()
    } while now - start < milliseconds * 1_000_000
    return Double(rounds) * Double(bytes) * 1_000_000_000 / Double(now - start)
}
