// Sets seven flags in the INIT reply that libfuse 3.14 cannot set, and passes on requests that it does not know.
// libfuse and pthread give the pointers unwrapped here in every case.
// swift-format-ignore-file: NeverForceUnwrap

internal import CFuse3
internal import CLibrary

/// Reads and writes `/dev/fuse` in libfuse's place, so that the INIT reply can accept flags that the kernel offers and libfuse
/// 3.14 does not know or drops (linux/fuse.h, `struct fuse_init_in` and `fuse_init_out`):
///
/// | flag | why |
/// |---|---|
/// | PARALLEL_DIROPS (18) | lookups and listings of one directory side by side; 3.14 drops it from the reply |
/// | HANDLE_KILLPRIV_V2 (28) | else every write(2) costs a GETXATTR of security.capability |
/// | SETXATTR_EXT (29) | says with an ACL whether the caller belongs to the group (`serveAttribute`) |
/// | INIT_EXT (30) | says that `flags2` counts |
/// | DIRECT_IO_ALLOW_MMAP (flags2 bit 4) | else MAP_SHARED on a direct-I/O handle is ENODEV |
/// | ALLOW_IDMAP (flags2 bit 8) | idmapped mounts (Linux 6.12), with the mount option `default_permissions` |
/// | OVER_IO_URING (flags2 bit 9) | requests over io_uring (Linux 6.14), if the session has a plan for it |
///
/// One thread handles INIT before any worker runs, so the state needs no lock.
struct InitPatch {
    private static let initOpcode: UInt32 = 26
    private static let wanted: UInt32 = 1 << 18 | 1 << 28 | 1 << 29 | 1 << 30
    private static let extended: UInt32 = 1 << 30
    private static let wanted2: UInt32 = 1 << 4
    private static let idmappedMounts: UInt32 = 1 << 8
    private static let overRings: UInt32 = 1 << 9
    // Offsets in fuse_in_header + fuse_init_in, fuse_out_header, fuse_init_out.
    private static let inFlags = 52
    private static let inFlags2 = 56
    private static let outFlags = 12
    private static let outFlags2 = 32

    private var unique: UInt64 = 0
    private var offered: UInt32 = 0
    private var offered2: UInt32 = 0
    private(set) var isDone = false
    /// Whether the mount has `default_permissions`. Without it the kernel refuses a reply with ALLOW_IDMAP.
    var kernelChecksPermissions = false
    /// Whether the session will serve io_uring if the kernel offers it.
    var promisesRings = false
    var hasPromisedRings: Bool { taken2 & Self.overRings != 0 }
    /// The accepted bits of flags and flags2.
    private(set) var taken: UInt32 = 0
    private(set) var taken2: UInt32 = 0
    /// Whether SETXATTR has its longer form.
    var saysMoreOfAttributes: Bool { taken & 1 << 29 != 0 }

    /// Looks at a request after it has been read.
    mutating func sawRequest(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= Self.inFlags + 4,
            unsafe bytes.loadUnaligned(fromByteOffset: 4, as: UInt32.self) == Self.initOpcode
        else { return }
        unique = unsafe bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
        offered = unsafe bytes.loadUnaligned(fromByteOffset: Self.inFlags, as: UInt32.self)
        if offered & Self.extended != 0, bytes.count >= Self.inFlags2 + 4 {
            offered2 = unsafe bytes.loadUnaligned(fromByteOffset: Self.inFlags2, as: UInt32.self)
        }
    }

    /// Changes a reply before it is written, if it answers INIT.
    mutating func patchReply(_ vectors: UnsafeBufferPointer<iovec>) {
        // A first reply in two parts, without an error: header and fuse_init_out.
        guard vectors.count == 2, unsafe vectors[0].iov_len == 16, unsafe vectors[1].iov_len >= Self.outFlags2 + 4,
            let header = unsafe vectors[0].iov_base, let body = unsafe vectors[1].iov_base,
            unsafe header.loadUnaligned(fromByteOffset: 4, as: Int32.self) == 0,
            unsafe header.loadUnaligned(fromByteOffset: 8, as: UInt64.self) == unique, unique != 0
        else { return }
        isDone = true
        taken = offered & Self.wanted
        let flags = unsafe body.loadUnaligned(fromByteOffset: Self.outFlags, as: UInt32.self)
        unsafe body.storeBytes(of: flags | taken, toByteOffset: Self.outFlags, as: UInt32.self)
        guard taken & Self.extended != 0 else { return }
        var wanted2 = Self.wanted2
        if kernelChecksPermissions { wanted2 |= Self.idmappedMounts }
        if promisesRings { wanted2 |= Self.overRings }
        taken2 = offered2 & wanted2
        let flags2 = unsafe body.loadUnaligned(fromByteOffset: Self.outFlags2, as: UInt32.self)
        unsafe body.storeBytes(of: flags2 | taken2, toByteOffset: Self.outFlags2, as: UInt32.self)
    }
}

/// Gives libfuse a TMPFILE request, which 3.14 does not know, as a CREATE. Both have the same layout and the same answer. The
/// kernel's name of a file without a name is "/" (`Session.noName`).
private func serveTemporaryFile(_ request: UnsafeMutableRawBufferPointer) {
    let (create, temporaryFile): (UInt32, UInt32) = (35, 51)
    guard request.count >= 8, unsafe request.loadUnaligned(fromByteOffset: 4, as: UInt32.self) == temporaryFile else {
        return
    }
    unsafe request.storeBytes(of: create, toByteOffset: 4, as: UInt32.self)
}

/// Gives libfuse a SETXATTR of SETXATTR_EXT in the shorter form that 3.14 knows, with the kernel's FUSE_SETXATTR_ACL_KILL_SGID
/// among the flags (`Session.clearsSetGroup`); the new length.
private func serveAttribute(_ request: UnsafeMutableRawBufferPointer) -> Int {
    // fuse_in_header; size and flags; the further flags and padding; name and value.
    let (setAttribute, flags, more, rest): (UInt32, Int, Int, Int) = (21, 44, 48, 56)
    guard request.count >= rest, unsafe request.loadUnaligned(fromByteOffset: 4, as: UInt32.self) == setAttribute else {
        return request.count
    }
    let clears = unsafe request.loadUnaligned(fromByteOffset: more, as: UInt32.self) & 1 != 0
    let known = unsafe request.loadUnaligned(fromByteOffset: flags, as: Int32.self) & ~Session.clearsSetGroup
    unsafe request.storeBytes(of: clears ? known | Session.clearsSetGroup : known, toByteOffset: flags, as: Int32.self)
    let tail = request.count - rest
    unsafe memmove(request.baseAddress! + more, request.baseAddress! + rest, tail)
    unsafe request.storeBytes(of: UInt32(more + tail), toByteOffset: 0, as: UInt32.self)
    return more + tail
}

extension Session {
    /// Shows a request to the trace, and gives it the form that libfuse knows; its length then.
    func adapt(_ request: UnsafeMutableRawBufferPointer) -> Int {
        let count = unsafe patch.saysMoreOfAttributes ? serveAttribute(request) : request.count
        let request = unsafe UnsafeMutableRawBufferPointer(rebasing: request[..<count])
        if let trace { unsafe trace.sawRequest(UnsafeRawBufferPointer(request)) }
        unsafe serveTemporaryFile(request)
        return count
    }

    /// Gives the kernel an answer or a notification: the answer to a request of io_uring there, all else as writev(2).
    fileprivate func send(_ vectors: UnsafeBufferPointer<iovec>, _ descriptor: Int32) -> Int {
        if let rings, let header = unsafe vectors.first, unsafe header.iov_len == RingEntry.answerHeader,
            let bytes = unsafe header.iov_base
        {
            // A notification has the number 0.
            let number = unsafe bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
            if number != 0, let worker = rings.owner(of: number), let sent = unsafe worker.answer(number, vectors) {
                return sent
            }
        }
        return unsafe CLibrary.writev(descriptor, vectors.baseAddress, Int32(vectors.count))
    }
}

/// libfuse's input and output, through the session's patch until INIT has been answered, and past its trace.
func makeCustomIO() -> fuse_custom_io {
    var table = fuse_custom_io()
    unsafe table.read = { descriptor, buffer, length, userdata in
        let count = unsafe CLibrary.read(descriptor, buffer, length)
        let session = unsafe Unmanaged<Session>.fromOpaque(userdata!).takeUnretainedValue()
        if count > 0, !session.patch.isDone {
            unsafe session.patch.sawRequest(UnsafeRawBufferPointer(start: buffer, count: count))
        }
        guard count > 0 else { return count }
        return unsafe session.adapt(UnsafeMutableRawBufferPointer(start: buffer, count: count))
    }
    unsafe table.writev = { descriptor, vectors, count, userdata in
        let session = unsafe Unmanaged<Session>.fromOpaque(userdata!).takeUnretainedValue()
        if !session.patch.isDone {
            unsafe session.patch.patchReply(UnsafeBufferPointer(start: vectors, count: Int(count)))
        }
        let parts = unsafe UnsafeBufferPointer(start: vectors, count: Int(count))
        guard let trace = session.trace else { return unsafe session.send(parts, descriptor) }
        let written = unsafe session.send(parts, descriptor)
        let error = written < 0 ? errno : 0
        unsafe trace.sawAnswer(UnsafeBufferPointer(start: vectors, count: Int(count)), error: error)
        errno = error
        return written
    }
    return table
}
