// All offset arithmetic of a backing file: pages, blocks, positions, lengths, and the layout of a page.

/// The arithmetic of one suite's pages. Positions and sizes are plaintext bytes; offsets are backing-file bytes.
package struct PageGeometry: Sendable, Hashable {
    /// Bytes of a page.
    package static let pageSize = 4096
    /// Base-2 logarithm of the page size, as in header and associated data.
    package static let blockLog2: UInt8 = 12
    /// Bytes of the header that page 0 begins with.
    package static let headerLength = 128
    /// Bytes of a block's field.
    package static let fieldLength = 8
    /// Bytes of a block's tag.
    package static let tagLength = CipherSuite.tagLength
    /// Base-2 logarithm of the bytes of backing file that one extent key covers (16 MiB).
    package static let extentLog2: UInt64 = 24
    /// Pages of the longest file, so that offsets fit in Int64.
    package static let maximumPages: UInt64 = (1 << 51) - 1

    /// Its nonce and tag are what a page has besides content.
    package let suite: CipherSuite
    /// Payload of a full block 0 (3932 or 3920).
    package let firstCapacity: Int
    /// Payload of any other full block (4060 or 4048).
    package let laterCapacity: Int

    /// The geometry of `suite`.
    package init(suite: CipherSuite) {
        self.suite = suite
        laterCapacity = Self.pageSize - suite.nonceLength - Self.fieldLength - Self.tagLength
        firstCapacity = laterCapacity - Self.headerLength
    }

    // MARK: In a page

    /// Payload of a full block.
    package func capacity(ofBlock index: UInt64) -> Int {
        index == 0 ? firstCapacity : laterCapacity
    }

    /// Payload of block `index` in a file of `size` bytes, which must reach into that block or be empty.
    package func payloadLength(ofBlock index: UInt64, size: UInt64) -> Int {
        Int(min(UInt64(capacity(ofBlock: index)), size - start(ofBlock: index)))
    }

    /// The offset of the nonce in the page of block `index`.
    package func nonceRange(ofBlock index: UInt64) -> Range<Int> {
        let start = index == 0 ? Self.headerLength : 0
        return start..<start + suite.nonceLength
    }

    /// The offset of the field.
    package func fieldRange(ofBlock index: UInt64) -> Range<Int> {
        let start = nonceRange(ofBlock: index).upperBound
        return start..<start + Self.fieldLength
    }

    /// The offset of the ciphertext. Its length is the block's capacity.
    package func ciphertextRange(ofBlock index: UInt64) -> Range<Int> {
        fieldRange(ofBlock: index).upperBound..<Self.pageSize - Self.tagLength
    }

    /// The offset of the tag, the page's last 16 bytes.
    package var tagRange: Range<Int> { Self.pageSize - Self.tagLength..<Self.pageSize }

    // MARK: In a file

    /// Size of the longest file.
    package var maximumSize: UInt64 { start(ofBlock: Self.maximumPages) }

    /// The position of the first byte of block `index`.
    package func start(ofBlock index: UInt64) -> UInt64 {
        index == 0 ? 0 : UInt64(firstCapacity) + (index - 1) * UInt64(laterCapacity)
    }

    /// The block of the byte at `position`, and the byte's offset in its payload.
    package func locate(_ position: UInt64) -> (block: UInt64, offset: Int) {
        if position < UInt64(firstCapacity) { return (0, Int(position)) }
        let rest = (position - UInt64(firstCapacity)).quotientAndRemainder(dividingBy: UInt64(laterCapacity))
        return (rest.quotient + 1, Int(rest.remainder))
    }

    /// The blocks of the bytes at `positions`. Empty for an empty range.
    package func blocks(holding positions: Range<UInt64>) -> Range<UInt64> {
        guard !positions.isEmpty else { return 0..<0 }
        return locate(positions.lowerBound).block..<locate(positions.upperBound - 1).block + 1
    }

    /// Offset in the backing file of the page of block `index`.
    package static func offset(ofPage index: UInt64) -> UInt64 {
        index << UInt64(blockLog2)
    }

    /// The number of the extent key for the page of block `index`: its offset >> 24.
    package static func extent(ofPage index: UInt64) -> UInt64 {
        offset(ofPage: index) >> extentLog2
    }

    /// Pages of a file of `size` bytes (an empty file has one), and the payload of the last one.
    package func pages(size: UInt64) -> (count: UInt64, tail: Int) {
        guard size > 0 else { return (1, 0) }
        let last = locate(size - 1)
        return (last.block + 1, last.offset + 1)
    }

    /// The backing file's length for `size` bytes: pages × 4096 + payload of the last block. Nil above `maximumSize`.
    package func backingLength(size: UInt64) -> UInt64? {
        guard size <= maximumSize else { return nil }
        let (count, tail) = pages(size: size)
        return Self.offset(ofPage: count) + UInt64(tail)
    }

    /// Whole pages in a backing file of `length` bytes.
    package static func pages(backingLength length: UInt64) -> UInt64 {
        length >> UInt64(blockLog2)
    }

    /// Pages that reach up to `length` bytes. The last one may be partial.
    package static func pages(coveringLength length: UInt64) -> UInt64 {
        pages(backingLength: length + UInt64(pageSize) - 1)
    }

    /// The size that `stat` shows for a backing file of `length` bytes, computed from the length alone.
    ///
    /// Below one page: 0. A tail above the last block's capacity, or a tail of 0 after page 0, counts as the whole block.
    package func size(backingLength length: UInt64) -> UInt64 {
        length == UInt64(Self.pageSize) ? 0 : sizeByLength(length)
    }

    /// The size that recovery rule R3 computes from the backing file's length. A tail of 0 means a whole block even with a
    /// single page.
    package func sizeByLength(_ length: UInt64) -> UInt64 {
        let pages = min(Self.pages(backingLength: length), Self.maximumPages)
        guard pages > 0 else { return 0 }
        let tail = Int(length & UInt64(Self.pageSize - 1))
        let capacity = capacity(ofBlock: pages - 1)
        return start(ofBlock: pages - 1) + UInt64(tail == 0 || tail > capacity ? capacity : tail)
    }
}
