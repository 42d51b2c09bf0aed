// Reads content. The backing I/O comes first. Test, decryption and reply then form one counted section.

internal import BackingStore
internal import HostSystem
package import KeyFiles
internal import Keybag
internal import SodiumKit
package import VolumeFormat

/// The plaintext that a read has written to the caller's buffer.
///
/// For class A, it delays the lock of the volume until it is destroyed, and for class 7 the end of its time. So reply first,
/// then call `finish()`.
package struct ReadResult: ~Copyable {
    /// The position of the bytes in the buffer.
    package let range: Range<Int>
    private let counted: CountedRead?

    init(_ range: Range<Int>, counted: CountedRead?) {
        self.range = range
        self.counted = counted
    }

    deinit {
        if let counted { counted.keys.endRead(of: counted.protectionClass) }
    }

    /// Ends the read after the reply has been sent.
    package consuming func finish() {}
}

/// A read that the ring counts.
struct CountedRead: Sendable {
    let keys: KeyRing
    let protectionClass: ProtectionClass
}

/// A read's place in the queue of its file, and its hold once it is granted. `read` ends it; call that once for each.
package struct ReadTurn: Sendable {
    fileprivate let bytes: Range<UInt64>
    fileprivate let ticket: UInt64
}

extension FileContent {
    /// The buffer length for a read of `count` bytes. Both ends are decrypted as whole blocks.
    package static func bufferLength(count: Int) -> Int {
        count + 2 * PageGeometry.pageSize
    }

    /// Reads up to `count` bytes at `offset`, after a wait in this thread. Returns fewer at the end of the file or above
    /// `largestRequest`. The parameters are those of the read of a turn.
    package func read(
        into buffer: inout MutableSpan<UInt8>, at offset: UInt64, count: Int, access: Operation = .read
    ) throws(VolumeError) -> ReadResult {
        try refresh()
        let bytes = Self.range(at: offset, count)
        var hold: RangeHold? = ranges.acquire(geometry.blocks(holding: bytes), exclusive: false)
        return try read(bytes, &hold, into: &buffer, access)
    }

    /// Waits for the pages of a read. Returns nil at once if it would have to wait and `limit` threads wait for pages
    /// already, of this file or another. The caller then calls `park`.
    package func turn(at offset: UInt64, count: Int, limit: Int) throws(VolumeError) -> ReadTurn? {
        try refresh()
        let bytes = Self.range(at: offset, count)
        guard let hold = ranges.acquireUnlessBusy(geometry.blocks(holding: bytes), limit: limit) else { return nil }
        return ReadTurn(bytes: bytes, ticket: hold.ticket)
    }

    /// Takes a place in the queue for a read. When the read is granted, the thread that released the conflicting pages
    /// calls `granted`, which hands the turn to a thread that reads. `granted` is called exactly once.
    package func park(at offset: UInt64, count: Int, granted: @escaping @Sendable (ReadTurn) -> Void) {
        let bytes = Self.range(at: offset, count)
        ranges.park(geometry.blocks(holding: bytes)) { ticket in granted(ReadTurn(bytes: bytes, ticket: ticket)) }
    }

    /// Performs a read that was granted, without waiting for other requests.
    ///
    /// - Parameters:
    ///   - buffer: locked memory of at least `bufferLength(count:)` bytes; bytes outside of the result's range are
    ///     plaintext too.
    ///   - access: `.read` or `.copySource`, judged in the same hold of the state lock that decrypts.
    package func read(
        _ turn: ReadTurn, into buffer: inout MutableSpan<UInt8>, access: Operation = .read
    ) throws(VolumeError) -> ReadResult {
        var hold: RangeHold? = ranges.hold(of: turn.ticket)
        return try read(turn.bytes, &hold, into: &buffer, access)
    }

    /// The bytes that a read wants. No file reaches the largest offset.
    private static func range(at offset: UInt64, _ count: Int) -> Range<UInt64> {
        let start = min(offset, UInt64(Int64.max))
        return start..<start + UInt64(min(max(count, 0), largestRequest))
    }

    /// Reads with the pages of `bytes` held, and ends the hold.
    private func read(
        _ bytes: Range<UInt64>, _ hold: inout RangeHold?, into buffer: inout MutableSpan<UInt8>, _ access: Operation
    ) throws(VolumeError) -> ReadResult {
        do throws(VolumeError) {
            try checkIdentity()
            return try read(bytes, of: readingState, &hold, into: &buffer, access)
        } catch {
            if let hold = hold.take() { ranges.release(hold) }
            guard context.isShared, case .damaged = error else { throw error }
        }
        // Another machine may be writing these pages.
        return try holdingStore(exclusive: false) { () throws(VolumeError) -> ReadResult in
            try read(bytes, of: snapshot, &hold, into: &buffer, access)
        }
    }

    /// Brings the pages while they are held: the file is not cut inside of them then. Ends `hold` before anything is decrypted.
    private func read(
        _ bytes: Range<UInt64>, of now: FileState, _ hold: inout RangeHold?, into buffer: inout MutableSpan<UInt8>,
        _ access: Operation
    ) throws(VolumeError) -> ReadResult {
        let start = bytes.lowerBound
        let room = UInt64(max(buffer.count - 2 * PageGeometry.pageSize, 0))
        let end = min(bytes.upperBound, now.size, start + room)
        guard start < end else {
            if let hold = hold.take() { ranges.release(hold) }
            try judge(access)
            return ReadResult(0..<0, counted: nil)
        }
        let blocks = geometry.blocks(holding: start..<end)
        return try context.buffers.withBuffer(pageCount: Int(blocks.count)) {
            (pages: inout CipherBuffer) throws(VolumeError) -> ReadResult in
            try pages.read(blocks, of: backing)
            if let hold = hold.take() { ranges.release(hold) }
            let counted = try decrypt(pages, blocks, now, access, into: &buffer)
            let skip = Int(start - geometry.start(ofBlock: blocks.lowerBound))
            return ReadResult(skip..<skip + Int(end - start), counted: counted)
        }
    }

    /// The counted section. Returns what the result must end.
    private func decrypt(
        _ pages: borrowing CipherBuffer, _ blocks: Range<UInt64>, _ now: FileState, _ access: Operation,
        into buffer: inout MutableSpan<UInt8>
    ) throws(VolumeError) -> CountedRead? {
        let protectionClass = now.header.protectionClass
        let isCounted = try withKeys(access) { (keys: borrowing HeldKeys) throws(VolumeError) -> Bool in
            var codec = PageCodec(geometry: geometry, keys: fileKeys, header: now.header)
            var target = 0
            for (position, block) in blocks.enumerated() {
                let content = try pages.open(position, block: block, &codec, into: &buffer, at: target)
                let capacity = geometry.capacity(ofBlock: block)
                if try accept(content, block: block, in: now) { buffer.zero(target..<target + capacity) }
                target += capacity
            }
            guard protectionClass.cutsOffHandles else { return false }
            do throws(KeyError) { try keys.beginRead(of: protectionClass) } catch { throw VolumeError(error) }
            return true
        }
        return isCounted ? CountedRead(keys: context.keys, protectionClass: protectionClass) : nil
    }
}
