// SEEK_DATA and SEEK_HOLE: answered from the content, once what programs have written is there.

internal import BackingStore
internal import FuseBridge
internal import Keybag
internal import HostSystem
internal import ProtectedVolume
internal import VolumeFormat

extension VolumeFileSystem {
    /// How long a seek may wait for the file to be flushed.
    private static let seekPatience: UInt64 = 10_000_000_000

    /// Answers a seek. What has been written may be in the kernel's page cache only, so that it looks like a hole, or like
    /// nothing behind the end, from here: a program that copies the file would leave it out. So the file is flushed first.
    /// The request is parked meanwhile: the flush needs workers, and any number of seeks may wait.
    ///
    /// The kernel holds the inode's lock until the answer, and so write(2) adds nothing meanwhile. A file that cannot be
    /// flushed, or not in time, or of which the store took not all, is answered EINVAL, as by a file system that cannot seek:
    /// programs then read all of it.
    func seek(
        _ target: SeekTarget, from offset: UInt64, in file: OpenFile, _ request: borrowing Request,
        _ reply: consuming Reply
    ) {
        let process = request.process
        if isClosed(file.node) || !mayHaveDirtyPages(file) {
            return answerSeek(target, from: offset, in: file, of: process, reply)
        }
        guard Flusher.isLockFree, !calls.flusher.hasRefused(file.node.number) else {
            return reply.error(Errno.EINVAL.rawValue)
        }
        let parked = ParkedReply(reply)
        calls.flusher.flush(file.node, until: monotonicNanoseconds() + Self.seekPatience) { [self] isFlushed in
            guard let reply = parked.take() else { return }
            if isFlushed || isClosed(file.node) {
                answerSeek(target, from: offset, in: file, of: process, reply)
            } else {
                reply.error(Errno.EINVAL.rawValue)
            }
        }
    }

    private func answerSeek(
        _ target: SeekTarget, from offset: UInt64, in file: OpenFile, of process: Int32, _ reply: consuming Reply
    ) {
        do throws(VolumeError) {
            if isClosed(file.node) { throw .locked(file.node.protectionClass ?? .complete) }
            reply.offset(Int64(try file.content.seek(target, from: offset)))
        } catch {
            reply.error(refusal(error, file.node.number, of: process, "seek in"))
        }
    }

    /// Direct handles count as well: they can be mapped.
    private func mayHaveDirtyPages(_ file: OpenFile) -> Bool { !isShared && file.hasWriter }

    // MARK: the flusher's handles

    /// Opens a file for the flusher: where a program has it open, in every state of the volume. No use of the file is noted,
    /// and no handle counted that a lock would cut off, as nothing is read or written through it.
    func openForWriteBack(_ node: Node, _ request: borrowing Request, _ reply: consuming Reply) {
        do throws(VolumeError) {
            try volume.retainForWriteBack(node)
        } catch {
            return reply.error(error.errno.rawValue)
        }
        let handle = Handle(
            isDirect: node.protectionClass ?? .complete == .complete, isWritable: false, isFlushers: true,
            process: request.process)
        if !reply.opened(handle.reply(keepCache: true)) { closeFlushers(node.number) }
    }

    /// The error that the kernel is to keep of a file, asked for by the flusher on its way. (What it sent is done all the same.)
    func owedError(_ node: Node, _ request: borrowing Request) -> Int32? {
        calls.flusher.isOwn(request.process) ? calls.flusher.owedError(node.number) : nil
    }

    /// Ends such a handle: it may be the file's last.
    func closeFlushers(_ number: NodeID) {
        guard let node = volume.node(number) else { return }
        volume.release(node, writable: false)
        if node.protectionClass == .completeUnlessOpen, node.openHandles == 0, volume.keys.state != .unlocked {
            calls.invalidate(number)
        }
    }
}
