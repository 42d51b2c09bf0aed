// Random bytes for what is made often, from one seed of the kernel for many.

internal import CSodium
internal import HostSystem
internal import VolumeFormat

/// A generator with fast key erasure. A draw makes ChaCha20's stream under the key: the first 32 bytes are the next key, the others
/// are lent and then erased. So memory that is read later does not tell what was drawn before. Thread-safe.
///
/// A machine that is set back to a snapshot of its memory, or copied while it runs, may draw the same again until the next seed. So
/// only what may come twice then is drawn here: IDs, temporary names, and a new file's key in one draw with the nonce that wraps it,
/// so that no nonce wraps two keys. Everything else, above all the nonces of content, comes from the kernel (`randomBytes`), which
/// is told of such a copy.
package final class RandomPool: Sendable {
    /// The process's own.
    package static let shared = RandomPool()

    /// The most bytes of a draw.
    static let longest = 128
    /// How many draws a seed serves, and for how long, in nanoseconds.
    static let drawsOfSeed = 256
    private static let lifetime: UInt64 = 1_000_000_000

    private struct State: ~Copyable {
        /// All zero in a forked child (MADV_WIPEONFORK), which then takes a seed of its own.
        var key: SecretKey?
        var left = 0
        var seeded: UInt64 = 0
        var seeds = 0
    }

    private let state = Lock(State())

    init() {}

    /// Lends `count` random bytes in locked memory. They are erased afterwards.
    ///
    /// - Parameter body: copies what it needs. It uses no cipher and no hash.
    package func draw<Result: ~Copyable>(
        _ count: Int, _ body: (Span<UInt8>) throws(SodiumError) -> Result
    ) throws(SodiumError) -> Result {
        precondition(count > 0 && count <= Self.longest)
        let length = SecretKey.byteCount + count
        let room = try unsafe ThreadScratch.prepared()
        // The room is this thread's, and longer.
        defer { unsafe sodium_memzero(room, length) }
        try state.withLock { (state: inout State) throws(SodiumError) in
            var key = if let key = state.key.take() { key } else { try SecretKey() }
            let now = monotonicNanoseconds()
            if state.left == 0 || nanoseconds(from: state.seeded, to: now) > Self.lifetime || key.isZero {
                initializeSodium()
                key.withMutableBytes { randomBytes(into: &$0) }
                state.left = Self.drawsOfSeed
                state.seeded = now
                state.seeds += 1
            }
            state.left -= 1
            // A key serves one stream, so its nonce may be zero.
            let nonce: InlineArray<8, UInt8> = .init(repeating: 0)
            unsafe nonce.span.withUnsafeBytes { nonce in
                unsafe _ = crypto_stream_chacha20(
                    room.assumingMemoryBound(to: UInt8.self), UInt64(length), nonce.bytes, key.pointer)
            }
            key.withMutableBytes { target in
                // The stream begins with the next key.
                target.copy(unsafe Span<UInt8>(_unsafeStart: room, byteCount: SecretKey.byteCount), to: 0)
            }
            state.key = consume key
        }
        return try body(unsafe Span<UInt8>(_unsafeStart: room + SecretKey.byteCount, byteCount: count))
    }

    /// How many seeds were taken.
    var seeds: Int { state.withLock { $0.seeds } }

    /// Makes the key zero, as in a forked child.
    func forgetKey() throws(SodiumError) {
        try state.withLock { (state: inout State) throws(SodiumError) in state.key = try SecretKey() }
    }
}

/// What a new file draws, at once.
package struct NewFileBytes: ~Copyable {
    /// The file's ID.
    package let id: InlineArray<16, UInt8>
    /// The nonce that wraps the key for the first time.
    package let nonce: InlineArray<24, UInt8>
    private let key: SecretKey

    /// Draws them.
    package init() throws(SodiumError) {
        var id = InlineArray<16, UInt8>(repeating: 0)
        var nonce = InlineArray<24, UInt8>(repeating: 0)
        key = try RandomPool.shared.draw(72) { bytes throws(SodiumError) in
            var target = id.mutableSpan
            target.copy(bytes.extracting(0..<16), to: 0)
            target = nonce.mutableSpan
            target.copy(bytes.extracting(16..<40), to: 0)
            return try SecretKey(copying: bytes.extracting(40..<72))
        }
        self.id = id
        self.nonce = nonce
    }

    /// The file's key.
    package consuming func takeKey() -> SecretKey { key }
}

/// Random bytes for IDs and names, which need not differ on a machine that was set back to a snapshot. Never for nonces.
package func pooledBytes<let count: Int>() -> InlineArray<count, UInt8> {
    var result = InlineArray<count, UInt8>(repeating: 0)
    var target = result.mutableSpan
    do throws(SodiumError) {
        try RandomPool.shared.draw(count) { target.copy($0, to: 0) }
    } catch {
        // No locked memory is left.
        randomBytes(into: &target)
    }
    return result
}
