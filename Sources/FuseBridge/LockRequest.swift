// Requests for locks of programs: fcntl(2) and flock(2).

internal import CFuse3
internal import CLibrary

/// The kind of a lock.
package enum LockKind: Sendable {
    /// Ends a lock.
    case none
    /// For readers.
    case shared
    /// For one writer.
    case exclusive

    init?(type: Int16) {
        switch Int32(type) {
        case F_UNLCK: self = .none
        case F_RDLCK: self = .shared
        case F_WRLCK: self = .exclusive
        default: return nil
        }
    }

    init?(flock operation: Int32) {
        switch operation & ~LOCK_NB {
        case LOCK_UN: self = .none
        case LOCK_SH: self = .shared
        case LOCK_EX: self = .exclusive
        default: return nil
        }
    }

    var type: Int16 {
        switch self {
        case .none: Int16(F_UNLCK)
        case .shared: Int16(F_RDLCK)
        case .exclusive: Int16(F_WRLCK)
        }
    }
}

/// The bytes of a lock with fcntl(2). The last byte is `Int64.max` if the lock reaches to the end of the file.
package struct LockedBytes: Sendable {
    /// Shared, exclusive, or none to take the lock away.
    package var kind: LockKind
    /// The first byte.
    package var first: UInt64
    /// The last byte.
    package var last: UInt64

    /// Makes a value from its fields.
    package init(kind: LockKind, first: UInt64, last: UInt64) {
        self.kind = kind
        self.first = first
        self.last = last
    }

    init?(_ lock: flock) {
        guard let kind = LockKind(type: lock.l_type), lock.l_start >= 0, lock.l_len >= 0 else { return nil }
        let (end, overflow) = lock.l_start.addingReportingOverflow(lock.l_len - 1)
        self.init(
            kind: kind, first: UInt64(lock.l_start),
            last: UInt64(lock.l_len == 0 || overflow ? off_t.max : max(end, lock.l_start)))
    }

    var lock: flock {
        var result = flock()
        result.l_type = kind.type
        result.l_whence = Int16(SEEK_SET)
        result.l_start = off_t(first)
        result.l_len = last >= UInt64(off_t.max) ? 0 : off_t(last - first + 1)
        return result
    }
}

func addLockOperations(_ table: inout fuse_lowlevel_ops) {
    unsafe table.getlk = { request, node, info, lock in
        guard let request = unsafe request, let info = unsafe info, let lock = unsafe lock else { return }
        guard let bytes = unsafe LockedBytes(lock.pointee) else { return unsafe Reply(request).error(EINVAL) }
        let system = unsafe fileSystem(of: request)
        unsafe system.getLock(Request(request), node: node, handle: HandleInfo(info), bytes, Reply(request))
    }
    unsafe table.setlk = { request, node, info, lock, sleeps in
        guard let request = unsafe request, let info = unsafe info, let lock = unsafe lock else { return }
        guard let bytes = unsafe LockedBytes(lock.pointee) else { return unsafe Reply(request).error(EINVAL) }
        let system = unsafe fileSystem(of: request)
        unsafe system.setLock(
            Request(request), node: node, handle: HandleInfo(info), bytes, waits: sleeps != 0, Reply(request))
    }
    unsafe table.flock = { request, node, info, operation in
        guard let request = unsafe request, let info = unsafe info else { return }
        guard let kind = LockKind(flock: operation) else { return unsafe Reply(request).error(EINVAL) }
        let system = unsafe fileSystem(of: request)
        unsafe system.lockFile(
            Request(request), node: node, handle: HandleInfo(info), kind, waits: operation & LOCK_NB == 0,
            Reply(request))
    }
}
