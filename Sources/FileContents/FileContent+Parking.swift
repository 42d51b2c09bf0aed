// Reads a busy file. A limited number of threads may wait for it; further reads are parked.

package import KeyFiles
internal import SodiumKit
internal import VolumeFormat

/// A read's place in the queue of its file, and its hold once it is granted. Its read ends it.
package struct ReadTurn: Sendable {
    fileprivate let blocks: Range<UInt64>
    fileprivate let ticket: UInt64
}

extension FileContent {
    /// Like `read`, but returns nil if it would have to wait and `limit` threads wait for pages already. The caller
    /// then calls `park`.
    package func readUnlessBusy(
        into buffer: inout MutableSpan<UInt8>, at offset: UInt64, count: Int, limit: Int
    ) throws(VolumeError) -> ReadResult? {
        try checkIdentity()
        try refresh()
        let wanted = min(count, Self.largestRequest, buffer.count - 2 * PageGeometry.pageSize)
        let size = self.size
        guard offset < size, wanted > 0 else { return try read(into: &buffer, at: offset, count: count) }
        let blocks = geometry.blocks(holding: offset..<offset + min(UInt64(wanted), size - offset))
        guard let hold = ranges.acquireUnlessBusy(blocks, limit: limit) else { return nil }
        return try readHeld(blocks, hold, into: &buffer, at: offset, wanted)
    }

    /// Takes a place in the queue for a read. When the read is granted, the thread that released the conflicting pages
    /// calls `granted`, which hands the turn to a thread that calls `read(turn:)`. `granted` is called exactly once.
    package func park(at offset: UInt64, count: Int, granted: @escaping @Sendable (ReadTurn) -> Void) {
        let end = offset.addingReportingOverflow(UInt64(min(max(count, 1), Self.largestRequest)))
        let blocks = geometry.blocks(holding: offset..<(end.overflow ? offset + 1 : end.partialValue))
        ranges.park(blocks) { ticket in granted(ReadTurn(blocks: blocks, ticket: ticket)) }
    }

    /// Performs a read that was granted, without waiting for other requests. Call it once for each turn.
    package func read(
        turn: ReadTurn, into buffer: inout MutableSpan<UInt8>, at offset: UInt64, count: Int
    ) throws(VolumeError) -> ReadResult {
        let wanted = min(count, Self.largestRequest, buffer.count - 2 * PageGeometry.pageSize)
        return try readHeld(turn.blocks, ranges.hold(of: turn.ticket), into: &buffer, at: offset, wanted)
    }

    /// Reads with `blocks` held, and releases them before anything is decrypted.
    private func readHeld(
        _ blocks: Range<UInt64>, _ hold: consuming RangeHold, into buffer: inout MutableSpan<UInt8>, at offset: UInt64,
        _ wanted: Int
    ) throws(VolumeError) -> ReadResult {
        var kept: RangeHold? = consume hold
        do throws(VolumeError) {
            // While they are held, the file is not cut inside them.
            let now = readingState
            let length = offset < now.size ? Int(min(UInt64(max(wanted, 0)), now.size - offset)) : 0
            guard length > 0 else {
                if let hold = kept.take() { ranges.release(hold) }
                try judge(.read)
                return ReadResult(0..<0, counted: nil)
            }
            let held = geometry.blocks(holding: offset..<offset + UInt64(length))
            let blocks = held.lowerBound..<min(held.upperBound, blocks.upperBound)
            let most = geometry.start(ofBlock: blocks.upperBound) - offset
            return try context.buffers.withBuffer(pageCount: Int(blocks.count)) {
                (pages: inout CipherBuffer) throws(VolumeError) -> ReadResult in
                try pages.read(blocks, of: backing)
                if let hold = kept.take() { ranges.release(hold) }
                let counted = try decrypt(pages, blocks, now, .read, into: &buffer)
                let skip = Int(offset - geometry.start(ofBlock: blocks.lowerBound))
                return ReadResult(skip..<skip + min(length, Int(clamping: most)), counted: counted)
            }
        } catch {
            if let hold = kept.take() { ranges.release(hold) }
            guard context.isShared, case .damaged = error else { throw error }
            return try readAgain(into: &buffer, at: offset, wanted, .read)
        }
    }
}
