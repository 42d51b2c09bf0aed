// The memory that the kernel and a worker share for one request over io_uring, and the form of requests and answers in it.
// The kernel's layout gives the pointers unwrapped here in every case.
// swift-format-ignore-file: NeverForceUnwrap

internal import CFuse3
internal import CLibrary
internal import CLinuxShim

/// A header (linux/fuse.h, `struct fuse_uring_req_header`) and a payload. A request is header, the operation's own part, and
/// payload; an answer is header and payload. The worker takes a request out and wipes it here at once, and wipes an answer with
/// data as soon as the kernel has it, so the payload has a program's data only while it passes through.
@safe struct RingEntry: ~Copyable {
    /// The kernel registers no smaller payload (FUSE_MIN_READ_BUFFER).
    static let leastCapacity = 8192
    // Offsets in the header: the operation's part, and the commit number and payload's size of `struct fuse_uring_ent_in_out`.
    static let operation = 128
    static let commit = 264
    static let payloadSize = 272
    static let headerSize = 288
    // Sizes of fuse_in_header, fuse_out_header and the operation's part at most.
    static let requestHeader = 40
    static let answerHeader = 16
    static let largestOperation = 128
    /// Where the two parts for REGISTER are.
    private static let parts = 512

    private let header: UnsafeMutableRawPointer
    private let payload: UnsafeMutableRawPointer
    private let capacity: Int
    private var size: Int { capacity + 4096 }
    /// Whether the pages are kept out of swap.
    let isLocked: Bool

    /// The memory of an entry with room for `dataCapacity` bytes, as `RingPlan` counts it.
    static func size(dataCapacity: Int) -> Int { room(dataCapacity) + 4096 }

    private static func room(_ dataCapacity: Int) -> Int { (max(dataCapacity, leastCapacity) + 4095) & ~4095 }

    /// For payloads of `dataCapacity` bytes. Nil if there is no memory.
    init?(dataCapacity: Int, locks: Bool = true) {
        capacity = Self.room(dataCapacity)
        let size = Self.size(dataCapacity: dataCapacity)
        let base = unsafe mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let base = unsafe base, unsafe base != MAP_FAILED else { return nil }
        unsafe payload = base
        unsafe header = base + capacity
        unsafe madvise(base, size, Int32(MADV_DONTDUMP))
        unsafe madvise(base, size, Int32(MADV_WIPEONFORK))
        isLocked = unsafe locks && pfs_lock_on_fault(base, size) == 0
        let parts = unsafe (header + Self.parts).bindMemory(to: iovec.self, capacity: 2)
        unsafe parts[0] = iovec(iov_base: header, iov_len: Self.headerSize)
        unsafe parts[1] = iovec(iov_base: payload, iov_len: capacity)
    }

    deinit {
        unsafe explicit_bzero(payload, size)
        unsafe munmap(payload, size)
    }

    /// For REGISTER: an array of two `iovec`.
    var registered: UnsafeRawPointer { unsafe UnsafeRawPointer(header + Self.parts) }
    /// The memory, for tests.
    var bytes: UnsafeMutableRawBufferPointer { unsafe UnsafeMutableRawBufferPointer(start: payload, count: size) }

    private func load<Value: BitwiseCopyable>(_ offset: Int, as type: Value.Type) -> Value {
        unsafe header.loadUnaligned(fromByteOffset: offset, as: type)
    }

    /// The request's number, which its answer repeats.
    var unique: UInt64 { load(8, as: UInt64.self) }
    var opcode: UInt32 { load(4, as: UInt32.self) }
    /// What COMMIT_AND_FETCH names. The kernel changes it with each request.
    var commitNumber: UInt64 { load(Self.commit, as: UInt64.self) }
    private var payloadCount: Int { min(Int(load(Self.payloadSize, as: UInt32.self)), capacity) }

    /// Moves the request to `place` in the form in which /dev/fuse gives it; its length, or nil if it is malformed or has more
    /// than `room` bytes.
    func takeRequest(into place: UnsafeMutableRawPointer, room: Int) -> Int? {
        let payloadCount = Int(load(Self.payloadSize, as: UInt32.self))
        let length = Int(load(0, as: UInt32.self))
        let operation = length - Self.requestHeader - payloadCount
        guard payloadCount <= capacity, operation >= 0, operation <= Self.largestOperation, length <= room else {
            return nil
        }
        unsafe memcpy(place, header, Self.requestHeader)
        unsafe memcpy(place + Self.requestHeader, header + Self.operation, operation)
        unsafe memcpy(place + Self.requestHeader + operation, payload, payloadCount)
        unsafe explicit_bzero(payload, payloadCount)
        return length
    }

    /// Puts an answer, as libfuse gives it to writev(2). Its length, or nil if it does not fit.
    func putAnswer(_ vectors: UnsafeBufferPointer<iovec>) -> Int? {
        var count = 0
        for index in 1..<max(vectors.count, 1) {
            let length = unsafe vectors[index].iov_len
            guard length <= capacity - count else { return nil }
            if length > 0 { unsafe memcpy(payload + count, vectors[index].iov_base!, length) }
            count += length
        }
        let total = Self.answerHeader + count
        unsafe memcpy(header, vectors[0].iov_base!, Self.answerHeader)
        unsafe header.storeBytes(of: UInt32(total), as: UInt32.self)
        unsafe header.storeBytes(of: UInt32(count), toByteOffset: Self.payloadSize, as: UInt32.self)
        return total
    }

    /// Puts an answer that is an error, to a request that cannot be understood.
    func putError(_ error: Int32) {
        let unique = commitNumber
        unsafe header.storeBytes(of: UInt32(Self.answerHeader), as: UInt32.self)
        unsafe header.storeBytes(of: -error, toByteOffset: 4, as: Int32.self)
        unsafe header.storeBytes(of: unique, toByteOffset: 8, as: UInt64.self)
        unsafe header.storeBytes(of: 0, toByteOffset: Self.payloadSize, as: UInt32.self)
    }

    /// Wipes the first `count` bytes of the payload after the answer to `unique` was committed. The kernel may have put the next
    /// request there meanwhile, which stays.
    func wipeAnswer(_ count: Int, to unique: UInt64) {
        let kept = commitNumber == unique ? 0 : payloadCount
        if kept < count { unsafe explicit_bzero(payload + kept, count - kept) }
    }
}
