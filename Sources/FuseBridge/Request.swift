// The caller of a request, as the kernel reports it.

internal import CFuse3
internal import Glibc

/// The caller of a request. Not valid for data that comes from the page cache.
@safe public struct Request: ~Copyable {
    let pointer: fuse_req_t
    /// Effective user.
    public let user: UInt32
    /// Effective group, or the group to set.
    public let group: UInt32
    /// The thread's number in the daemon's PID namespace. 0 if the kernel has none.
    public let process: Int32
    /// The caller's umask.
    public let umask: UInt32

    init(_ pointer: fuse_req_t) {
        unsafe self.pointer = pointer
        // libfuse's context is part of the request, which exists until it is answered.
        let context = unsafe fuse_req_ctx(pointer).pointee
        user = context.uid
        group = context.gid
        process = context.pid
        umask = context.umask
    }

    /// Whether the caller belongs to `group`, primary or supplementary (fuse_req_getgroups(3)).
    ///
    /// Ask before the request is answered. False if the kernel does not report groups.
    public func belongs(to group: UInt32) -> Bool {
        if group == self.group { return true }
        return unsafe withUnsafeTemporaryAllocation(of: gid_t.self, capacity: 1024) { list in
            // At most `list.count` entries are written. The returned count may be larger.
            let count = unsafe fuse_req_getgroups(pointer, Int32(list.count), list.baseAddress)
            guard count > 0 else { return false }
            for index in 0..<min(Int(count), list.count) where unsafe list[index] == group { return true }
            return false
        }
    }
}

/// The bytes of `span` as an array, for names and attribute values.
public func copyBytes(_ span: Span<UInt8>) -> [UInt8] {
    unsafe span.withUnsafeBytes { unsafe Array($0) }
}
