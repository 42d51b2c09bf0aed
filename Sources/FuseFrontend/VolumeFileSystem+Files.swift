// Handles, attributes, privileges and refusals of open files.

internal import BackingStore
internal import FileContents
internal import FuseBridge
internal import KeyFiles
internal import Keybag
internal import HostSystem
internal import ProtectedVolume
internal import VolumeFormat

extension VolumeFileSystem {
    /// S_ISUID, S_ISGID and S_IXGRP of stat(2).
    private static let setUser: UInt32 = 0o4000
    private static let setGroup: UInt32 = 0o2000
    private static let groupExecutes: UInt32 = 0o0010

    // MARK: handles

    /// Counts a handle for content that the volume has retained, and decides whether it bypasses the page cache.
    func opened(
        _ node: Node, _ content: FileContent, isWritable: Bool, isWriteOnly: Bool, appends: Bool,
        _ request: borrowing Request
    ) -> Handle {
        // The page cache takes what is appended to the end that this machine knows. Another one may have moved it.
        let isSharedAppend = isShared && appends
        let isUncached = options.bypassesCacheForComplete && node.protectionClass ?? .complete == .complete
        let isDirect = isUncached || isWritable && (isSharedAppend || writesThrough(node, isWriteOnly: isWriteOnly))
        let handle = Handle(
            isDirect: isDirect, isWritable: isWritable, process: request.process, serial: locks?.nextSerial() ?? 0)
        idleClock.begin(node).end()
        // A page that is read is noted when it is asked for, one that is written reaches us later.
        if handle.isCachedWritable { node.notePages() }
        files.add(handle, node: node, content: content)
        return handle
    }

    /// Creates a file. If another machine has just done so, its file is opened, unless the program wants to be the one that makes
    /// it. On other mounts the kernel knows which names exist.
    func createOrOpen(
        _ name: Span<UInt8>, in parent: Node, mode: UInt32, _ flags: Int32, _ request: borrowing Request
    ) throws(VolumeError) -> (entry: ProtectedVolume.Entry, content: FileContent) {
        do throws(VolumeError) {
            return try volume.create(name, in: parent, mode: mode, caller: Caller(request))
        } catch {
            guard isShared, error.errno == .EEXIST, flags & OpenFlags.exclusive == 0 else { throw error }
        }
        let entry = try volume.lookup(name, in: parent)
        do throws(VolumeError) {
            // A new file is retained as writable, too.
            return (entry, try volume.open(entry.node, writable: true, truncate: flags & OpenFlags.truncate != 0))
        } catch {
            volume.forget(entry.node, count: 1)
            throw error
        }
    }

    /// Takes an open for reading for an access if the kernel may answer reads from its cache, of which nobody tells us.
    func noteCachedAccess(_ node: Node, _ content: FileContent, _ flags: Int32, _ request: borrowing Request) {
        guard node.mayHavePages, OpenFlags.isAccess(flags), !calls.isOwn(request.process) else { return }
        if content.noteAccess() { calls.invalidateAttributes(node.number) }
    }

    /// Ends a handle, releases the content, and queues that pages of a closed class are dropped.
    func close(_ handle: Handle, _ number: NodeID) {
        if handle.isFlushers { return closeFlushers(number) }
        guard let (file, wasLast) = files.remove(handle, node: number) else { return }
        let node = file.node
        if wasLast { calls.flusher.closed(number) }
        if wasLast { space.closed(number) }
        if wasLast { times.lastClose(of: file) }
        volume.release(node, writable: handle.isWritable)
        // A class B file closes with its last handle, and the volume has wiped its key. A handler may not notify, so this is
        // queued.
        if wasLast, node.protectionClass == .completeUnlessOpen, volume.keys.state != .unlocked {
            calls.invalidate(number)
        }
    }

    // MARK: attributes

    /// Changes attributes, and clears set-ID bits and capabilities as POSIX wants (KILLPRIV_V2).
    func setAttributes(
        _ node: Node, _ changes: AttributeChanges, throughHandle: Bool, _ request: borrowing Request
    ) throws(VolumeError) -> ProtectedVolume.Attributes {
        let file = files.file(node.number)
        var changes = changes
        var change = AttributeChange()
        change.isKernelsOwn = try times.receive(
            &changes, for: node, file, throughHandle: throughHandle, from: request.process)
        change.mode = changes.mode
        change.owner = changes.owner
        change.group = changes.group
        change.isThroughHandle = throughHandle
        if let size = changes.size { change.size = UInt64(clamping: max(0, size)) }
        change.accessed = TimeChange(changes.accessed)
        change.modified = TimeChange(changes.modified)
        // truncate(2) to the size that the file has, which moves the time on other file systems.
        let isTruncation = changes.size != nil && changes.modified == nil && node.kind == .file
        if isTruncation { change.modified = .now }
        // A special file has such bits, too.
        let changesOwner = (changes.owner != nil || changes.group != nil) && node.kind != .directory
        let isFree = file?.state.withLock { $0.isFreeOfPrivileges } ?? false
        if changesOwner || (node.kind == .file && changes.size != nil && !isFree) {
            let now = try volume.attributes(of: node)
            let cleared = now.mode & ~setIDToClear(now, for: request, isChangeOfOwner: changesOwner)
            if changes.mode == nil, cleared != now.mode { change.mode = cleared }
            try? volume.removeCapabilities(of: node)
        }
        if changes.mode != nil { file?.state.withLock { $0.isFreeOfPrivileges = false } }
        do throws(VolumeError) {
            let attributes = try volume.setAttributes(of: node, change)
            if isTruncation { times.truncated(node, file) }
            return attributes
        } catch {
            // The kernel's time of a write before a file became immutable may come after it, at the close.
            guard error == .store(.EPERM), throughHandle, changes.isModificationOnly,
                try volume.flags(of: node).contains(.immutable)
            else { throw error }
            return try volume.attributes(of: node)
        }
    }

    /// The set-ID bits of a file that a change of its content takes away, as the kernel decides for its own file systems
    /// (`setattr_should_drop_suidgid`). Processes with CAP_FSETID keep them, except at a change of owner.
    ///
    /// A set-group bit without execution does not run as the group. Members of the group keep it. The kernel does not say who
    /// the caller is (`Request.user`), so its credentials are asked for. Below an idmapped mount that is the group on the store.
    func setIDToClear(
        _ now: ProtectedVolume.Attributes, for request: borrowing Request, isChangeOfOwner: Bool = false
    ) -> UInt32 {
        guard now.mode & (Self.setUser | Self.setGroup) != 0 else { return 0 }
        let caller = Credentials(of: request.process)
        let isPrivileged = caller?.has(.keepSetID) ?? false
        guard !isPrivileged || isChangeOfOwner else { return 0 }
        if now.mode & Self.setGroup == 0 { return now.mode & Self.setUser }
        let runs = now.mode & Self.groupExecutes != 0
        let keeps = isPrivileged || caller?.belong(to: options.group ?? now.group) ?? false
        return now.mode & (runs || !keeps ? Self.setUser | Self.setGroup : Self.setUser)
    }

    /// The same for a file whose attributes are not known. 0 if they cannot be read.
    func setIDToClear(_ node: Node, for request: borrowing Request) -> UInt32 {
        guard let now = try? volume.attributes(of: node) else { return 0 }
        return setIDToClear(now, for: request)
    }

    /// Clears the set-group bit after a caller outside of the group has set the access ACL, as `posix_acl_update_mode` does.
    func clearSetGroup(of node: Node) throws(VolumeError) {
        let now = try volume.attributes(of: node)
        guard now.mode & Self.setGroup != 0 else { return }
        var change = AttributeChange()
        change.mode = now.mode & ~Self.setGroup
        _ = try volume.setAttributes(of: node, change)
    }

    /// Whether plaintext of `file` is wiped from the request's buffer at once, because its class leaves memory at a lock.
    func mustNotLinger(_ file: OpenFile) -> Bool {
        switch file.node.protectionClass {
        case .completeUntilFirstUserAuthentication, .some(.none): false
        default: true
        }
    }

    /// Clears set-ID bits and capabilities after a write. Under KILLPRIV_V2 the kernel leaves this to the daemon.
    func clearPrivileges(_ file: OpenFile, for request: borrowing Request) {
        guard !file.state.withLock({ $0.isFreeOfPrivileges }), volume.mayHavePrivileges(file.node) else { return }
        guard let now = try? volume.attributes(of: file.node) else { return }
        let cleared = now.mode & ~setIDToClear(now, for: request)
        if cleared != now.mode {
            var change = AttributeChange()
            change.mode = cleared
            _ = try? volume.setAttributes(of: file.node, change)
            calls.invalidateAttributes(file.node.number)
        }
        try? volume.removeCapabilities(of: file.node)
        file.state.withLock { $0.isFreeOfPrivileges = cleared & (Self.setUser | Self.setGroup) == 0 }
    }

    // MARK: refusals

    /// A lock that overtook a change to class A or 7, by setxattr(2) or by a save by rename, has not dropped the file's pages.
    func evictIfOvertaken(_ node: Node) {
        if let now = node.protectionClass, now.cutsOffHandles, volume.keys.state(of: now) != .unlocked {
            calls.invalidate(node.number)
        }
    }

    /// Called for a known object that a rename has given another name.
    func noteRename(of changed: ChangedName?, by process: Int32) {
        guard let changed else { return }
        times.namesChanged(of: changed.node, by: process, changed.attributes)
        evictIfOvertaken(changed.node)
    }

    /// Stores a page that the kernel writes back. If its keys are gone, the page becomes a late record, and is dropped from the
    /// cache.
    func writeBack(_ file: OpenFile, _ data: Span<UInt8>, at offset: UInt64) throws(VolumeError) {
        do throws(VolumeError) {
            try file.content.write(data, at: offset, access: .writeBack)
        } catch {
            guard case .locked = error else { throw error }
            try volume.writeLate(data, at: offset, to: file.content)
            calls.keepLateRecords(of: file.node.number)
        }
    }

    /// Answers a write that is done. After a direct one, pages that the kernel has read meanwhile are dropped first: it does so
    /// itself only if the program waits for the write (`fuse_aio_complete`, Linux 6.18), and the page cache would show the old
    /// content for good. The answer is parked, because a handler must not notify. If many are parked, this one is given first,
    /// and the page cache may show the old content for a moment.
    func answerWrite(
        _ file: OpenFile, _ handle: HandleInfo, at offset: UInt64, count: Int, _ reply: consuming Reply
    ) {
        let isDirect = Handle(number: handle.handle).isDirect || handle.flags & OpenFlags.direct != 0
        guard !handle.isWritePage, isDirect, file.mayShowOldPages, calls.canDropPages else {
            return reply.written(count)
        }
        let parked = ParkedReply(reply)
        let number = file.node.number
        let waits = calls.dropPages(of: number, at: offset, count: count, for: .write) { parked.take()?.written(count) }
        guard !waits else { return }
        parked.take()?.written(count)
        calls.dropPagesLater(of: number, at: offset, count: count)
    }

    /// A page that the kernel wrote back was refused. If it is of class A or 7 and came after a lock, this is logged once, and the
    /// page is dropped.
    func pageRefused(_ error: VolumeError, _ file: OpenFile, _ request: borrowing Request) {
        let number = file.node.number
        calls.flusher.refused(number, error.errno.rawValue)
        guard let known = file.node.protectionClass, known.cutsOffHandles, volume.keys.state(of: known).isLocked
        else { return }
        let processes = Set(file.state.withLock { $0.handles.filter(\.isCachedWritable).map(\.process) })
        refusals.refused(node: number, process: processes.first ?? request.process, isLateWrite: true) {
            "a write to \(describe(number)) reached the volume after it was locked, and could not be kept: \(error); fsync or close says so"
        }
        calls.invalidate(number)
        calls.wipeBuffersSoon()
    }

    /// Slows a program down that asks for the same closed page repeatedly, as mlock does, by a few ticks at most.
    func delay(_ file: OpenFile, _ offset: UInt64) {
        let count = file.countRefusal(at: offset)
        guard count > 3 else { return }
        waits.run { sleep(milliseconds: count > 30 ? 50 : 5) }
    }
}

extension AttributeChanges {
    /// Whether only the modification time changes.
    var isModificationOnly: Bool {
        modified != nil && accessed == nil && mode == nil && owner == nil && group == nil && size == nil
    }
}

extension AllocationMode {
    /// From the flags of fallocate(2); nil for those that are not supported.
    init?(flags: Int32) {
        let keepSize: Int32 = 1
        let punch: Int32 = 2
        let zero: Int32 = 16
        switch flags {
        case 0: self = .reserve
        case keepSize: self = .reserveKeepingSize
        case punch | keepSize: self = .punch
        case zero: self = .zero
        case zero | keepSize: self = .zeroKeepingSize
        default: return nil
        }
    }
}

extension SeekTarget {
    /// From the last argument of lseek(2); nil for other values.
    init?(whence: Int32) {
        switch whence {
        case 3: self = .data
        case 4: self = .hole
        default: return nil
        }
    }
}

extension RenameMode {
    /// From the flags of renameat2(2); nil for those that are not supported.
    init?(flags: UInt32) {
        switch flags {
        case 0: self = .replace
        case 1: self = .noReplace
        case 2: self = .exchange
        case 4: self = .whiteout
        case 5: self = .whiteoutNoReplace
        default: return nil
        }
    }
}

extension AttributeMode {
    /// From the flags of setxattr(2); nil for unknown flags.
    init?(flags: Int32) {
        switch flags {
        case 0: self = .set
        case 1: self = .create
        case 2: self = .replace
        default: return nil
        }
    }
}

extension TimeChange {
    init(_ time: AttributeChanges.Time?) {
        switch time {
        case nil: self = .keep
        case .now: self = .now
        case .at(let time):
            self = .set(BackingStore.Timestamp(seconds: time.seconds, nanoseconds: time.nanoseconds))
        }
    }
}
