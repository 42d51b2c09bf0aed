// Pages of a file: an input is opened as a page of either suite at several places, and is sealed as one.

import Keybag
import SodiumKit
import VolumeFormat

@testable import FileContents

private func pageCodec(_ suite: CipherSuite, file: UInt8 = 5, key: UInt8 = 1) -> PageCodec {
    do {
        let secret = try SecretKey(copying: pattern(32, from: key).span)
        let header = FileHeader(
            protectionClass: .completeUntilFirstUserAuthentication, suite: suite, keyGeneration: 0,
            fileID: ObjectID(InlineArray(repeating: file)))
        return PageCodec(geometry: PageGeometry(suite: suite), keys: FileKeys(secret, suite: suite), header: header)
    } catch {
        fatalError("no secret memory: \(error)")
    }
}

/// The payload and the field of a page that verifies; zeros are nil too.
private func open(_ page: [UInt8], _ codec: inout PageCodec, _ block: UInt64, _ capacity: Int) -> ([UInt8], BlockField)?
{
    var text = [UInt8](repeating: 0xEE, count: capacity)
    var raw = text.mutableSpan
    guard case .block(let field)? = try? codec.open(page.span, block: block, into: &raw) else {
        return nil
    }
    return (text, field)
}

/// A sealed page; block 0 gets its header without MAC, as the codec leaves it.
private func seal(
    _ text: [UInt8], _ field: BlockField, nonce: [UInt8], _ codec: inout PageCodec, _ block: UInt64
) -> [UInt8] {
    var page = [UInt8](repeating: 0, count: PageGeometry.pageSize)
    var raw = page.mutableSpan
    do {
        try codec.seal(
            text.span, block: block, field: field, nonce: nonce.span, into: &raw)
    } catch {
        fatalError("a page cannot be sealed: \(error)")
    }
    return page
}

enum BlockTarget: FuzzTarget {
    static func fuzz(_ bytes: Span<UInt8>) {
        guard bytes.count >= 8 else { return }
        let choice = Int(bytes[0])
        let suite: CipherSuite = choice & 1 == 0 ? .aes256GCM : .xChaCha20Poly1305
        let block: UInt64 = [0, 1, 4095, 4096][choice >> 1 & 3]
        let geometry = PageGeometry(suite: suite)
        let capacity = geometry.capacity(ofBlock: block)
        var codec = pageCodec(suite)
        let input = bytes.extracting(4..<bytes.count).copiedBytes()

        // As a page: what verifies is sealed to the same bytes, and belongs to this place of this file alone.
        let page = Array((input + [UInt8](repeating: 0, count: PageGeometry.pageSize)).prefix(PageGeometry.pageSize))
        if let (text, field) = open(page, &codec, block, capacity) {
            let nonce = Array(page[geometry.nonceRange(ofBlock: block)])
            let again = seal(text, field, nonce: nonce, &codec, block)
            let from = geometry.nonceRange(ofBlock: block).lowerBound
            check(again[from...] == page[from...], "a block is sealed to other bytes")
            var other = pageCodec(suite, file: 6)
            check(open(page, &other, block, capacity) == nil, "a block verifies in another file")
        }

        // As a payload, which comes back, and does not when a byte of the page has changed.
        let length = min(input.count, capacity)
        let text = Array(input.prefix(length)) + [UInt8](repeating: 0, count: capacity - length)
        let field = BlockField(
            payloadLength: length, isLast: length < capacity || choice & 8 == 0,
            epoch: UInt32(bytes[1]) << 24 | UInt32(choice))
        let sealed = seal(text, field, nonce: pattern(suite.nonceLength, from: bytes[2]), &codec, block)
        guard let (opened, same) = open(sealed, &codec, block, capacity) else {
            fatalError("a sealed block does not open")
        }
        check(opened == text && same == field, "a block does not come back")
        check(
            open(sealed, &codec, block + 1, geometry.capacity(ofBlock: block + 1)) == nil, "a block verifies elsewhere")
        let from = geometry.nonceRange(ofBlock: block).lowerBound
        let place = from + (Int(bytes[3]) * 257 + choice) % (PageGeometry.pageSize - from)
        var changed = sealed
        changed[place] ^= 1 << UInt8(choice & 7)
        check(open(changed, &codec, block, capacity) == nil, "a changed block verifies")
    }

    static func seeds() -> [[UInt8]] {
        var result: [[UInt8]] = [[UInt8](repeating: 0, count: 4100)]
        for choice in 0..<8 as Range<UInt8> {
            let suite: CipherSuite = choice & 1 == 0 ? .aes256GCM : .xChaCha20Poly1305
            let block: UInt64 = [0, 1, 4095, 4096][Int(choice >> 1 & 3)]
            let capacity = PageGeometry(suite: suite).capacity(ofBlock: block)
            var codec = pageCodec(suite)
            for length in [0, 100, capacity] {
                let text = pattern(length) + [UInt8](repeating: 0, count: capacity - length)
                let field = BlockField(payloadLength: length, isLast: true, epoch: 7)
                let page = seal(text, field, nonce: pattern(suite.nonceLength), &codec, block)
                result.append([choice, 1, 2, 3] + page)
            }
        }
        return result
    }
}
