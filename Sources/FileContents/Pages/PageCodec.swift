// Seals and opens the pages of one file, with nonce, field, associated data and extent key.

import KeyFiles
import SodiumKit
import VolumeFormat

/// The content of a page that was opened.
enum PageContent {
    /// A block that verified.
    case block(BlockField)
    /// Only zero bytes.
    case zeros
}

/// Seals and opens pages of one file within one hold of the state lock's shared side. It is a value on the stack.
struct PageCodec: ~Copyable {
    private let geometry: PageGeometry
    private let keys: FileKeys
    private let header: FileHeader
    private var associatedData: InlineArray<68, UInt8>
    private var cipher: BlockCipher?
    private var epoch: UInt32 = 0
    private var extent: UInt64 = 0

    var nonceLength: Int { geometry.suite.nonceLength }

    /// - Parameter header: the header that block 0 is bound to.
    init(geometry: PageGeometry, keys: FileKeys, header: FileHeader) {
        self.geometry = geometry
        self.keys = keys
        self.header = header
        associatedData = InlineArray(repeating: 0)
        var bytes = associatedData.mutableSpan
        AssociatedData.beginBlocks(header: header, into: &bytes)
    }

    /// Verifies the page of block `index` and decrypts its whole payload, padding included, into `plaintext` at `offset`.
    ///
    /// For a page of zeros it returns `.zeros` and does not write to `plaintext`. If another page does not verify it
    /// throws `.damaged(.block)`. If it verifies, and its field is not known, a newer version has made it: `.newer(.block)`.
    /// After an error `plaintext` must not be used.
    mutating func open(
        _ page: Span<UInt8>, block index: UInt64, into plaintext: inout MutableSpan<UInt8>, at offset: Int = 0
    ) throws(VolumeError) -> PageContent {
        if page.isAllZero { return .zeros }
        let fieldStart = geometry.fieldRange(ofBlock: index).lowerBound
        let cipher = try cipher(epoch: BlockField.epoch(in: page, at: fieldStart), page: index)
        let length = bind(index, page.littleEndian(at: fieldStart))
        guard
            cipher.open(
                page, place(index), into: &plaintext, at: offset,
                associatedData: associatedData.span.extracting(0..<length))
        else { throw .damaged(.block) }
        // The tag covers the field. So nothing of it is judged before.
        do throws(FormatError) {
            return .block(try BlockField(parsing: page, at: fieldStart, capacity: geometry.capacity(ofBlock: index)))
        } catch { throw .newer(.block) }
    }

    /// Seals `plaintext`, a whole payload with its padding, into `page`; page 0 gets its header too.
    ///
    /// - Parameter nonce: fresh random bytes.
    mutating func seal(
        _ plaintext: Span<UInt8>, block index: UInt64, field: BlockField, nonce: Span<UInt8>,
        into page: inout MutableSpan<UInt8>
    ) throws(VolumeError) {
        let fieldStart = geometry.fieldRange(ofBlock: index).lowerBound
        let cipher = try cipher(epoch: field.epoch, page: index)
        if index == 0 { header.store(into: &page) }
        page.copy(nonce, to: geometry.nonceRange(ofBlock: index).lowerBound)
        field.store(into: &page, at: fieldStart)
        let length = bind(index, page.span.littleEndian(at: fieldStart))
        cipher.seal(
            plaintext, into: &page, place(index),
            associatedData: associatedData.span.extracting(0..<length))
    }

    private func place(_ index: UInt64) -> BlockPlace {
        BlockPlace(
            nonce: geometry.nonceRange(ofBlock: index).lowerBound, text: geometry.ciphertextRange(ofBlock: index),
            tag: geometry.tagRange.lowerBound)
    }

    private mutating func bind(_ index: UInt64, _ field: UInt64) -> Int {
        var bytes = associatedData.mutableSpan
        return AssociatedData.completeBlock(index: index, field: field, into: &bytes)
    }

    private mutating func cipher(epoch: UInt32, page: UInt64) throws(VolumeError) -> BlockCipher {
        let extent = PageGeometry.extent(ofPage: page)
        if let cipher, epoch == self.epoch, extent == self.extent { return cipher }
        guard let found = try keys.cipher(epoch: epoch, extent: extent) else {
            throw .locked(header.protectionClass)
        }
        cipher = found
        self.epoch = epoch
        self.extent = extent
        return found
    }
}
