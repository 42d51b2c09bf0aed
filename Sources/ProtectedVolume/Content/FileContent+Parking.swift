// Reads of a file that is busy: bounded in the threads that they may keep waiting, parked beyond that.

internal import SodiumKit
internal import VolumeFormat

/// A read's place in the line of its file, and from when it is granted on its hold. Ended by the one read that it is for.
package struct ReadTurn: Sendable {
    fileprivate let blocks: Range<UInt64>
    fileprivate let ticket: UInt64
}

extension FileContent {
    /// `read`, or nil where it would have to wait and `limit` threads wait for pages already: then `park` is the way.
    package func readUnlessBusy(
        into buffer: inout MutableSpan<UInt8>, at offset: UInt64, count: Int, limit: Int
    ) throws(VolumeError) -> ReadResult? {
        try checkIdentity()
        try refresh(.read)
        let wanted = min(count, Self.largestRequest, buffer.count - 2 * PageGeometry.pageSize)
        let size = self.size
        guard offset < size, wanted > 0 else { return try read(into: &buffer, at: offset, count: count) }
        let blocks = geometry.blocks(holding: offset..<offset + min(UInt64(wanted), size - offset))
        guard let hold = ranges.acquireUnlessBusy(blocks, limit: limit) else { return nil }
        return try readHeld(blocks, hold, into: &buffer, at: offset, wanted)
    }

    /// Takes a place in the line for a read; `granted` is called when it has come to its turn, by the thread that let go of
    /// what was in the way: it hands the turn to a thread that calls `read(turn:)`. It is called once in every case.
    package func park(at offset: UInt64, count: Int, granted: @escaping @Sendable (ReadTurn) -> Void) {
        let end = offset.addingReportingOverflow(UInt64(min(max(count, 1), Self.largestRequest)))
        let blocks = geometry.blocks(holding: offset..<(end.overflow ? offset + 1 : end.partialValue))
        ranges.park(blocks) { ticket in granted(ReadTurn(blocks: blocks, ticket: ticket)) }
    }

    /// The read that has come to its turn; waits for no other request. To be called once for each turn.
    package func read(
        turn: ReadTurn, into buffer: inout MutableSpan<UInt8>, at offset: UInt64, count: Int
    ) throws(VolumeError) -> ReadResult {
        let wanted = min(count, Self.largestRequest, buffer.count - 2 * PageGeometry.pageSize)
        return try readHeld(turn.blocks, ranges.hold(of: turn.ticket), into: &buffer, at: offset, wanted)
    }

    /// Reads with `blocks` held, and lets go of them before anything is decrypted.
    private func readHeld(
        _ blocks: Range<UInt64>, _ hold: consuming RangeHold, into buffer: inout MutableSpan<UInt8>, at offset: UInt64,
        _ wanted: Int
    ) throws(VolumeError) -> ReadResult {
        var kept: RangeHold? = consume hold
        do throws(VolumeError) {
            // While they are held the size moves only behind them, or into them by growing.
            let now = snapshot
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
            throw error
        }
    }
}
