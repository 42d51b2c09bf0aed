// Locked buffers for the plaintext of requests: few, large, reused, wiped on return.

internal import CLibrary
internal import CSodium
internal import HostSystem

/// Locked, page-aligned memory lent by a `BufferPool`. `deinit` wipes the used part and gives it back.
@safe package struct LockedBuffer: ~Copyable, @unchecked Sendable {
    private let slot: Slot
    /// The capacity in bytes.
    package let capacity: Int
    private let isLarge: Bool
    private let pool: BufferPool
    /// The number of bytes that have been lent for writing, which must be wiped.
    private var used = 0

    fileprivate init(slot: Slot, capacity: Int, isLarge: Bool, pool: BufferPool) {
        self.slot = slot
        self.capacity = capacity
        self.isLarge = isLarge
        self.pool = pool
    }

    deinit {
        unsafe sodium_memzero(slot.pointer, used)
        pool.giveBack(slot, isLarge: isLarge)
    }

    /// Lends the first `count` bytes. They are zero until something is written.
    package borrowing func withBytes<Result: ~Copyable, Failure: Error>(
        count: Int, _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        precondition(count >= 0 && count <= capacity)
        // The memory belongs to this value, which is borrowed while the span lives.
        let bytes = unsafe Span<UInt8>(_unsafeStart: slot.pointer, byteCount: count)
        return try body(bytes)
    }

    /// Lends the first `count` bytes for writing. They are wiped at the end.
    package mutating func withMutableBytes<Result: ~Copyable, Failure: Error>(
        count: Int, _ body: (inout MutableSpan<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        precondition(count >= 0 && count <= capacity)
        used = max(used, count)
        // The memory belongs to this value, which nothing else can reach while the span lives.
        var bytes = unsafe MutableSpan<UInt8>(_unsafeStart: slot.pointer, byteCount: count)
        return try body(&bytes)
    }
}

/// Buffers of two sizes. They are mapped and locked when first needed, and then kept. `take` waits if all are lent.
///
/// Thread-safe. A thread that holds a buffer must not take a second one, because all workers could then wait for each other.
@safe package final class BufferPool: @unchecked Sendable {
    /// Bytes of a small buffer: requests of up to 24 KiB with their page formats.
    package static let smallCapacity = 32 * 1024
    /// Bytes of a large buffer: a request of 1 MiB in 260 pages, with room for partial pages.
    package static let largeCapacity = 1024 * 1024 + 64 * 1024

    /// The process's own pool, sized by RLIMIT_MEMLOCK.
    package static let shared = BufferPool()

    private struct State: ~Copyable {
        var free: [Slot] = []
        var mapped: [Mapping] = []
        var limit: Int
    }

    private final class Mapping {
        let memory: GuardedMapping
        init(_ memory: consuming GuardedMapping) { self.memory = memory }
    }

    private let small: Lock<State>
    private let large: Lock<State>
    private let smallReturned = Condition()
    private let largeReturned = Condition()
    /// The largest number of large buffers, which bounds the number of workers.
    package let largeCount: Int

    /// - Parameters:
    ///   - largeCount: nil takes the locked memory that the keys do not need, between 2 and 16.
    ///   - smallCount: number of small buffers.
    package init(largeCount: Int? = nil, smallCount: Int = 16) {
        let count = largeCount ?? Self.largeCount(limit: lockableMemory())
        self.largeCount = count
        small = Lock(State(limit: smallCount))
        large = Lock(State(limit: count))
    }

    /// A quarter of the limit is reserved for keys, and half a MiB for the small buffers. There are at least two large buffers.
    static func largeCount(limit: UInt64) -> Int {
        let share = (limit - limit / 4) / UInt64(largeCapacity)
        return Int(min(max(share, 3) - 1, 16))
    }

    /// A buffer of at least `byteCount` bytes. Waits for one if all are lent.
    package func take(atLeast byteCount: Int) throws(SodiumError) -> LockedBuffer {
        precondition(byteCount <= Self.largeCapacity)
        let isLarge = byteCount > Self.smallCapacity
        let capacity = isLarge ? Self.largeCapacity : Self.smallCapacity
        let outcome = (isLarge ? large : small).wait(on: isLarge ? largeReturned : smallReturned) {
            (state: inout State) -> Swift.Result<Slot, SodiumError>? in
            if let slot = state.free.popLast() { return .success(slot) }
            guard state.mapped.count < state.limit else { return nil }
            do throws(SodiumError) {
                let mapping = Mapping(try GuardedMapping(minimum: capacity))
                state.mapped.append(mapping)
                return .success(unsafe Slot(pointer: mapping.memory.start))
            } catch {
                // If other buffers are lent, the existing ones must do from now on. If none are, there is nothing to wait for.
                guard !state.mapped.isEmpty else { return .failure(error) }
                state.limit = state.mapped.count
                return nil
            }
        }
        // Only a deadline gives nil, and this wait has none.
        guard let outcome else { throw .outOfMemory }
        return LockedBuffer(slot: try outcome.get(), capacity: capacity, isLarge: isLarge, pool: self)
    }

    /// Lends a buffer of at least `byteCount` bytes while `body` runs. Waits as `take` does.
    ///
    /// - Parameter failure: turns a failure to lock memory into the caller's error.
    package func withBuffer<Result: ~Copyable, Failure: Error>(
        atLeast byteCount: Int, failure: (SodiumError) -> Failure,
        _ body: (inout LockedBuffer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        var buffer: LockedBuffer
        do throws(SodiumError) {
            buffer = try take(atLeast: byteCount)
        } catch {
            throw failure(error)
        }
        return try body(&buffer)
    }

    fileprivate func giveBack(_ slot: Slot, isLarge: Bool) {
        (isLarge ? large : small).withLock { state in state.free.append(slot) }
        (isLarge ? largeReturned : smallReturned).broadcast()
    }
}
