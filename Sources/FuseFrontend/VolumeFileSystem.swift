// The operations of the mount. Each request of the kernel becomes a call of the volume.

internal import BackingStore
internal import FileContents
internal import FuseBridge
internal import KeyFiles
internal import Keybag
internal import HostSystem
internal import ProtectedVolume
internal import Synchronization
internal import VolumeFormat

/// A volume as a FUSE file system. Holds no lock while it replies, and never notifies the kernel from a handler.
final class VolumeFileSystem: FileSystem {
    let volume: Volume
    let options: MountOptions
    let files = OpenFiles()
    /// The locks of programs. Nil if the kernel keeps them, because no other machine needs to see them.
    let locks: StoreLocks?
    let refusals: RefusalLog
    let idleClock = IdleClock()
    let forgotten = ForgottenNodes()
    let habits = ListingHabits()
    let writeBacks = WriteBackCount()
    /// Decides about the times that the kernel keeps.
    let times: FileTimes
    let waits: WaitLimit
    /// The work that handlers leave to other threads.
    let calls: DeferredCalls
    let readers: ParkedThreads
    let space: StoreSpace
    let log: @Sendable (String) -> Void
    let events: @Sendable (FrontendEvent) -> Void
    /// Whether somebody who can use the mount may set labels: that takes CAP_SYS_ADMIN, and an ordinary user's mount is for this
    /// user alone. After EOPNOTSUPP `ls -l` asks no other file; ENODATA it would get for each file. The kernel itself answers where
    /// SELinux is on.
    let canBeLabelled: Bool

    init(
        volume: Volume, options: MountOptions, calls: DeferredCalls, log: @escaping @Sendable (String) -> Void,
        events: @escaping @Sendable (FrontendEvent) -> Void
    ) {
        self.volume = volume
        self.options = options
        self.calls = calls
        waits = WaitLimit(calls.limits)
        times = FileTimes(volume, calls, waits)
        locks = volume.options.isShared ? StoreLocks() : nil
        readers = Self.parkedThreads(calls.limits)
        space = StoreSpace { Self.freeBytes(of: volume) }
        self.log = log
        self.events = events
        canBeLabelled = options.allowsOther || Credentials.isRoot
        refusals = RefusalLog(namesPrograms: options.logsNames, log: log)
    }

    // MARK: names

    func lookup(_ request: borrowing Request, parent: NodeID, name: Span<UInt8>, _ reply: consuming Reply) {
        do throws(VolumeError) {
            let entry = try entry(parent, name)
            if ![.directory, .symlink].contains(entry.node.kind) { habits.lookedUp(in: parent) }
            answer(entry, reply)
        } catch {
            if error == .noEntry, negativeTimeout > 0 {
                _ = reply.entry(.missing(timeout: negativeTimeout))
            } else {
                reply.error(error.errno.rawValue)
            }
        }
    }

    func forget(_ number: NodeID, count: UInt64) {
        guard let node = volume.node(number) else { return }
        volume.forget(node, count: count)
        guard volume.node(number) == nil else { return }
        times.forget(number)
        forgotten.note()
    }

    func readlink(_ request: borrowing Request, node number: NodeID, _ reply: consuming Reply) {
        do throws(VolumeError) {
            reply.data(try volume.readlink(node(number)))
        } catch {
            reply.error(error.errno.rawValue)
        }
    }

    func mknod(
        _ request: borrowing Request, parent: NodeID, name: Span<UInt8>, mode: UInt32, device: UInt64,
        _ reply: consuming Reply
    ) {
        do throws(VolumeError) {
            let entry = try volume.mknod(
                copyBytes(name), in: node(parent), mode: mode, device: device, caller: Caller(request))
            answer(entry, reply)
        } catch {
            reply.error(refusal(error, parent, request, "create a file in"))
        }
    }

    func mkdir(
        _ request: borrowing Request, parent: NodeID, name: Span<UInt8>, mode: UInt32, _ reply: consuming Reply
    ) {
        answer(reply) { () throws(VolumeError) in
            try volume.mkdir(name, in: node(parent), mode: mode, caller: Caller(request))
        }
    }

    func symlink(
        _ request: borrowing Request, target: Span<UInt8>, parent: NodeID, name: Span<UInt8>, _ reply: consuming Reply
    ) {
        answer(reply) { () throws(VolumeError) in
            try volume.symlink(copyBytes(name), in: node(parent), target: copyBytes(target), caller: Caller(request))
        }
    }

    func unlink(_ request: borrowing Request, parent: NodeID, name: Span<UInt8>, _ reply: consuming Reply) {
        finish(reply) { () throws(VolumeError) in
            if let changed = try volume.unlink(name, in: node(parent)) {
                times.namesChanged(of: changed.node, by: request.process, changed.attributes)
            }
        }
    }

    func rmdir(_ request: borrowing Request, parent: NodeID, name: Span<UInt8>, _ reply: consuming Reply) {
        finish(reply) { () throws(VolumeError) in try volume.rmdir(copyBytes(name), in: node(parent)) }
    }

    func rename(
        _ request: borrowing Request, parent: NodeID, name: Span<UInt8>, newParent: NodeID, newName: Span<UInt8>,
        flags: UInt32, _ reply: consuming Reply
    ) {
        do throws(VolumeError) {
            guard let mode = RenameMode(flags: flags) else { throw .invalid }
            let changed = try volume.rename(
                name, in: node(parent), to: newName, in: node(newParent), mode: mode,
                caller: Caller(request))
            noteRename(of: changed.moved, by: request.process)
            noteRename(of: changed.target, by: request.process)
            reply.success()
        } catch {
            reply.error(refusal(error, parent, request, "replace a file of a closed class from"))
        }
    }

    func link(
        _ request: borrowing Request, node number: NodeID, newParent: NodeID, newName: Span<UInt8>,
        _ reply: consuming Reply
    ) {
        answer(reply, afterChange: true) { () throws(VolumeError) in
            let entry = try volume.link(node(number), copyBytes(newName), in: node(newParent))
            times.namesChanged(of: entry.node, by: request.process)
            return entry
        }
    }

    // MARK: attributes

    func getAttributes(
        _ request: borrowing Request, node number: NodeID, handle: HandleInfo?, _ reply: consuming Reply
    ) {
        do throws(VolumeError) {
            let node = try node(number)
            // The kernel passes a handle before a buffered write and for SEEK_END; stat(2) comes without one.
            if handle != nil, isClosed(node) { throw .locked(node.protectionClass ?? .complete) }
            times.waitUntilTold(number, asking: request.process)
            let process = request.process
            if let handle, isBeforeWrite(node, handle, request) { return answerBeforeWrite(node, process, reply) }
            answerAttributes(node, process, reply)
        } catch {
            reply.error(refusal(error, number, request, "use"))
        }
    }

    func setAttributes(
        _ request: borrowing Request, node number: NodeID, _ changes: AttributeChanges, handle: HandleInfo?,
        _ reply: consuming Reply
    ) {
        do throws(VolumeError) {
            let node = try node(number)
            let known = times.repeated(changes, of: node, by: request.process)
            let attributes =
                if let known { known } else {
                    try setAttributes(node, changes, throughHandle: handle != nil, request)
                }
            if let owed = owedError(node, request) { return reply.error(owed) }
            let timeout = known == nil ? attributeTimeout(node, afterChange: true) : 0
            reply.attributes(shown(attributes, of: node), timeout: timeout)
        } catch {
            reply.error(refusal(error, number, request, "truncate"))
        }
    }

    func statfs(_ request: borrowing Request, node: NodeID, _ reply: consuming Reply) {
        do throws(VolumeError) {
            reply.status(FileSystemStatus(try volume.statistics()))
        } catch {
            reply.error(error.errno.rawValue)
        }
    }

    // MARK: files

    func open(
        _ request: borrowing Request, node number: NodeID, flags: Int32, _ reply: consuming Reply
    ) {
        do throws(VolumeError) {
            let node = try node(number)
            if flags & OpenFlags.truncate == 0 { times.clearError(of: node, for: request.process) }
            let isWritable = flags & OpenFlags.accessMode != OpenFlags.readOnly
            if calls.flusher.isOwn(request.process) { return openForWriteBack(node, request, reply) }
            let truncates = flags & OpenFlags.truncate != 0
            let content = try volume.open(
                node, writable: isWritable, truncate: truncates,
                clearing: truncates ? setIDToClear(node, for: request) : 0)
            let isWriteOnly = flags & OpenFlags.accessMode == OpenFlags.writeOnly
            if !isWritable { noteCachedAccess(node, content, flags, request) }
            let handle = opened(
                node, content, isWritable: isWritable, isWriteOnly: isWriteOnly, appends: flags & OpenFlags.append != 0,
                request)
            if !reply.opened(handle.reply(keepCache: !isShared)) { close(handle, number) }
        } catch {
            reply.error(refusal(error, number, request, "open"))
        }
    }

    func create(
        _ request: borrowing Request, parent: NodeID, name: Span<UInt8>, mode: UInt32, flags: Int32,
        _ reply: consuming Reply
    ) {
        do throws(VolumeError) {
            let parent = try node(parent)
            let (entry, content) =
                name.equals(Session.noName)
                ? try volume.createNameless(in: parent, mode: mode, caller: Caller(request))
                : try createOrOpen(name, in: parent, mode: mode, flags, request)
            // The volume retains a new file as writable, whatever the flags say.
            let isWriteOnly = flags & OpenFlags.accessMode == OpenFlags.writeOnly
            let handle = opened(
                entry.node, content, isWritable: true, isWriteOnly: isWriteOnly, appends: flags & OpenFlags.append != 0,
                request)
            if !reply.created(shown(entry), handle.reply(keepCache: !isShared)) {
                close(handle, entry.node.number)
                volume.forget(entry.node, count: 1)
            }
        } catch {
            reply.error(refusal(error, parent, request, "create a file in"))
        }
    }

    func release(
        _ request: borrowing Request, node number: NodeID, handle: HandleInfo, _ reply: consuming Reply
    ) {
        locks?.released(handle.handle, number)
        close(Handle(number: handle.handle), number)
        reply.success()
    }

    func flush(
        _ request: borrowing Request, node: NodeID, handle: HandleInfo, _ reply: consuming Reply
    ) {
        // After ENOSYS the kernel no longer asks.
        guard let locks else { return reply.error(Errno.ENOSYS.rawValue) }
        locks.closed(StoreLocks.Owner(node: node, number: handle.lockOwner))
        reply.success()
    }

    func fsync(
        _ request: borrowing Request, node number: NodeID, handle: HandleInfo, dataOnly: Bool,
        _ reply: consuming Reply
    ) {
        finish(reply) { () throws(VolumeError) in try volume.synchronize(node(number), dataOnly: dataOnly) }
    }

    func fallocate(
        _ request: borrowing Request, node number: NodeID, handle: HandleInfo, mode: Int32, offset: UInt64,
        length: UInt64, _ reply: consuming Reply
    ) {
        guard let file = files.file(number) else { return reply.error(Errno.EBADF.rawValue) }
        let use = idleClock.begin(file.node)
        defer { withExtendedLifetime(use) {} }
        do throws(VolumeError) {
            guard let kind = AllocationMode(flags: mode) else { throw .notSupported }
            try file.content.allocate(kind, at: offset, length: length)
            clearPrivileges(file, for: request)
            reply.success()
        } catch {
            reply.error(refusal(error, number, request, "allocate space in"))
        }
    }

    // MARK: directories

    func opendir(_ request: borrowing Request, node: NodeID, flags: Int32, _ reply: consuming Reply) {
        // Listings have no state. After ENOSYS the kernel no longer asks, and keeps listings until it sees a change.
        if isShared {
            _ = reply.opened(OpenReply(handle: 0, directIO: false, keepCache: false))
        } else {
            reply.error(Errno.ENOSYS.rawValue)
        }
    }

    func releasedir(
        _ request: borrowing Request, node: NodeID, handle: UInt64, _ reply: consuming Reply
    ) {
        reply.success()
    }

    func readdir(
        _ request: borrowing Request, node number: NodeID, handle: UInt64, offset: Int64,
        buffer: inout DirectoryBuffer, _ reply: consuming Reply
    ) {
        do throws(VolumeError) {
            let attributes =
                buffer.isPlus ? habits.attributes(for: request.process, of: number, isStart: offset == 0) : .none
            let start = UInt64(bitPattern: offset)
            let given = try list(node(number), from: start, attributes: attributes, into: &buffer)
            if !reply.directory(buffer) {
                for node in given { volume.forget(node, count: 1) }
            }
        } catch {
            reply.error(error.errno.rawValue)
        }
    }

    func fsyncdir(
        _ request: borrowing Request, node number: NodeID, handle: UInt64, dataOnly: Bool,
        _ reply: consuming Reply
    ) {
        finish(reply) { () throws(VolumeError) in try volume.synchronizeDirectory(node(number)) }
    }
}
