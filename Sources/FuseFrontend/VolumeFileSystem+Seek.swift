// SEEK_DATA and SEEK_HOLE, answered from the content after cached writes have arrived.

internal import BackingStore
internal import FileContents
internal import FuseBridge
internal import KeyFiles
internal import Keybag
internal import HostSystem
internal import ProtectedVolume
internal import VolumeFormat

extension VolumeFileSystem {
    /// How long a seek may wait for the file to be flushed.
    private static let seekPatience: UInt64 = 10_000_000_000

    /// Answers a seek. Written data may be only in the kernel's page cache. To us it then looks like a hole or like the end of
    /// the file, and a program that copies the file would leave it out. So the file is flushed first. The request is parked
    /// meanwhile, because the flush needs workers and any number of seeks may wait.
    ///
    /// The kernel holds the inode's lock until the answer, so write(2) adds nothing meanwhile. The answer is EINVAL if the file
    /// cannot be flushed in time, or if the store did not take all of it. A file system without seeks answers the same, and
    /// programs then read the whole file.
    func lseek(
        _ request: borrowing Request, node number: NodeID, handle: HandleInfo, offset: Int64, whence: Int32,
        _ reply: consuming Reply
    ) {
        guard let file = files.file(number) else { return reply.error(Errno.EBADF.rawValue) }
        guard offset >= 0 else { return reply.error(Errno.ENXIO.rawValue) }
        guard let target = SeekTarget(whence: whence) else { return reply.error(Errno.EINVAL.rawValue) }
        let offset = UInt64(offset)
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

    /// Direct handles count as well, because they can be mapped.
    private func mayHaveDirtyPages(_ file: OpenFile) -> Bool { !isShared && file.hasWriter }

    // MARK: the flusher's handles

    /// Opens a file for the flusher if a program has it open, in every state of the volume. This does not count as use, nor as
    /// a handle that a lock would close, because nothing is read or written through it.
    func openForWriteBack(_ node: Node, _ request: borrowing Request, _ reply: consuming Reply) {
        do throws(VolumeError) {
            try volume.retainForWriteBack(node)
        } catch {
            return reply.error(error.errno.rawValue)
        }
        let handle = Handle(isDirect: false, isWritable: false, isFlushers: true, process: request.process)
        if !reply.opened(handle.reply(keepCache: true)) { closeFlushers(node.number) }
    }

    /// The error that the kernel is to keep of a file. The flusher asks for it on its way, and its request is still carried
    /// out.
    func owedError(_ node: Node, _ request: borrowing Request) -> Int32? {
        calls.flusher.isOwn(request.process) ? calls.flusher.owedError(node.number) : nil
    }

    /// Ends such a handle. It may be the file's last.
    func closeFlushers(_ number: NodeID) {
        guard let node = volume.node(number) else { return }
        volume.release(node, writable: false)
        if node.protectionClass == .completeUnlessOpen, node.openHandles == 0, volume.keys.state != .unlocked {
            calls.invalidate(number)
        }
    }
}
