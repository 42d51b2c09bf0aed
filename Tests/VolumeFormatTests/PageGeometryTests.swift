// The offset arithmetic: constants of the format, and inverse functions at every boundary.
// Optionals of integers are compared outside of #expect: the address sanitizer objects to how it boxes them (6.3.1).

import Testing
import VolumeFormat

@Suite struct PageGeometryTests {
    @Test func constants() {
        let aes = PageGeometry(suite: .aes256GCM)
        #expect(aes.firstCapacity == 3932 && aes.laterCapacity == 4060)
        #expect(aes.nonceRange(ofBlock: 0) == 128..<140 && aes.nonceRange(ofBlock: 7) == 0..<12)
        #expect(aes.fieldRange(ofBlock: 0) == 140..<148 && aes.fieldRange(ofBlock: 1) == 12..<20)
        #expect(aes.ciphertextRange(ofBlock: 0) == 148..<4080 && aes.ciphertextRange(ofBlock: 1) == 20..<4080)
        let xchacha = PageGeometry(suite: .xChaCha20Poly1305)
        #expect(xchacha.firstCapacity == 3920 && xchacha.laterCapacity == 4048)
        #expect(xchacha.nonceRange(ofBlock: 0) == 128..<152 && xchacha.nonceRange(ofBlock: 1) == 0..<24)
        #expect(xchacha.fieldRange(ofBlock: 0) == 152..<160 && xchacha.fieldRange(ofBlock: 1) == 24..<32)
        #expect(xchacha.ciphertextRange(ofBlock: 0) == 160..<4080 && xchacha.ciphertextRange(ofBlock: 1) == 32..<4080)
        #expect(aes.tagRange == 4080..<4096 && xchacha.tagRange == 4080..<4096)
    }

    @Test(arguments: CipherSuite.allCases) func positions(suite: CipherSuite) {
        let geometry = PageGeometry(suite: suite)
        for block: UInt64 in [0, 1, 2, 3, 4095, 4096, 1 << 40, PageGeometry.maximumPages - 1] {
            let start = geometry.start(ofBlock: block)
            #expect(geometry.locate(start) == (block, 0))
            let last = start + UInt64(geometry.capacity(ofBlock: block)) - 1
            #expect(geometry.locate(last) == (block, geometry.capacity(ofBlock: block) - 1))
            #expect(geometry.start(ofBlock: block + 1) == last + 1)
            #expect(geometry.blocks(holding: start..<last + 1) == block..<block + 1)
            #expect(geometry.blocks(holding: start..<last + 2) == block..<block + 2)
        }
        #expect(geometry.blocks(holding: 5..<5).isEmpty)
    }

    @Test(arguments: CipherSuite.allCases) func lengths(suite: CipherSuite) throws {
        let geometry = PageGeometry(suite: suite)
        let first = UInt64(geometry.firstCapacity)
        let later = UInt64(geometry.laterCapacity)
        #expect((geometry.backingLength(size: 0) == 4096) as Bool)
        #expect((geometry.backingLength(size: 1) == 4097) as Bool)
        #expect((geometry.backingLength(size: first) == 4096 + first) as Bool)
        #expect((geometry.backingLength(size: first + 1) == 8193) as Bool)
        #expect((geometry.backingLength(size: first + later) == 8192 + later) as Bool)
        #expect((geometry.backingLength(size: first + later + 1) == 3 * 4096 + 1) as Bool)
        var sizes = Array(0...first + 3 * later + 2)
        sizes += [geometry.maximumSize - 1, geometry.maximumSize]
        for size in sizes {
            let length = try #require(geometry.backingLength(size: size))
            #expect(length <= UInt64(Int64.max))
            #expect(geometry.size(backingLength: length) == size)
            let pages = geometry.pages(size: size)
            #expect(PageGeometry.pages(backingLength: length) == pages.count)
            #expect(length % 4096 == UInt64(pages.tail))
        }
        #expect((geometry.backingLength(size: geometry.maximumSize + 1) == nil) as Bool)
        #expect((geometry.backingLength(size: .max) == nil) as Bool)
    }

    @Test func lengthsThatNoWriterLeaves() {
        let geometry = PageGeometry(suite: .aes256GCM)
        #expect(geometry.size(backingLength: 0) == 0)
        #expect(geometry.size(backingLength: 4095) == 0)
        #expect(geometry.size(backingLength: 4096) == 0)
        #expect(geometry.sizeByLength(4096) == 3932)
        #expect(geometry.size(backingLength: 4096 + 3933) == 3932)
        #expect(geometry.size(backingLength: 8191) == 3932)
        #expect(geometry.size(backingLength: 8192) == 3932 + 4060)
        #expect(geometry.size(backingLength: 8192 + 4061) == 3932 + 4060)
        #expect(geometry.size(backingLength: .max) == geometry.maximumSize)
    }

    @Test func extents() {
        #expect(PageGeometry.extent(ofPage: 0) == 0)
        #expect(PageGeometry.extent(ofPage: 4095) == 0)
        #expect(PageGeometry.extent(ofPage: 4096) == 1)
        #expect(PageGeometry.offset(ofPage: 3) == 12288)
    }
}
