// Reused buffers for whole pages as they stand on disk: ciphertext and nonces only, so ordinary memory will do.

import HostSystem

/// Room for the pages of one request, and for their nonces.
struct CipherBuffer: Sendable {
    var pages: [UInt8]
    var nonces: [UInt8]

    init(pageCount: Int) {
        pages = [UInt8](repeating: 0, count: pageCount * 4096)
        nonces = [UInt8](repeating: 0, count: pageCount * 24)
    }
}

/// Buffers of two sizes, made when first needed and kept until the next lock.
final class CipherBufferPool: Sendable {
    /// Pages of a large buffer: a request of 1 MiB touches up to 260, and one former last page.
    static let largePages = 264
    /// Pages of a small buffer.
    static let smallPages = 8

    private struct Free {
        var small: [CipherBuffer] = []
        var large: [CipherBuffer] = []
    }

    private let free = Lock(Free())

    /// Gives back what no request holds: as many buffers were kept as requests were ever served at once.
    func trim() {
        // Freed behind the lock, not under it.
        _ = free.withLock { free in
            let old = free
            free = Free()
            return old
        }
    }

    /// Runs `body` with a buffer of at least `pageCount` pages.
    func withBuffer<Result: ~Copyable, Failure: Error>(
        pageCount: Int, _ body: (inout CipherBuffer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        precondition(pageCount <= Self.largePages)
        let isLarge = pageCount > Self.smallPages
        // Popped, so that the arrays have one owner and are never copied.
        var buffer =
            free.withLock { isLarge ? $0.large.popLast() : $0.small.popLast() }
            ?? CipherBuffer(pageCount: isLarge ? Self.largePages : Self.smallPages)
        defer {
            free.withLock { free in
                if isLarge {
                    if free.large.count < 16 { free.large.append(buffer) }
                } else if free.small.count < 64 {
                    free.small.append(buffer)
                }
            }
        }
        return try body(&buffer)
    }
}
