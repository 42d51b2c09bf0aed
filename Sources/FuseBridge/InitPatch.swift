// Sets four flags in the INIT reply that libfuse 3.14 cannot set, and passes on a request that it does not know.
// libfuse and pthread give the pointers unwrapped here in every case.
// swift-format-ignore-file: NeverForceUnwrap

internal import CFuse3
internal import Glibc

/// Reads and writes `/dev/fuse` in libfuse's place, so that the INIT reply can accept flags that the kernel offers and libfuse
/// 3.14 does not know or drops (linux/fuse.h, `struct fuse_init_in` and `fuse_init_out`):
///
/// | flag | why |
/// |---|---|
/// | PARALLEL_DIROPS (18) | lookups and listings of one directory side by side; 3.14 drops it from the reply |
/// | HANDLE_KILLPRIV_V2 (28) | else every write(2) costs a GETXATTR of security.capability |
/// | INIT_EXT (30) | says that `flags2` counts |
/// | DIRECT_IO_ALLOW_MMAP (flags2 bit 4) | else MAP_SHARED on a direct-I/O handle is ENODEV |
///
/// One thread handles INIT before any worker runs, so the state needs no lock.
struct InitPatch {
    private static let initOpcode: UInt32 = 26
    private static let wanted: UInt32 = 1 << 18 | 1 << 28 | 1 << 30
    private static let extended: UInt32 = 1 << 30
    private static let wanted2: UInt32 = 1 << 4
    // Offsets in fuse_in_header + fuse_init_in, fuse_out_header, fuse_init_out.
    private static let inFlags = 52
    private static let inFlags2 = 56
    private static let outFlags = 12
    private static let outFlags2 = 32

    private var unique: UInt64 = 0
    private var offered: UInt32 = 0
    private var offered2: UInt32 = 0
    private(set) var isDone = false
    /// The accepted bits of flags and flags2.
    private(set) var taken: UInt32 = 0
    private(set) var taken2: UInt32 = 0

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
        taken2 = offered2 & Self.wanted2
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

/// libfuse's input and output, through the session's patch until INIT has been answered, and past its trace.
func makeCustomIO() -> fuse_custom_io {
    var table = fuse_custom_io()
    unsafe table.read = { descriptor, buffer, length, userdata in
        let count = unsafe Glibc.read(descriptor, buffer, length)
        let session = unsafe Unmanaged<Session>.fromOpaque(userdata!).takeUnretainedValue()
        if count > 0, !session.patch.isDone {
            unsafe session.patch.sawRequest(UnsafeRawBufferPointer(start: buffer, count: count))
        }
        if let trace = session.trace, count > 0 {
            unsafe trace.sawRequest(UnsafeRawBufferPointer(start: buffer, count: count))
        }
        if count > 0 { unsafe serveTemporaryFile(UnsafeMutableRawBufferPointer(start: buffer, count: count)) }
        return count
    }
    unsafe table.writev = { descriptor, vectors, count, userdata in
        let session = unsafe Unmanaged<Session>.fromOpaque(userdata!).takeUnretainedValue()
        if !session.patch.isDone {
            unsafe session.patch.patchReply(UnsafeBufferPointer(start: vectors, count: Int(count)))
        }
        guard let trace = session.trace else { return unsafe Glibc.writev(descriptor, vectors, count) }
        let written = unsafe Glibc.writev(descriptor, vectors, count)
        let error = written < 0 ? errno : 0
        unsafe trace.sawAnswer(UnsafeBufferPointer(start: vectors, count: Int(count)), error: error)
        errno = error
        return written
    }
    return table
}
