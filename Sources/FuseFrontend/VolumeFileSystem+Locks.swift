// GETLK, SETLK, SETLKW, flock and FLUSH of a shared mount. On other mounts the kernel keeps all locks itself.

internal import BackingStore
internal import FileContents
internal import FuseBridge
internal import HostSystem
internal import ProtectedVolume
internal import VolumeFormat

extension StoreLock {
    init(_ kind: LockKind) {
        switch kind {
        case .none: self = .none
        case .shared: self = .shared
        case .exclusive: self = .exclusive
        }
    }
}

extension VolumeFileSystem {
    /// GETLK: a lock that conflicts.
    func getLock(
        _ request: borrowing Request, node number: NodeID, handle: HandleInfo, _ bytes: LockedBytes,
        _ reply: consuming Reply
    ) {
        guard let locks, let file = files.file(number) else { return reply.error(Errno.EBADF.rawValue) }
        let owner = StoreLocks.Owner(node: number, number: handle.lockOwner)
        do throws(Errno) {
            // Without locks of its own the owner conflicts with all others, as the content's handle does.
            let asking = try locks.file(of: owner, for: file, handle.handle, makes: false) ?? file.content.backing
            let range = LockRange.program(bytes.first, bytes.last)
            guard let found = try asking.lock(against: StoreLock(bytes.kind), range) else {
                return reply.lock(LockedBytes(kind: .none, first: bytes.first, last: bytes.last))
            }
            let last = found.range.upperBound >= LockRange.lastOfPrograms ? LockRange.end : found.range.upperBound
            let kind: LockKind = found.kind == .shared ? .shared : .exclusive
            reply.lock(LockedBytes(kind: kind, first: found.range.lowerBound, last: last))
        } catch {
            reply.error(error.rawValue)
        }
    }

    /// SETLK and SETLKW.
    func setLock(
        _ request: borrowing Request, node number: NodeID, handle: HandleInfo, _ bytes: LockedBytes, waits: Bool,
        _ reply: consuming Reply
    ) {
        let range = LockRange.program(bytes.first, bytes.last)
        takeLock(number, handle, StoreLock(bytes.kind), range, waits: waits, reply) { _ in }
    }

    /// flock(2). A holder that wants another kind releases its lock first if it cannot have that at once, as flock(2) says.
    /// Otherwise two holders would wait for each other.
    func lockFile(
        _ request: borrowing Request, node number: NodeID, handle: HandleInfo, _ kind: LockKind, waits: Bool,
        _ reply: consuming Reply
    ) {
        guard let locks else { return reply.error(Errno.ENOSYS.rawValue) }
        let owner = StoreLocks.Owner(node: number, number: handle.lockOwner)
        takeLock(number, handle, StoreLock(kind), LockRange.wholeFile, waits: waits, reply) { held in
            locks.noteWhole(held, of: owner)
        }
    }

    /// - Parameter note: is called with the lock that the owner has of the range, whenever that changes.
    private func takeLock(
        _ number: NodeID, _ handle: HandleInfo, _ kind: StoreLock, _ range: ClosedRange<UInt64>, waits: Bool,
        _ reply: consuming Reply, _ note: @escaping @Sendable (StoreLock) -> Void
    ) {
        guard let locks, let file = files.file(number) else { return reply.error(Errno.EBADF.rawValue) }
        let owner = StoreLocks.Owner(node: number, number: handle.lockOwner)
        let own: BackingFile
        do throws(Errno) {
            guard let found = try locks.file(of: owner, for: file, handle.handle, makes: kind != .none) else {
                return reply.success()
            }
            own = found
        } catch {
            return reply.error(Errno.ENOLCK.rawValue)
        }
        do throws(Errno) {
            let held = range == LockRange.wholeFile ? locks.wholeLock(of: owner) : .none
            try take(kind, range, of: own, releasing: held, note)
            note(kind)
            return answerLock(kind, file, reply)
        } catch {
            guard error == .EAGAIN || error == .EACCES, kind != .none else { return reply.error(error.rawValue) }
            guard waits else { return reply.error(Errno.EAGAIN.rawValue) }
        }
        locks.wait(for: kind, range, of: own, reply) { [self] (reply, error) in
            if let error { return reply.error(error.rawValue) }
            note(kind)
            answerLock(kind, file, reply)
        }
    }

    /// Takes a lock if that is possible at once.
    private func take(
        _ kind: StoreLock, _ range: ClosedRange<UInt64>, of file: BackingFile, releasing held: StoreLock,
        _ note: (StoreLock) -> Void
    ) throws(Errno) {
        do throws(Errno) {
            try file.setLock(kind, range, waits: false)
        } catch {
            guard error == .EAGAIN || error == .EACCES, held != .none else { throw error }
            try file.setLock(.none, range, waits: false)
            note(.none)
            try file.setLock(kind, range, waits: false)
        }
    }

    /// Answers when the kernel has forgotten what it knows of the file, so that a program that has got a lock sees what others
    /// have written under theirs. Another thread does that, because a handler must not notify.
    private func answerLock(_ kind: StoreLock, _ file: OpenFile, _ reply: consuming Reply) {
        guard kind != .none else { return reply.success() }
        file.content.forgetCached()
        guard calls.canDropPages else { return reply.success() }
        let parked = ParkedReply(reply)
        calls.dropPages(of: file.node.number, at: 0, count: 0) { parked.take()?.success() }
    }
}
