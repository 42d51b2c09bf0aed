// Reused buffers for whole pages as they are on disk. They hold ciphertext and nonces only, so ordinary memory will do.

import BackingStore
import HostSystem
import KeyFiles
import SodiumKit
import VolumeFormat

/// A buffer for the pages of one request, and for their nonces. Each page has a position in the buffer.
struct CipherBuffer: Sendable {
    var pages: [UInt8]
    private var nonces: [UInt8]

    init(pageCount: Int) {
        pages = [UInt8](repeating: 0, count: pageCount * PageGeometry.pageSize)
        nonces = [UInt8](repeating: 0, count: pageCount * CipherSuite.longestNonce)
    }

    /// The bytes of the pages at `positions`.
    private static func range(_ positions: Range<Int>) -> Range<Int> {
        positions.lowerBound * PageGeometry.pageSize..<positions.upperBound * PageGeometry.pageSize
    }

    /// Reads the pages of `blocks` to `position` and behind it. Bytes that the backing file lacks are zeros.
    mutating func read(
        _ blocks: Range<UInt64>, of backing: BackingFile, to position: Int = 0
    ) throws(VolumeError) {
        var all = pages.mutableSpan
        var target = all._mutatingExtracting(Self.range(position..<position + Int(blocks.count)))
        let count: Int
        do throws(Errno) {
            count = try backing.read(into: &target, at: PageGeometry.offset(ofPage: blocks.lowerBound))
        } catch { throw .store(error) }
        if count < target.count { target.zero(count..<target.count) }
    }

    /// Writes the pages at `positions` to `backing`, from `page` on.
    func write(_ positions: Range<Int>, to backing: BackingFile, at page: UInt64) throws(VolumeError) {
        do throws(Errno) {
            try backing.write(
                pages.span.extracting(Self.range(positions)), at: PageGeometry.offset(ofPage: page))
        } catch { throw .store(error) }
    }

    /// Verifies the page at `position` and decrypts it into `plaintext` at `offset` (`PageCodec.open`).
    func open(
        _ position: Int, block: UInt64, _ codec: inout PageCodec, into plaintext: inout MutableSpan<UInt8>,
        at offset: Int = 0
    ) throws(VolumeError) -> PageContent {
        try codec.open(
            pages.span.extracting(Self.range(position..<position + 1)), block: block, into: &plaintext,
            at: offset)
    }

    /// Seals `plaintext`, a whole payload, into the page at `position`, with the nonce drawn for it.
    mutating func seal(
        _ plaintext: Span<UInt8>, at position: Int, block: UInt64, field: BlockField, _ codec: inout PageCodec
    ) throws(VolumeError) {
        let length = codec.nonceLength
        let nonces = nonces
        var all = pages.mutableSpan
        var page = all._mutatingExtracting(Self.range(position..<position + 1))
        try codec.seal(
            plaintext, block: block, field: field,
            nonce: nonces.span.extracting(position * length..<(position + 1) * length), into: &page)
    }

    /// Draws the nonces of the first `count` pages, with one getrandom(2) for a request. No nonce is kept for the next
    /// request.
    mutating func drawNonces(_ count: Int, _ suite: CipherSuite) {
        guard count > 0 else { return }
        var all = nonces.mutableSpan
        var target = all._mutatingExtracting(0..<count * suite.nonceLength)
        randomBytes(into: &target)
    }

    /// Whether the page at `position` has only zero bytes.
    func isZero(_ position: Int) -> Bool {
        pages.span.extracting(Self.range(position..<position + 1)).isAllZero
    }
}

/// Buffers of two sizes, made when first needed and kept until the next lock.
package final class CipherBufferPool: Sendable {
    /// Pages of a large buffer. A request of 1 MiB touches up to 260 pages and a former last page.
    static let largePages = 264
    /// Pages of a small buffer.
    static let smallPages = 8
    /// The limit of free buffers.
    private static let mostLarge = 16
    private static let mostSmall = 64

    private struct Free {
        var small: [CipherBuffer] = []
        var large: [CipherBuffer] = []
    }

    private let free = Lock(Free())

    /// Frees the buffers that no request holds. There are as many as requests were ever served at the same time.
    package func trim() {
        // The buffers are freed after the lock is released.
        _ = free.withLock { free in
            let old = free
            free = Free()
            return old
        }
    }

    /// A buffer of at least `pageCount` pages, to be given back.
    func take(pageCount: Int) -> CipherBuffer {
        precondition(pageCount <= Self.largePages)
        let isLarge = pageCount > Self.smallPages
        // Removes the buffer from the list, so that the arrays have one owner and are never copied.
        return free.withLock { isLarge ? $0.large.popLast() : $0.small.popLast() }
            ?? CipherBuffer(pageCount: isLarge ? Self.largePages : Self.smallPages)
    }

    /// Takes a buffer back.
    func give(_ buffer: CipherBuffer) {
        let isLarge = buffer.pages.count > Self.smallPages * PageGeometry.pageSize
        free.withLock { free in
            if isLarge {
                if free.large.count < Self.mostLarge { free.large.append(buffer) }
            } else if free.small.count < Self.mostSmall {
                free.small.append(buffer)
            }
        }
    }

    /// Runs `body` with a buffer of at least `pageCount` pages.
    func withBuffer<Result: ~Copyable, Failure: Error>(
        pageCount: Int, _ body: (inout CipherBuffer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        var buffer = take(pageCount: pageCount)
        defer { give(buffer) }
        return try body(&buffer)
    }
}
