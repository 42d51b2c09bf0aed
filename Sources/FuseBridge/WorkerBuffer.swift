// Each worker's one buffer. A request is received at its start, and the answer is built after it.
// libfuse and pthread give the pointers unwrapped here in every case.
// swift-format-ignore-file: NeverForceUnwrap

internal import CFuse3
internal import CLibrary
internal import CLinuxShim

/// Memory of a worker thread. It is locked if the limit allows, never dumped, and wiped when given back.
@safe struct WorkerBuffer: ~Copyable {
    /// FUSE_BUFFER_HEADER_SIZE of libfuse: room for everything except a WRITE's data.
    static let requestCapacity = 4096
    /// FUSE_MAX_MAX_PAGES pages: the most that the kernel sends or asks for, and what libfuse reads before INIT.
    static let largestData = 1 << 20
    /// Besides an answer's data: room for pages that are cut at both ends.
    static let slack = 16384

    /// What a buffer for `dataCapacity` bytes occupies.
    static func size(dataCapacity: Int) -> Int { requestCapacity + dataCapacity + slack }

    let base: UnsafeMutableRawPointer
    private let size: Int
    /// Whether the pages are kept out of swap.
    let isLocked: Bool

    /// For requests and answers of `dataCapacity` bytes. Nil if there is no memory.
    init?(dataCapacity: Int, locks: Bool = true) {
        size = Self.size(dataCapacity: dataCapacity)
        guard
            let base = unsafe mmap(
                nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), unsafe base != MAP_FAILED
        else { return nil }
        unsafe self.base = base
        unsafe madvise(base, size, Int32(MADV_DONTDUMP))
        unsafe madvise(base, size, Int32(MADV_WIPEONFORK))
        // Counted in full against RLIMIT_MEMLOCK, but resident only where touched.
        isLocked = unsafe locks && pfs_lock_on_fault(base, size) == 0
    }

    deinit {
        unsafe explicit_bzero(base, size)
        unsafe munmap(base, size)
    }

    /// Zeroes the buffer and gives its pages back. Call it only between two requests.
    borrowing func wipe() {
        unsafe explicit_bzero(base, size)
        // Locked pages cannot be given back.
        unsafe munlock(base, size)
        unsafe madvise(base, size, Int32(MADV_DONTNEED))
        if isLocked { unsafe _ = pfs_lock_on_fault(base, size) }
    }

    /// Makes this the buffer of the calling thread.
    borrowing func bind() {
        unsafe pthread_setspecific(currentKey, base)
    }

    /// The calling worker's buffer.
    static var current: UnsafeMutableRawPointer {
        unsafe pthread_getspecific(currentKey)!
    }
}

/// Overwrites the data of a request or answer of `dataCount` bytes in the calling worker's buffer. For handlers whose data must
/// not outlive the request. The data lent to them is gone afterwards.
package func wipeRequestData(_ dataCount: Int) {
    unsafe explicit_bzero(WorkerBuffer.current, WorkerBuffer.requestCapacity + dataCount + WorkerBuffer.slack)
}

/// Holds each worker's buffer. Made once.
private let currentKey: pthread_key_t = {
    var key = pthread_key_t()
    unsafe pthread_key_create(&key, nil)
    return key
}()
