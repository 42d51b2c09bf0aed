// Extended attributes. Their plaintext exists only in the worker's buffer, and for one request.

internal import BackingStore
internal import FuseBridge
internal import HostSystem
internal import KeyFiles
internal import ProtectedVolume
internal import VolumeFormat

extension VolumeFileSystem {
    /// SETXATTR. The value is wiped before the answer, whatever the file's class.
    func setXattr(
        _ request: borrowing Request, node number: NodeID, name: Span<UInt8>, value: Span<UInt8>, flags: Int32,
        _ reply: consuming Reply
    ) {
        let count = value.count
        do throws(VolumeError) {
            guard let mode = AttributeMode(flags: flags & ~Session.clearsSetGroup) else { throw .invalid }
            let node = try node(number)
            files.file(number)?.state.withLock { $0.isFreeOfPrivileges = false }
            let key = copyBytes(name)
            if name.equals(AttributeName.protection) {
                let process = request.process
                let user = request.user == UInt32.max ? nil : request.user
                let lowered = try volume.changingClass(of: node, by: { user ?? Credentials(of: process)?.user }) {
                    () throws(VolumeError) in try volume.setXattr(node, key, value: value, mode: mode)
                }
                if let lowered { events(.classLowered(lowered)) }
            } else {
                try volume.setXattr(node, key, value: value, mode: mode)
            }
            if name.equals(AttributeName.accessACL), flags & Session.clearsSetGroup != 0 { try clearSetGroup(of: node) }
            wipeRequestData(count)
            times.namesChanged(of: node, by: request.process)
            evictIfOvertaken(node)
            reply.success()
        } catch {
            wipeRequestData(count)
            reply.error(refusal(error, number, request, "change the class of"))
        }
    }

    /// GETXATTR, through the worker's buffer.
    func getXattr(
        _ request: borrowing Request, node number: NodeID, name: Span<UInt8>, size: Int,
        buffer: inout MutableSpan<UInt8>, _ reply: consuming Reply
    ) {
        do throws(VolumeError) {
            let count = try volume.getXattr(node(number), copyBytes(name), into: &buffer)
            answer(reply, size, buffer.span.extracting(0..<count))
            wipeRequestData(count)
        } catch {
            let isLabel = name.equals(AttributeName.label)
            reply.error((isLabel && error == .noAttribute && !canBeLabelled ? .EOPNOTSUPP : error.errno).rawValue)
        }
    }

    /// LISTXATTR. The kernel lets only an administrator use `trusted.*`, but leaves listing to the file system (xattr(7)).
    func listXattr(_ request: borrowing Request, node number: NodeID, size: Int, _ reply: consuming Reply) {
        do throws(VolumeError) {
            var all = try volume.listXattr(node(number))
            let isTrusted = { (name: [UInt8]) in name.span.hasText(AttributeName.trustedPrefix) }
            if all.contains(where: isTrusted), !(Credentials(of: request.process)?.has(.administrate) ?? false) {
                all.removeAll(where: isTrusted)
            }
            let names = Array(all.map { $0 + [0] }.joined())
            answer(reply, size, names.span)
        } catch {
            reply.error(error.errno.rawValue)
        }
    }

    func removeXattr(
        _ request: borrowing Request, node number: NodeID, name: Span<UInt8>, _ reply: consuming Reply
    ) {
        let name = copyBytes(name)
        // The lock sequence asks for this only because the kernel takes the inode's lock on the way.
        if name == MountClient.touchName { return reply.error(Errno.ENODATA.rawValue) }
        if name == MountClient.errorName, calls.flusher.isOwn(request.process) { return reply.success() }
        finish(reply) { () throws(VolumeError) in
            let node = try node(number)
            try volume.removeXattr(node, name)
            times.namesChanged(of: node, by: request.process)
        }
    }

    /// Answers an extended attribute: its size if `size` is 0, or ERANGE if the buffer is too small.
    private func answer(_ reply: consuming Reply, _ size: Int, _ value: Span<UInt8>) {
        if size == 0 { return reply.attributeSize(value.count) }
        if size < value.count { return reply.error(Errno.ERANGE.rawValue) }
        reply.data(value)
    }
}
