// The caller of a request, as the kernel reports it.

internal import CFuse3
internal import CLibrary

/// The caller of a request. Not valid for data that comes from the page cache.
@safe package struct Request: ~Copyable {
    let pointer: fuse_req_t
    /// Effective user, as an idmapped mount shows it to the store. Where the kernel can make idmapped
    /// mounts (Linux 6.12), it is said only by requests that make an object; others have UInt32.max.
    package let user: UInt32
    /// Effective group, likewise.
    package let group: UInt32
    /// The thread's number in the daemon's PID namespace. 0 if the kernel has none.
    package let process: Int32
    /// The caller's umask.
    package let umask: UInt32

    init(_ pointer: fuse_req_t) {
        unsafe self.pointer = pointer
        // libfuse's context is part of the request, which exists until it is answered.
        let context = unsafe fuse_req_ctx(pointer).pointee
        user = context.uid
        group = context.gid
        process = context.pid
        umask = context.umask
    }
}

/// The bytes of `span` as an array, for names and attribute values.
package func copyBytes(_ span: Span<UInt8>) -> [UInt8] {
    unsafe span.withUnsafeBytes { unsafe Array($0) }
}
