// HMAC-SHA-256 in this thread's locked scratch memory, for HPKE's key schedule.

internal import CSodium

/// An incremental HMAC-SHA-256. There is one at a time per thread, and its end wipes it.
@safe struct HMAC: ~Copyable {
    private let memory: UnsafeMutableRawPointer
    private var state: UnsafeMutablePointer<crypto_auth_hmacsha256_state> {
        // The scratch memory is larger than the state and aligned to 64.
        unsafe memory.assumingMemoryBound(to: crypto_auth_hmacsha256_state.self)
    }

    init(key: Span<UInt8>) {
        initializeSodium()
        unsafe memory = ThreadScratch.pointer()
        let state = unsafe state
        unsafe key.withUnsafeBytes { key in
            unsafe _ = crypto_auth_hmacsha256_init(state, key.bytes, key.count)
        }
    }

    deinit {
        unsafe sodium_memzero(memory, ThreadScratch.size)
    }

    mutating func update(_ bytes: Span<UInt8>) {
        let state = unsafe state
        unsafe bytes.withUnsafeBytes { bytes in
            unsafe _ = crypto_auth_hmacsha256_update(state, bytes.bytes, UInt64(bytes.count))
        }
    }

    /// Writes all 32 bytes.
    consuming func finish(into output: UnsafeMutablePointer<UInt8>) {
        unsafe _ = crypto_auth_hmacsha256_final(state, output)
    }

    /// Writes as many of the 32 bytes as fit in `output`.
    consuming func finish(prefix output: inout MutableSpan<UInt8>) {
        // After the state in the scratch memory, and wiped with it.
        let whole = unsafe (memory + 512).assumingMemoryBound(to: UInt8.self)
        unsafe _ = crypto_auth_hmacsha256_final(state, whole)
        unsafe output.withUnsafeMutableBytes { output in
            unsafe output.copyMemory(from: UnsafeRawBufferPointer(start: whole, count: min(32, output.count)))
        }
    }
}
