// A 256-bit secret in locked memory. It is never copied implicitly, and wiped when its owner releases it.

internal import CSodium

/// 32 secret bytes in a slot of locked memory. `deinit` wipes them.
@safe package struct SecretKey: ~Copyable, @unchecked Sendable {
    /// Bytes in a key.
    package static let byteCount = 32

    private let slot: Slot

    /// A key of zeros, to be filled by `withMutableBytes`.
    package init() throws(SodiumError) {
        slot = try Slots.keys.take()
    }

    /// Copies 32 bytes.
    package init(copying bytes: Span<UInt8>) throws(SodiumError) {
        precondition(bytes.count == Self.byteCount)
        try self.init()
        let slot = slot
        unsafe bytes.withUnsafeBytes { source in
            unsafe slot.pointer.copyMemory(from: source.bytes, byteCount: Self.byteCount)
        }
    }

    /// A key from the kernel's random generator.
    package static func random() throws(SodiumError) -> SecretKey {
        var key = try SecretKey()
        key.withMutableBytes { bytes in randomBytes(into: &bytes) }
        return key
    }

    deinit {
        Slots.keys.release(slot)
    }

    /// Lends the bytes, which must not be copied out of locked memory.
    package borrowing func withBytes<Result: ~Copyable, Failure: Error>(
        _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        // The slot belongs to this value, which is borrowed while the span lives.
        let bytes = unsafe Span<UInt8>(_unsafeStart: slot.pointer, byteCount: Self.byteCount)
        return try body(bytes)
    }

    /// Lends the bytes for writing.
    package mutating func withMutableBytes<Result: ~Copyable, Failure: Error>(
        _ body: (inout MutableSpan<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        // The slot belongs to this value, which nothing else can reach while the span lives.
        var bytes = unsafe MutableSpan<UInt8>(_unsafeStart: slot.pointer, byteCount: Self.byteCount)
        return try body(&bytes)
    }

    /// A copy of the key.
    package borrowing func copy() throws(SodiumError) -> SecretKey {
        try withBytes { bytes throws(SodiumError) in try SecretKey(copying: bytes) }
    }

    /// Compares in constant time.
    package borrowing func isEqual(to other: borrowing SecretKey) -> Bool {
        unsafe sodium_memcmp(slot.pointer, other.slot.pointer, Self.byteCount) == 0
    }

    /// Whether all bytes are zero.
    var isZero: Bool { unsafe sodium_is_zero(pointer, Self.byteCount) == 1 }

    /// For the package's own C calls.
    var pointer: UnsafeMutablePointer<UInt8> { unsafe slot.pointer.assumingMemoryBound(to: UInt8.self) }
}
