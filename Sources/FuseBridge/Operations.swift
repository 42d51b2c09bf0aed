// The table of functions that libfuse calls. Each turns C arguments into a call of the file system.
// libfuse and pthread give the pointers unwrapped here in every case.
// swift-format-ignore-file: NeverForceUnwrap

internal import CFuse3
internal import CLibrary

/// The session behind a request. The caller of `wait` keeps it alive until the last worker has ended.
private func session(of request: fuse_req_t) -> Session {
    unsafe Unmanaged<Session>.fromOpaque(fuse_req_userdata(request)!).takeUnretainedValue()
}

func fileSystem(of request: fuse_req_t) -> any FileSystem {
    unsafe session(of: request).fileSystem
}

/// Lends the worker's own memory for an answer. The request's bytes are before it.
private func withAnswerBuffer(of request: fuse_req_t, _ body: (inout MutableSpan<UInt8>) -> Void) {
    var buffer = unsafe MutableSpan<UInt8>(
        _unsafeStart: WorkerBuffer.current + WorkerBuffer.requestCapacity,
        byteCount: session(of: request).dataCapacity + WorkerBuffer.slack)
    body(&buffer)
}

extension HandleInfo {
    init(_ info: UnsafeMutablePointer<fuse_file_info>) {
        self.init(
            handle: unsafe info.pointee.fh, flags: unsafe info.pointee.flags,
            isWritePage: unsafe info.pointee.writepage != 0, lockOwner: unsafe info.pointee.lock_owner)
    }

    fileprivate static func optional(_ info: UnsafeMutablePointer<fuse_file_info>?) -> HandleInfo? {
        guard let info = unsafe info else { return nil }
        return unsafe HandleInfo(info)
    }
}

/// Every operation that `FileSystem` has.
func makeOperations() -> fuse_lowlevel_ops {
    var table = fuse_lowlevel_ops()
    addNameOperations(&table)
    addAttributeOperations(&table)
    addFileOperations(&table)
    addDirectoryOperations(&table)
    addLockOperations(&table)
    return table
}

private func addNameOperations(_ table: inout fuse_lowlevel_ops) {
    unsafe table.lookup = { request, parent, name in
        let system = unsafe fileSystem(of: request!)
        unsafe system.lookup(
            Request(request!), parent: parent, name: Span<UInt8>(_unsafeStart: name!, byteCount: strlen(name!)),
            Reply(request!))
    }
    unsafe table.forget = { request, node, count in
        unsafe fileSystem(of: request!).forget(node, count: count)
        unsafe Reply(request!).none()
    }
    unsafe table.forget_multi = { request, count, list in
        let system = unsafe fileSystem(of: request!)
        for index in 0..<count { unsafe system.forget(list![index].ino, count: list![index].nlookup) }
        unsafe Reply(request!).none()
    }
    unsafe table.readlink = { request, node in
        unsafe fileSystem(of: request!).readlink(Request(request!), node: node, Reply(request!))
    }
    unsafe table.mknod = { request, parent, name, mode, device in
        let system = unsafe fileSystem(of: request!)
        unsafe system.mknod(
            Request(request!), parent: parent, name: Span<UInt8>(_unsafeStart: name!, byteCount: strlen(name!)),
            mode: mode,
            device: UInt64(device),
            Reply(request!))
    }
    unsafe table.mkdir = { request, parent, name, mode in
        let system = unsafe fileSystem(of: request!)
        unsafe system.mkdir(
            Request(request!), parent: parent, name: Span<UInt8>(_unsafeStart: name!, byteCount: strlen(name!)),
            mode: mode,
            Reply(request!))
    }
    unsafe table.unlink = { request, parent, name in
        let system = unsafe fileSystem(of: request!)
        unsafe system.unlink(
            Request(request!), parent: parent, name: Span<UInt8>(_unsafeStart: name!, byteCount: strlen(name!)),
            Reply(request!))
    }
    unsafe table.rmdir = { request, parent, name in
        let system = unsafe fileSystem(of: request!)
        unsafe system.rmdir(
            Request(request!), parent: parent, name: Span<UInt8>(_unsafeStart: name!, byteCount: strlen(name!)),
            Reply(request!))
    }
    unsafe table.symlink = { request, target, parent, name in
        let system = unsafe fileSystem(of: request!)
        unsafe system.symlink(
            Request(request!), target: Span<UInt8>(_unsafeStart: target!, byteCount: strlen(target!)), parent: parent,
            name: Span<UInt8>(_unsafeStart: name!, byteCount: strlen(name!)), Reply(request!))
    }
    unsafe table.rename = { request, parent, name, newParent, newName, flags in
        let system = unsafe fileSystem(of: request!)
        unsafe system.rename(
            Request(request!), parent: parent, name: Span<UInt8>(_unsafeStart: name!, byteCount: strlen(name!)),
            newParent: newParent, newName: Span<UInt8>(_unsafeStart: newName!, byteCount: strlen(newName!)),
            flags: flags, Reply(request!))
    }
    unsafe table.link = { request, node, newParent, newName in
        let system = unsafe fileSystem(of: request!)
        unsafe system.link(
            Request(request!), node: node, newParent: newParent,
            newName: Span<UInt8>(_unsafeStart: newName!, byteCount: strlen(newName!)), Reply(request!))
    }
}

private func addAttributeOperations(_ table: inout fuse_lowlevel_ops) {
    unsafe table.getattr = { request, node, info in
        let system = unsafe fileSystem(of: request!)
        unsafe system.getAttributes(Request(request!), node: node, handle: .optional(info), Reply(request!))
    }
    unsafe table.setattr = { request, node, attributes, mask, info in
        let system = unsafe fileSystem(of: request!)
        unsafe system.setAttributes(
            Request(request!), node: node, AttributeChanges(attributes!.pointee, mask), handle: .optional(info),
            Reply(request!))
    }
    unsafe table.statfs = { request, node in
        unsafe fileSystem(of: request!).statfs(Request(request!), node: node, Reply(request!))
    }
    unsafe table.setxattr = { request, node, name, value, size, flags in
        let system = unsafe fileSystem(of: request!)
        unsafe system.setXattr(
            Request(request!), node: node, name: Span<UInt8>(_unsafeStart: name!, byteCount: strlen(name!)),
            value: Span<UInt8>(_unsafeStart: UnsafeRawPointer(value!), byteCount: size), flags: flags, Reply(request!))
    }
    unsafe table.getxattr = { request, node, name, size in
        let system = unsafe fileSystem(of: request!)
        unsafe withAnswerBuffer(of: request!) { buffer in
            unsafe system.getXattr(
                Request(request!), node: node, name: Span<UInt8>(_unsafeStart: name!, byteCount: strlen(name!)),
                size: size,
                buffer: &buffer, Reply(request!))
        }
    }
    unsafe table.listxattr = { request, node, size in
        unsafe fileSystem(of: request!).listXattr(Request(request!), node: node, size: size, Reply(request!))
    }
    unsafe table.ioctl = { request, node, command, _, _, _, input, count, room in
        let system = unsafe fileSystem(of: request!)
        // The bytes are in the request's buffer. Without any there may be no pointer.
        let bytes = unsafe UnsafeRawBufferPointer(start: input, count: unsafe input == nil ? 0 : count)
        unsafe system.ioctl(
            Request(request!), node: node, command: UInt32(truncatingIfNeeded: command),
            input: Span<UInt8>(_unsafeBytes: bytes), room: room, Reply(request!))
    }
    unsafe table.removexattr = { request, node, name in
        let system = unsafe fileSystem(of: request!)
        unsafe system.removeXattr(
            Request(request!), node: node, name: Span<UInt8>(_unsafeStart: name!, byteCount: strlen(name!)),
            Reply(request!)
        )
    }
}

private func addFileOperations(_ table: inout fuse_lowlevel_ops) {
    unsafe table.open = { request, node, info in
        let system = unsafe fileSystem(of: request!)
        unsafe system.open(Request(request!), node: node, flags: info!.pointee.flags, Reply(request!))
    }
    unsafe table.create = { request, parent, name, mode, info in
        let system = unsafe fileSystem(of: request!)
        unsafe system.create(
            Request(request!), parent: parent, name: Span<UInt8>(_unsafeStart: name!, byteCount: strlen(name!)),
            mode: mode,
            flags: info!.pointee.flags,
            Reply(request!))
    }
    unsafe table.read = { request, node, size, offset, info in
        let capacity = unsafe session(of: request!).dataCapacity
        guard offset >= 0, size <= capacity else { return unsafe Reply(request!).error(EINVAL) }
        let system = unsafe fileSystem(of: request!)
        unsafe withAnswerBuffer(of: request!) { buffer in
            unsafe system.read(
                Request(request!), node: node, handle: HandleInfo(info!), offset: UInt64(offset), count: size,
                buffer: &buffer, Reply(request!))
        }
    }
    unsafe table.write = { request, node, data, size, offset, info in
        guard offset >= 0 else { return unsafe Reply(request!).error(EINVAL) }
        let system = unsafe fileSystem(of: request!)
        unsafe system.write(
            Request(request!), node: node, handle: HandleInfo(info!), offset: UInt64(offset),
            data: Span<UInt8>(_unsafeStart: UnsafeRawPointer(data!), byteCount: size), Reply(request!))
    }
    unsafe table.flush = { request, node, info in
        let system = unsafe fileSystem(of: request!)
        unsafe system.flush(Request(request!), node: node, handle: HandleInfo(info!), Reply(request!))
    }
    unsafe table.release = { request, node, info in
        let system = unsafe fileSystem(of: request!)
        unsafe system.release(Request(request!), node: node, handle: HandleInfo(info!), Reply(request!))
    }
    unsafe table.fsync = { request, node, dataOnly, info in
        let system = unsafe fileSystem(of: request!)
        unsafe system.fsync(
            Request(request!), node: node, handle: HandleInfo(info!), dataOnly: dataOnly != 0, Reply(request!))
    }
    unsafe table.fallocate = { request, node, mode, offset, length, info in
        guard offset >= 0, length > 0, !offset.addingReportingOverflow(length).overflow else {
            return unsafe Reply(request!).error(EINVAL)
        }
        let system = unsafe fileSystem(of: request!)
        unsafe system.fallocate(
            Request(request!), node: node, handle: HandleInfo(info!), mode: mode, offset: UInt64(offset),
            length: UInt64(length), Reply(request!))
    }
    unsafe table.lseek = { request, node, offset, whence, info in
        let system = unsafe fileSystem(of: request!)
        unsafe system.lseek(
            Request(request!), node: node, handle: HandleInfo(info!), offset: Int64(offset), whence: whence,
            Reply(request!))
    }
    unsafe table.copy_file_range = { request, node, offset, info, target, targetOffset, targetInfo, length, flags in
        guard offset >= 0, targetOffset >= 0 else { return unsafe Reply(request!).error(EINVAL) }
        let system = unsafe fileSystem(of: request!)
        unsafe system.copyFileRange(
            Request(request!), from: node, handle: HandleInfo(info!), offset: UInt64(offset), to: target,
            targetHandle: HandleInfo(targetInfo!), targetOffset: UInt64(targetOffset), length: UInt64(length),
            flags: flags, Reply(request!))
    }
}

private func addDirectoryOperations(_ table: inout fuse_lowlevel_ops) {
    unsafe table.opendir = { request, node, info in
        let system = unsafe fileSystem(of: request!)
        unsafe system.opendir(Request(request!), node: node, flags: info!.pointee.flags, Reply(request!))
    }
    unsafe table.readdir = { request, node, size, offset, info in
        unsafe list(request!, node, size, offset, info!, isPlus: false)
    }
    unsafe table.readdirplus = { request, node, size, offset, info in
        unsafe list(request!, node, size, offset, info!, isPlus: true)
    }
    unsafe table.releasedir = { request, node, info in
        let system = unsafe fileSystem(of: request!)
        unsafe system.releasedir(Request(request!), node: node, handle: info!.pointee.fh, Reply(request!))
    }
    unsafe table.fsyncdir = { request, node, dataOnly, info in
        let system = unsafe fileSystem(of: request!)
        unsafe system.fsyncdir(
            Request(request!), node: node, handle: info!.pointee.fh, dataOnly: dataOnly != 0, Reply(request!))
    }
}

private func list(
    _ request: fuse_req_t, _ node: NodeID, _ size: Int, _ offset: off_t,
    _ info: UnsafeMutablePointer<fuse_file_info>, isPlus: Bool
) {
    var buffer = unsafe DirectoryBuffer(
        request, WorkerBuffer.current + WorkerBuffer.requestCapacity,
        capacity: min(size, session(of: request).dataCapacity), isPlus: isPlus)
    let system = unsafe fileSystem(of: request)
    unsafe system.readdir(
        Request(request), node: node, handle: info.pointee.fh, offset: Int64(offset), buffer: &buffer,
        Reply(request))
}
