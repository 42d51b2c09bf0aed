// The basics of the module: initialisation, errors, random bytes and comparison in constant time.

internal import CLibrary
internal import CLinuxShim
internal import CSodium

/// The reason why an operation on secrets could not be carried out. A failed authentication is never one of these. It is a
/// `false` or a nil that the caller must check.
package enum SodiumError: Error, Equatable, Sendable {
    /// Secret memory could not be locked (mlock(2)), because RLIMIT_MEMLOCK, in bytes, is used up.
    case lockLimit(bytes: UInt64)
    /// The kernel gave no memory.
    case outOfMemory
    /// A public key that gives an all-zero shared secret, or does not have 32 bytes.
    case invalidPublicKey
    /// The password hash's parameters are outside the accepted limits, or need more memory than this machine has.
    case passwordHashMemory
}

/// Initialises libsodium. It runs before the first use, may be repeated, and is safe from any thread.
package func initializeSodium() {
    precondition(sodiumIsReady, "libsodium could not be initialised")
}

private let sodiumIsReady: Bool = sodium_init() >= 0

/// Fills `bytes` from getrandom(2), in one call for up to 32 MiB. If the kernel has no entropy source the process ends, because
/// nothing safe can be done without one.
package func randomBytes(into bytes: inout MutableSpan<UInt8>) {
    unsafe bytes.withUnsafeMutableBytes { buffer in
        var done = 0
        while done < buffer.count {
            // In bounds: done < count.
            let got = unsafe getrandom(buffer.baseAddress.map { unsafe $0 + done }, buffer.count - done, 0)
            if got < 0 {
                precondition(errno == EINTR, "getrandom failed")
            } else {
                done += got
            }
        }
    }
}

/// A random number of 32 bits, for epochs.
package func randomUInt32() -> UInt32 {
    var value: UInt32 = 0
    unsafe withUnsafeMutableBytes(of: &value) { buffer in
        var bytes = unsafe MutableSpan<UInt8>(_unsafeBytes: buffer)
        randomBytes(into: &bytes)
    }
    return value
}

/// Public random bytes for IDs, salts and nonces. Never for secrets, which belong in `SecretKey` and `SecretBytes`.
package func randomInlineBytes<let count: Int>() -> InlineArray<count, UInt8> {
    var result = InlineArray<count, UInt8>(repeating: 0)
    var bytes = result.mutableSpan
    randomBytes(into: &bytes)
    return result
}

/// Whether both have the same bytes, in a time that depends on the length alone (sodium_memcmp).
package func constantTimeEqual(_ one: Span<UInt8>, _ other: Span<UInt8>) -> Bool {
    guard one.count == other.count else { return false }
    return unsafe one.withUnsafeBytes { a in
        unsafe other.withUnsafeBytes { b in
            // Both have the same length.
            unsafe sodium_memcmp(a.bytes, b.bytes, a.count) == 0
        }
    }
}

/// Overwrites `bytes` with zeros in a way that the optimiser keeps.
package func wipe(_ bytes: inout MutableSpan<UInt8>) {
    unsafe bytes.withUnsafeMutableBytes { buffer in
        if let start = buffer.baseAddress { unsafe sodium_memzero(start, buffer.count) }
    }
}

/// Overwrites the data that earlier calls have left on the 64 KiB of this thread's stack below the caller.
///
/// Call it at the end of an operation whose C code copies secrets to its stack (X25519, Argon2, AES).
@inline(never) package func wipeStackBelow() {
    sodium_stackzero(65_536)
}

/// Clears the vector registers, in which memmove(3) leaves what it has copied. When a signal is delivered, the kernel stores all
/// registers on the thread's stack.
package func wipeVectorRegisters() { pfs_clear_vector_registers() }
