// Reads of a busy file. Beyond a bounded share of the workers they wait in their file's queue and not in a thread.
//
// A file is busy for a moment at a time. Writes wait in their workers, because these hold their data. Reads may be many and
// carry no data, so they can be put aside.

internal import FileContents
internal import FuseBridge
internal import KeyFiles
internal import ProtectedVolume
internal import Synchronization
internal import VolumeFormat

extension VolumeFileSystem {
    /// The number of workers that all busy files together may block before reads of them are parked.
    var waitingWorkers: Int { readers.canWork ? max(1, calls.limits.workers / 2) : .max }

    /// Two threads, or one if little memory can be locked.
    static func parkedThreads(_ limits: WorkerLimits) -> ParkedThreads {
        ParkedThreads(count: limits.workers < 8 ? 1 : 2, dataCapacity: Int(limits.requestSize))
    }

    /// Puts a read aside until its turn at the file comes. It has the same place in the queue as a read that waits in a worker.
    func park(_ read: ParkedRead) {
        read.file.content.park(at: read.offset, count: read.count) { [self] turn in
            readers.add { [self] buffer in
                finish(read, turn, &buffer)
                return read.count
            }
        }
    }

    /// Whether a direct read met the end of the file here, and the page cache may have what programs have written beyond. If the
    /// program waits for the read, the kernel reads the rest from its cache, but not if the read is asynchronous
    /// (`generic_file_read_iter`, Linux 6.18).
    func endsEarly(_ result: borrowing ReadResult, _ file: OpenFile, count: Int, _ handle: HandleInfo) -> Bool {
        result.range.count < count && !handle.isReadPage && !isShared && calls.canDropPages && readers.canWork
            && file.hasCachedWriter
    }

    /// Whether a read on a shared mount ends before an end that the kernel has been told of meanwhile. The kernel fills the rest
    /// of the page with zeros, and would show them up to that end, before it drops the page (`fuse_change_attributes`,
    /// Linux 6.18).
    func isBehind(_ result: borrowing ReadResult, _ file: OpenFile, at offset: UInt64, count: Int) -> Bool {
        guard isShared, result.range.count < count, readers.canWork else { return false }
        return offset + UInt64(result.range.count) < file.toldSize.load(ordering: .acquiring)
    }

    /// Has the kernel write back what it has from the read's offset on, and reads then. If too many reads wait for that, this one
    /// ends where the daemon's file does.
    func readAfterWriteBack(_ read: ParkedRead) {
        var again = read
        again.isLastTry = true
        let waits = calls.dropPages(of: read.file.node.number, at: read.offset, count: 0, for: .read) { [self, again] in
            park(again)
        }
        if !waits { park(again) }
    }

    private func finish(_ read: ParkedRead, _ turn: ReadTurn, _ buffer: inout MutableSpan<UInt8>) {
        let file = read.file
        do throws(VolumeError) {
            let use = idleClock.begin(file.node)
            let result = try file.content.read(turn, into: &buffer)
            if !read.isLastTry, endsEarly(result, file, count: read.count, read.handle) {
                if mustNotLinger(file) { wipeRequestData(read.count) }
                result.finish()
                use.end()
                return readAfterWriteBack(read)
            }
            read.reply.take()?.data(buffer.span.extracting(result.range))
            if mustNotLinger(file) { wipeRequestData(read.count) }
            // For class A, a lock of the volume waits until here.
            result.finish()
            use.end()
            if OpenFlags.isAccess(read.handle.flags) { file.content.noteAccess() }
        } catch {
            read.reply.take()?.error(refusal(error, file.node.number, of: read.process, "read"))
        }
    }
}

/// A read that was put aside.
struct ParkedRead: Sendable {
    let file: OpenFile
    let offset: UInt64
    let count: Int
    let handle: HandleInfo
    /// The thread that reads.
    let process: Int32
    let reply: ParkedReply
    /// Whether a read that ends early is answered as it is.
    var isLastTry = false

    init(
        _ file: OpenFile, at offset: UInt64, count: Int, _ handle: HandleInfo, _ request: borrowing Request,
        _ reply: consuming Reply
    ) {
        self.file = file
        self.offset = offset
        self.count = count
        self.handle = handle
        process = request.process
        self.reply = ParkedReply(reply)
    }
}
