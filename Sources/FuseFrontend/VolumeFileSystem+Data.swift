// The data of files: reads, writes, and copies within the mount.

internal import BackingStore
internal import FileContents
internal import FuseBridge
internal import HostSystem
internal import KeyFiles
internal import Keybag
internal import ProtectedVolume
internal import Synchronization
internal import VolumeFormat

extension VolumeFileSystem {
    func read(
        _ request: borrowing Request, node number: NodeID, handle: HandleInfo, offset: UInt64, count: Int,
        buffer: inout MutableSpan<UInt8>, _ reply: consuming Reply
    ) {
        guard let file = files.file(number) else { return reply.error(Errno.EBADF.rawValue) }
        do throws(VolumeError) {
            let use = idleClock.begin(file.node)
            if handle.isReadPage {
                file.node.notePages()
                file.notePages()
            }
            guard let turn = try file.content.turn(at: offset, count: count, limit: waitingWorkers) else {
                return park(ParkedRead(file, at: offset, count: count, handle, request, reply))
            }
            let result = try file.content.read(turn, into: &buffer)
            if endsEarly(result, file, count: count, handle) {
                if mustNotLinger(file) { wipeRequestData(count) }
                result.finish()
                use.end()
                return readAfterWriteBack(ParkedRead(file, at: offset, count: count, handle, request, reply))
            }
            if isBehind(result, file, at: offset, count: count) {
                if mustNotLinger(file) { wipeRequestData(count) }
                result.finish()
                use.end()
                var again = ParkedRead(file, at: offset, count: count, handle, request, reply)
                again.isLastTry = true
                return park(again)
            }
            if OpenFlags.isAccess(handle.flags) { file.content.noteAccess() }
            reply.data(buffer.span.extracting(result.range))
            if mustNotLinger(file) { wipeRequestData(count) }
            // A lock of the volume waits for a class A request until here, the end of class 7's time for one of that class.
            result.finish()
            use.end()
        } catch {
            let errno = refusal(error, number, request, "read")
            if case .locked = error { delay(file, offset) }
            reply.error(errno)
        }
    }

    func write(
        _ request: borrowing Request, node number: NodeID, handle: HandleInfo, offset: UInt64, data: Span<UInt8>,
        _ reply: consuming Reply
    ) {
        guard let file = files.file(number) else { return reply.error(Errno.EBADF.rawValue) }
        do throws(VolumeError) {
            let use = idleClock.begin(file.node)
            if handle.isWritePage {
                file.notePages()
                writeBacks.count(file.node.protectionClass)
                try writeBack(file, data, at: offset)
            } else {
                if isShared, handle.flags & OpenFlags.append != 0 {
                    try file.content.append(data)
                    // Not a direct handle: it was made to append after it was opened.
                    if !Handle(number: handle.handle).isDirect { calls.invalidate(number) }
                } else {
                    try file.content.write(data, at: offset, access: .write)
                }
                // With write-back the kernel moves the time for cached writes, but never for direct ones.
                if Handle(number: handle.handle).isDirect { times.directWrite(to: file) }
                clearPrivileges(file, for: request)
                try synchronizeDirectWrite(file, handle)
            }
            use.end()
            let count = data.count
            stored(count)
            if mustNotLinger(file) { wipeRequestData(count) }
            answerWrite(file, handle, at: offset, count: count, reply)
        } catch {
            if mustNotLinger(file) { wipeRequestData(data.count) }
            spaceRefused(error, file)
            if handle.isWritePage { pageRefused(error, file, request) }
            reply.error(refusal(error, number, request, "write"))
        }
    }

    /// Syncs a direct write with O_DSYNC, O_SYNC, RWF_DSYNC or RWF_SYNC. The kernel sends FSYNC after those through the page
    /// cache alone: not for handles that bypass it, and not for asynchronous ones with O_DIRECT (`fuse_direct_write_iter`,
    /// `fuse_aio_complete`, Linux 6.18).
    private func synchronizeDirectWrite(_ file: OpenFile, _ handle: HandleInfo) throws(VolumeError) {
        guard handle.flags & OpenFlags.synchronizesData != 0,
            Handle(number: handle.handle).isDirect || handle.flags & OpenFlags.direct != 0
        else { return }
        try volume.synchronize(file.node, dataOnly: handle.flags & OpenFlags.synchronizesAll == 0)
    }

    /// The most that one COPY_FILE_RANGE copies, in bytes. The kernel asks again for the rest. A request cannot be interrupted,
    /// and takes a worker.
    private static let largestCopy: UInt64 = 32 << 20

    func copyFileRange(
        _ request: borrowing Request, from number: NodeID, handle: HandleInfo, offset: UInt64, to target: NodeID,
        targetHandle: HandleInfo, targetOffset: UInt64, length: UInt64, flags: Int32, _ reply: consuming Reply
    ) {
        guard let source = files.file(number), let destination = files.file(target) else {
            return reply.error(Errno.EBADF.rawValue)
        }
        let reading = idleClock.begin(source.node)
        let writing = idleClock.begin(destination.node)
        defer {
            withExtendedLifetime(reading) {}
            withExtendedLifetime(writing) {}
        }
        do throws(VolumeError) {
            let count = try FileContent.copy(
                from: source.content, at: offset, to: destination.content, at: targetOffset,
                count: min(length, Self.largestCopy))
            if Handle(number: targetHandle.handle).isDirect { times.directWrite(to: destination) }
            if OpenFlags.isAccess(handle.flags), source.content.noteAccess() { calls.invalidateAttributes(number) }
            clearPrivileges(destination, for: request)
            reply.written(Int(count))
        } catch {
            let ofSource = source.node.protectionClass ?? .complete
            let isSource = !Access.isAllowed(.copySource, class: ofSource, state: volume.keys.state(of: ofSource))
            reply.error(refusal(error, isSource ? number : target, request, "copy"))
        }
    }
}
