// Reads of a busy file. Beyond a bounded share of the workers they wait in their file's queue and not in a thread.
//
// A file is busy for a moment at a time. Writes wait in their workers, because these hold their data. Reads may be many and
// carry no data, so they can be put aside.

internal import FuseBridge
internal import ProtectedVolume
internal import VolumeFormat

extension VolumeFileSystem {
    /// The number of workers that all busy files together may block before reads of them are parked.
    var waitingWorkers: Int { readers.canWork ? max(1, calls.limits.workers / 2) : .max }

    /// Two threads, or one if little memory can be locked.
    static func parkedThreads(_ limits: WorkerLimits) -> ParkedThreads {
        ParkedThreads(count: limits.workers < 8 ? 1 : 2, dataCapacity: Int(limits.requestSize))
    }

    /// A read. Nil if it must be parked.
    func readUnlessBusy(
        _ file: OpenFile, at offset: UInt64, count: Int, _ buffer: inout MutableSpan<UInt8>
    ) throws(VolumeError) -> ReadResult? {
        try file.content.readUnlessBusy(into: &buffer, at: offset, count: count, limit: waitingWorkers)
    }

    /// Puts a read aside until its turn at the file comes. It has the same place in the queue as a read that waits in a worker.
    func park(
        _ file: OpenFile, at offset: UInt64, count: Int, _ handle: HandleInfo, _ request: borrowing Request,
        _ reply: consuming Reply
    ) {
        let isAccess = OpenFlags.isAccess(handle.flags)
        let parked = ParkedReply(reply)
        let process = request.process
        file.content.park(at: offset, count: count) { [self] turn in
            readers.add { [self] buffer in
                finish(turn, of: file, at: offset, count: count, process, parked, &buffer)
                if isAccess { file.content.noteAccess() }
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
            // For class A, a lock of the volume waits until here.
            result.finish()
            use.end()
        } catch {
            parked.take()?.error(refusal(error, file.node.number, of: process, "read"))
        }
    }
}
