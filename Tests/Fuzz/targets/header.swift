// Page 0's header and a block's field: what parses is written as the same bytes.

import VolumeFormat

enum HeaderTarget: FuzzTarget {
    static func fuzz(_ bytes: Span<UInt8>) {
        if let header = try? FileHeader(parsing: bytes) {
            var again = [UInt8](repeating: 0xFF, count: FileHeader.length)
            var raw = again.mutableSpan
            header.store(into: &raw)
            check(
                again.span.hasSameBytes(as: bytes.extracting(0..<FileHeader.length)),
                "the header is written as other bytes")
        }
        for suite in CipherSuite.allCases {
            let geometry = PageGeometry(suite: suite)
            for block in [0, 1] as [UInt64] {
                let range = geometry.fieldRange(ofBlock: block)
                guard range.upperBound <= bytes.count else { continue }
                let capacity = geometry.capacity(ofBlock: block)
                guard let field = try? BlockField(parsing: bytes, at: range.lowerBound, capacity: capacity) else {
                    continue
                }
                check(field.payloadLength <= capacity, "a payload is longer than its block")
                check(field.isLast || field.payloadLength == capacity, "a block that is not the last is not full")
                var again = [UInt8](repeating: 0xFF, count: BlockField.length)
                var raw = again.mutableSpan
                field.store(into: &raw, at: 0)
                check(
                    again.span.hasSameBytes(as: bytes.extracting(range)), "the field is written as other bytes"
                )
            }
        }
        // A backing file's length, whatever it is, gives a size that has as many pages again.
        guard bytes.count >= 8 else { return }
        let length: UInt64 = bytes.littleEndian(at: 0)
        for suite in CipherSuite.allCases {
            let geometry = PageGeometry(suite: suite)
            let size = geometry.size(backingLength: length)
            if let backing = geometry.backingLength(size: size), length >= 4096 {
                let pages = min(PageGeometry.pages(backingLength: length), PageGeometry.maximumPages)
                check(PageGeometry.pages(backingLength: backing) == pages, "a size has another number of pages")
            }
            _ = geometry.sizeByLength(length)
            if size <= geometry.maximumSize {
                let (block, offset) = geometry.locate(size)
                check(geometry.start(ofBlock: block) + UInt64(offset) == size, "a position is located elsewhere")
            }
        }
    }

    static func seeds() -> [[UInt8]] {
        var result: [[UInt8]] = [pattern(8), [0, 0x10, 0, 0, 0, 0, 0, 0]]
        for suite in CipherSuite.allCases {
            for protectionClass in ProtectionClass.allCases {
                var header = FileHeader(
                    protectionClass: protectionClass, suite: suite, flags: [.holes, .explicit], keyGeneration: 1,
                    fileID: ObjectID(InlineArray(repeating: 5)))
                for index in 0..<72 { header.wrappedKey[index] = UInt8(index) }
                var page = [UInt8](repeating: 0, count: 200)
                var raw = page.mutableSpan
                header.store(into: &raw)
                BlockField(payloadLength: 100, isLast: true, epoch: 77).store(
                    into: &raw, at: PageGeometry(suite: suite).fieldRange(ofBlock: 0).lowerBound)
                result.append(page)
            }
        }
        return result
    }
}
