// The pool of buffers: kept between requests, given back when asked.

import Testing

@testable import FileContents

@Suite struct CipherBufferTests {
    /// A used buffer keeps its bytes; a new one is zero.
    private func first(_ pool: CipherBufferPool, pages: Int, set value: UInt8) -> UInt8 {
        pool.withBuffer(pageCount: pages) { buffer in
            defer { buffer.pages[0] = value }
            return buffer.pages[0]
        }
    }

    @Test(arguments: [CipherBufferPool.smallPages, CipherBufferPool.largePages])
    func areKeptUntilTrimmed(pages: Int) {
        let pool = CipherBufferPool()
        #expect(first(pool, pages: pages, set: 1) == 0)
        #expect(first(pool, pages: pages, set: 2) == 1)
        pool.trim()
        #expect(first(pool, pages: pages, set: 3) == 0)
    }

    @Test func aRequestKeepsItsOwn() {
        let pool = CipherBufferPool()
        pool.withBuffer(pageCount: 1) { buffer in
            pool.trim()
            buffer.pages[0] = 7
            #expect(first(pool, pages: 1, set: 1) == 0)
        }
        #expect(first(pool, pages: 1, set: 1) == 7)
    }
}
