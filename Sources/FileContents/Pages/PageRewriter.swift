// The page cycle: reads old pages, opens, changes and seals them again under fresh nonces, and writes them.

internal import BackingStore
internal import KeyFiles
internal import Keybag
internal import SodiumKit
internal import VolumeFormat

/// One turn of the page cycle over a few pages of one file, in a buffer of its own.
///
/// The caller holds the pages in the file's range lock from the first read to the last write, and calls `read`,
/// `withKeys` and `write` in this order. Only the caller writes and syncs, because their order decides the state after
/// a power cut (docs/judge/volume-format.md, section 6.3). `withKeys` writes nothing, so an error in it leaves the file as it
/// was.
struct PageRewriter: ~Copyable {
    private let file: FileContent
    /// The state of the file that old pages are checked against.
    private let now: FileState
    private var buffer: CipherBuffer
    /// The epoch that `withKeys` has drawn.
    private(set) var epoch: UInt32 = 0

    /// - Parameter pageCount: the most pages that are read or sealed.
    init(_ file: FileContent, _ now: FileState, pageCount: Int) {
        self.file = file
        self.now = now
        buffer = file.context.buffers.take(pageCount: pageCount)
    }

    deinit { file.context.buffers.give(buffer) }

    /// Reads the old pages of `blocks` to `position` of the buffer and behind it.
    mutating func read(_ blocks: Range<UInt64>, to position: Int = 0) throws(VolumeError) {
        try buffer.read(blocks, of: file.backing, to: position)
    }

    /// Draws epoch and nonces for `count` pages. Then runs `body` in one hold of the state lock, after `access` was
    /// allowed and the file's key is in memory.
    ///
    /// - Parameter body: gets a locked buffer for the plaintext of one page. It opens, changes and seals one page after
    ///   another.
    mutating func withKeys(
        _ access: Operation, encryptions count: Int,
        _ body: (borrowing HeldKeys, inout MutableSpan<UInt8>, inout PageRewriter) throws(VolumeError) -> Void
    ) throws(VolumeError) {
        epoch = try file.context.epochs.epoch(encryptions: count)
        buffer.drawNonces(count, file.geometry.suite)
        var scratch = try file.takeScratch()
        try file.withKeys(access) { (keys: borrowing HeldKeys) throws(VolumeError) in
            try scratch.withMutableBytes(count: PageGeometry.pageSize) {
                (plain: inout MutableSpan<UInt8>) throws(VolumeError) in
                try body(keys, &plain, &self)
            }
        }
    }

    /// The codec of the file with its own key and header. Use it only inside `withKeys`.
    func codec() -> PageCodec {
        PageCodec(geometry: file.geometry, keys: file.fileKeys, header: now.header)
    }

    /// Opens the old page at `position` without checking its content against the file's state.
    func open(
        _ position: Int, block: UInt64, _ codec: inout PageCodec, into plain: inout MutableSpan<UInt8>
    ) throws(VolumeError) -> PageContent {
        try buffer.open(position, block: block, &codec, into: &plain)
    }

    /// Opens the old page at `position` and checks it. Keeps the first `length` bytes of its payload and zeroes the
    /// rest.
    ///
    /// - Returns: whether the page reads as zeros.
    @discardableResult
    func open(
        _ position: Int, block: UInt64, _ codec: inout PageCodec, into plain: inout MutableSpan<UInt8>,
        keeping length: Int
    ) throws(VolumeError) -> Bool {
        let content = try buffer.open(position, block: block, &codec, into: &plain)
        let isZero = try file.accept(content, block: block, in: now)
        plain.zero((isZero ? 0 : length)..<file.geometry.capacity(ofBlock: block))
        return isZero
    }

    /// Seals the payload of `block` into the page at `position`, as in a file of `size` bytes.
    ///
    /// - Parameter plain: begins with the whole payload, with its padding.
    mutating func seal(
        _ plain: Span<UInt8>, at position: Int, block: UInt64, size: UInt64, _ codec: inout PageCodec
    ) throws(VolumeError) {
        let field = BlockField(
            payloadLength: file.geometry.payloadLength(ofBlock: block, size: size),
            isLast: block == file.lastBlock(size: size), epoch: file.epoch(for: block, epoch, in: now))
        try buffer.seal(
            plain.extracting(0..<file.geometry.capacity(ofBlock: block)), at: position, block: block, field: field,
            &codec)
    }

    /// Writes the pages at `positions` to `target` from `page` on. Without `target` it writes to the file itself.
    func write(_ positions: Range<Int>, to target: BackingFile? = nil, at page: UInt64) throws(VolumeError) {
        try buffer.write(positions, to: target ?? file.backing, at: page)
    }
}
