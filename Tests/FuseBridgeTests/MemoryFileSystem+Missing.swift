// What the file system in memory cannot do: it answers ENOSYS.

import FuseBridge

extension MemoryFileSystem {
    func readlink(_ request: borrowing Request, node: NodeID, _ reply: consuming Reply) {
        reply.error(38)
    }
    func mknod(
        _ request: borrowing Request, parent: NodeID, name: Span<UInt8>, mode: UInt32, device: UInt64,
        _ reply: consuming Reply
    ) {
        reply.error(38)
    }
    func rmdir(_ request: borrowing Request, parent: NodeID, name: Span<UInt8>, _ reply: consuming Reply) {
        reply.error(38)
    }
    func symlink(
        _ request: borrowing Request, target: Span<UInt8>, parent: NodeID, name: Span<UInt8>, _ reply: consuming Reply
    ) {
        reply.error(38)
    }
    func rename(
        _ request: borrowing Request, parent: NodeID, name: Span<UInt8>, newParent: NodeID, newName: Span<UInt8>,
        flags: UInt32, _ reply: consuming Reply
    ) {
        reply.error(38)
    }
    func link(
        _ request: borrowing Request, node: NodeID, newParent: NodeID, newName: Span<UInt8>, _ reply: consuming Reply
    ) {
        reply.error(38)
    }
    func flush(_ request: borrowing Request, node: NodeID, handle: HandleInfo, _ reply: consuming Reply) {
        reply.error(38)
    }
    func fsync(
        _ request: borrowing Request, node: NodeID, handle: HandleInfo, dataOnly: Bool, _ reply: consuming Reply
    ) {
        reply.error(38)
    }
    func releasedir(_ request: borrowing Request, node: NodeID, handle: UInt64, _ reply: consuming Reply) {
        reply.error(38)
    }
    func fsyncdir(
        _ request: borrowing Request, node: NodeID, handle: UInt64, dataOnly: Bool, _ reply: consuming Reply
    ) {
        reply.error(38)
    }
    func listXattr(_ request: borrowing Request, node: NodeID, size: Int, _ reply: consuming Reply) {
        reply.error(38)
    }
    func removeXattr(_ request: borrowing Request, node: NodeID, name: Span<UInt8>, _ reply: consuming Reply) {
        reply.error(38)
    }
    func ioctl(
        _ request: borrowing Request, node: NodeID, command: UInt32, input: Span<UInt8>, room: Int,
        _ reply: consuming Reply
    ) {
        reply.error(38)
    }
    func fallocate(
        _ request: borrowing Request, node: NodeID, handle: HandleInfo, mode: Int32, offset: UInt64,
        length: UInt64, _ reply: consuming Reply
    ) {
        reply.error(38)
    }
    func getLock(
        _ request: borrowing Request, node: NodeID, handle: HandleInfo, _ bytes: LockedBytes, _ reply: consuming Reply
    ) {
        reply.error(38)
    }
    func setLock(
        _ request: borrowing Request, node: NodeID, handle: HandleInfo, _ bytes: LockedBytes, waits: Bool,
        _ reply: consuming Reply
    ) {
        reply.error(38)
    }
    func lockFile(
        _ request: borrowing Request, node: NodeID, handle: HandleInfo, _ kind: LockKind, waits: Bool,
        _ reply: consuming Reply
    ) {
        reply.error(38)
    }
    func lseek(
        _ request: borrowing Request, node: NodeID, handle: HandleInfo, offset: Int64, whence: Int32,
        _ reply: consuming Reply
    ) {
        reply.error(38)
    }
    func copyFileRange(
        _ request: borrowing Request, from node: NodeID, handle: HandleInfo, offset: UInt64,
        to target: NodeID, targetHandle: HandleInfo, targetOffset: UInt64, length: UInt64, flags: Int32,
        _ reply: consuming Reply
    ) {
        reply.error(38)
    }
}
