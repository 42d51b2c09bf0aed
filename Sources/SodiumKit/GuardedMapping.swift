// Locked memory between two guard pages. Every secret is in such memory.

internal import CLibrary
internal import CLinuxShim
internal import CSodium

let pageSize = 4096

/// The limit of locked memory of this process, in bytes (RLIMIT_MEMLOCK). `UInt64.max` if there is none.
package func lockedMemoryLimit() -> UInt64 {
    var limit = rlimit()
    // Fails for bad arguments only.
    guard unsafe pfs_locked_memory_limit(&limit) == 0 else { return 0 }
    return limit.rlim_cur == rlim_t.max ? .max : UInt64(limit.rlim_cur)
}

/// The bytes that this process may lock. `UInt64.max` if there is no limit, or none for this process.
package func lockableMemory() -> UInt64 {
    isExemptFromLimit() ? .max : lockedMemoryLimit()
}

/// CAP_IPC_LOCK lifts the limit (mlock(2)). Root in a container may lack it.
private func isExemptFromLimit() -> Bool {
    for line in (AvailableMemory.readSmallFile("/proc/self/status") ?? "").split(separator: "\n")
    where line.hasPrefix("CapEff:") {
        let digits = line.dropFirst("CapEff:".count).drop { $0 == "\t" || $0 == " " }
        return (UInt64(digits, radix: 16) ?? 0) & (1 << 14) != 0
    }
    return false
}

/// The address of memory in a `GuardedMapping`, so that collections can hold it. Code that uses the pointer must justify it.
@safe struct Slot: @unchecked Sendable {
    let pointer: UnsafeMutableRawPointer
}

/// An anonymous private mapping: locked, excluded from core dumps, zeroed in forked children, with an inaccessible page on
/// either side.
@safe struct GuardedMapping: ~Copyable, @unchecked Sendable {
    /// The first usable byte, aligned to a page.
    let start: UnsafeMutableRawPointer
    /// Usable bytes, a multiple of the page size.
    let byteCount: Int

    /// Maps and locks at least `minimum` bytes.
    init(minimum: Int) throws(SodiumError) {
        initializeSodium()
        precondition(minimum > 0 && minimum < 1 << 40)
        let count = (minimum + pageSize - 1) / pageSize * pageSize
        let whole = count + 2 * pageSize
        guard
            let base = unsafe mmap(nil, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
            unsafe base != MAP_FAILED
        else { throw .outOfMemory }
        // Inside the new mapping, which has one guard page at either end.
        let inner = unsafe base + pageSize
        guard
            unsafe mprotect(inner, count, PROT_READ | PROT_WRITE) == 0,
            unsafe madvise(inner, count, MADV_DONTDUMP) == 0,
            unsafe madvise(inner, count, MADV_WIPEONFORK) == 0
        else {
            unsafe munmap(base, whole)
            throw .outOfMemory
        }
        guard unsafe mlock(inner, count) == 0 else {
            unsafe munmap(base, whole)
            throw .lockLimit(bytes: lockedMemoryLimit())
        }
        unsafe start = inner
        byteCount = count
    }

    deinit {
        unsafe sodium_memzero(start, byteCount)
        unsafe munmap(start - pageSize, byteCount + 2 * pageSize)
    }
}
