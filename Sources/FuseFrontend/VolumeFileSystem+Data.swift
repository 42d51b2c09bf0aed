// The data of files: reads, writes, and copies within the mount.

internal import BackingStore
internal import FuseBridge
internal import HostSystem
internal import Keybag
internal import ProtectedVolume
internal import Synchronization
internal import VolumeFormat

extension VolumeFileSystem {
    /// READ.
    func readData(
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
            guard let result = try readUnlessBusy(file, at: offset, count: count, &buffer) else {
                return park(ParkedRead(file, at: offset, count: count, handle, request, reply))
            }
            if endsEarly(result, file, count: count, handle) {
                if mustNotLinger(file) { wipeRequestData(count) }
                result.finish()
                use.end()
                return readAfterWriteBack(ParkedRead(file, at: offset, count: count, handle, request, reply))
            }
            if OpenFlags.isAccess(handle.flags) { file.content.noteAccess() }
            reply.data(buffer.span.extracting(result.range))
            if mustNotLinger(file) { wipeRequestData(count) }
            // A lock of the volume waits for a class A request until here.
            result.finish()
            use.end()
        } catch {
            let errno = refusal(error, number, request, "read")
            if case .locked = error { delay(file, offset) }
            reply.error(errno)
        }
    }

    /// WRITE.
    func writeData(
        _ request: borrowing Request, node number: NodeID, handle: HandleInfo, offset: UInt64, data: Span<UInt8>,
        _ reply: consuming Reply
    ) {
        guard let file = files.file(number) else { return reply.error(Errno.EBADF.rawValue) }
        do throws(VolumeError) {
            let use = idleClock.begin(file.node)
            if handle.isWritePage {
                file.notePages()
                if file.node.protectionClass == .complete { writeBacks.add(1, ordering: .relaxed) }
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

    /// COPY_FILE_RANGE.
    func copyData(
        _ request: borrowing Request, from number: NodeID, handle: HandleInfo, offset: UInt64, to target: NodeID,
        targetHandle: HandleInfo, targetOffset: UInt64, length: UInt64, _ reply: consuming Reply
    ) {
        guard let source = files.file(number), let destination = files.file(target) else {
            return reply.error(Errno.EBADF.rawValue)
        }
        do throws(VolumeError) {
            let count = try FileContent.copy(
                from: source.content, at: offset, to: destination.content, at: targetOffset,
                count: min(length, UInt64(Int32.max)))
            if Handle(number: targetHandle.handle).isDirect { times.directWrite(to: destination) }
            if OpenFlags.isAccess(handle.flags), source.content.noteAccess() { calls.invalidateAttributes(number) }
            clearPrivileges(destination, for: request)
            reply.written(Int(count))
        } catch {
            let isSource = !Access.isAllowed(
                .copySource, class: source.node.protectionClass ?? .complete, state: volume.keys.state)
            reply.error(refusal(error, isSource ? number : target, request, "copy"))
        }
    }
}
