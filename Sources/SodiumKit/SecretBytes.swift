// Secrets of any length: passphrases, bundles of keys.

internal import CSodium

/// Secret bytes in locked memory, up to a fixed capacity. `deinit` wipes them.
@safe package struct SecretBytes: ~Copyable, @unchecked Sendable {
    private let slot: Slot
    // One of the two owns the slot. (An enum of both does not link in release builds with Swift 6.3.1, because other modules
    // destroy this value and look for the private enum's metadata.)
    private let pool: SlotPool?
    private let mapping: GuardedMapping?
    /// The capacity in bytes.
    package let capacity: Int
    /// Bytes in use.
    package private(set) var byteCount: Int

    /// Makes `byteCount` zeros.
    package init(byteCount: Int) throws(SodiumError) {
        precondition(byteCount >= 0)
        if let pool = Slots.pool(for: byteCount) {
            slot = try pool.take()
            self.pool = pool
            mapping = nil
        } else {
            let mapping = try GuardedMapping(minimum: byteCount)
            slot = unsafe Slot(pointer: mapping.start)
            pool = nil
            self.mapping = consume mapping
        }
        capacity = byteCount
        self.byteCount = byteCount
    }

    /// Copies `bytes`.
    package init(copying bytes: Span<UInt8>) throws(SodiumError) {
        try self.init(byteCount: bytes.count)
        let slot = slot
        unsafe bytes.withUnsafeBytes { source in
            if let first = source.baseAddress { unsafe slot.pointer.copyMemory(from: first, byteCount: source.count) }
        }
    }

    deinit {
        pool?.release(slot)
    }

    /// Lends the bytes, which must not be copied out of locked memory.
    package borrowing func withBytes<Result: ~Copyable, Failure: Error>(
        _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        // The memory belongs to this value, which is borrowed while the span lives.
        let bytes = unsafe Span<UInt8>(_unsafeStart: slot.pointer, byteCount: byteCount)
        return try body(bytes)
    }

    /// Lends the bytes for writing.
    package mutating func withMutableBytes<Result: ~Copyable, Failure: Error>(
        _ body: (inout MutableSpan<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        // The memory belongs to this value, which nothing else can reach while the span lives.
        var bytes = unsafe MutableSpan<UInt8>(_unsafeStart: slot.pointer, byteCount: byteCount)
        return try body(&bytes)
    }

    /// Keeps the first `count` bytes and wipes the others.
    package mutating func shorten(to count: Int) {
        precondition(count >= 0 && count <= byteCount)
        unsafe sodium_memzero(slot.pointer + count, byteCount - count)
        byteCount = count
    }

    /// A copy in other locked memory.
    package borrowing func copy() throws(SodiumError) -> SecretBytes {
        try withBytes { bytes throws(SodiumError) in try SecretBytes(copying: bytes) }
    }
}
