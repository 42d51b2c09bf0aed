// Reads of a file that is busy: beyond a bounded share of the workers they wait in their file's line, not in a thread.
//
// What keeps a file busy holds it for a moment at a time, so the writes that wait, whose data cannot be put aside, wait in
// their workers. Reads may be many, and have nothing to be put aside but themselves.

internal import FuseBridge
internal import ProtectedVolume
internal import VolumeFormat

extension VolumeFileSystem {
    /// Workers that busy files may keep waiting, all together, before reads of them are parked.
    var waitingWorkers: Int { readers.canWork ? max(1, calls.limits.workers / 2) : .max }

    /// Two, or one where little memory can be locked.
    static func parkedThreads(_ limits: WorkerLimits) -> ParkedThreads {
        ParkedThreads(count: limits.workers < 8 ? 1 : 2, dataCapacity: Int(limits.requestSize))
    }

    /// A read, or nil where it has to be parked.
    func readUnlessBusy(
        _ file: OpenFile, at offset: UInt64, count: Int, _ buffer: inout MutableSpan<UInt8>
    ) throws(VolumeError) -> ReadResult? {
        try file.content.readUnlessBusy(into: &buffer, at: offset, count: count, limit: waitingWorkers)
    }

    /// Puts a read aside until its file has come to it. Its place in the line is that of a read that waits.
    func park(
        _ file: OpenFile, at offset: UInt64, count: Int, _ request: borrowing Request, _ reply: consuming Reply
    ) {
        let parked = ParkedReply(reply)
        let process = request.process
        file.content.park(at: offset, count: count) { [self] turn in
            readers.add { [self] buffer in
                finish(turn, of: file, at: offset, count: count, process, parked, &buffer)
                return count
            }
        }
    }

    private func finish(
        _ turn: ReadTurn, of file: OpenFile, at offset: UInt64, count: Int, _ process: Int32, _ parked: ParkedReply,
        _ buffer: inout MutableSpan<UInt8>
    ) {
        do throws(VolumeError) {
            let use = idleClock.begin(file.node)
            let result = try file.content.read(turn: turn, into: &buffer, at: offset, count: count)
            parked.take()?.data(buffer.span.extracting(result.range))
            if mustNotLinger(file) { wipeRequestData(count) }
            // Class A: the lock of the volume waits until here.
            result.finish()
            use.end()
        } catch {
            parked.take()?.error(refusal(error, file.node.number, of: process, "read"))
        }
    }
}
