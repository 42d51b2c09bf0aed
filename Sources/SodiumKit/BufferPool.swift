// Locked buffers for the plaintext of requests: few, large, reused, wiped on return.

internal import CSodium
internal import Glibc
internal import HostSystem

/// Locked, page-aligned memory lent by a `BufferPool`; `deinit` wipes what was used of it and gives it back.
@safe package struct LockedBuffer: ~Copyable, @unchecked Sendable {
    private let slot: Slot
    /// Bytes that there is room for.
    package let capacity: Int
    private let isLarge: Bool
    private let pool: BufferPool
    /// How far the memory has been lent for writing: the bytes to wipe.
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

    /// Lends the first `count` bytes; they are zero where nothing has been written yet.
    package borrowing func withBytes<Result: ~Copyable, Failure: Error>(
        count: Int, _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        precondition(count >= 0 && count <= capacity)
        // The memory belongs to this value, which is borrowed for as long as the span lives.
        let bytes = unsafe Span<UInt8>(_unsafeStart: slot.pointer, byteCount: count)
        return try body(bytes)
    }

    /// Lends the first `count` bytes to be written; so many are wiped in the end.
    package mutating func withMutableBytes<Result: ~Copyable, Failure: Error>(
        count: Int, _ body: (inout MutableSpan<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        precondition(count >= 0 && count <= capacity)
        used = max(used, count)
        // The memory belongs to this value, which nobody else can reach for as long as the span lives.
        var bytes = unsafe MutableSpan<UInt8>(_unsafeStart: slot.pointer, byteCount: count)
        return try body(&bytes)
    }
}

/// Buffers of two sizes. Mapped and locked when first needed, then kept; `take` waits when all are lent.
///
/// Thread-safe. Who holds a buffer must not take a second one, or all workers may wait for each other.
@safe package final class BufferPool: @unchecked Sendable {
    /// Bytes of a small buffer: requests of up to 24 KiB with their page formats.
    package static let smallCapacity = 32 * 1024
    /// Bytes of a large buffer: a request of 1 MiB in 260 pages, with slack for partial pages.
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
    /// How many large buffers there can be: a bound for the number of workers.
    package let largeCount: Int

    /// - Parameters:
    ///   - largeCount: nil takes what the limit of locked memory leaves beside the keys, between 2 and 16.
    ///   - smallCount: number of small buffers.
    package init(largeCount: Int? = nil, smallCount: Int = 16) {
        let count = largeCount ?? Self.largeCount(limit: lockableMemory())
        self.largeCount = count
        small = Lock(State(limit: smallCount))
        large = Lock(State(limit: count))
    }

    /// A quarter of the limit stays with keys, and half a MiB with the small buffers; at least two buffers.
    static func largeCount(limit: UInt64) -> Int {
        let share = (limit - limit / 4) / UInt64(largeCapacity)
        return Int(min(max(share, 3) - 1, 16))
    }

    /// A buffer of at least `byteCount` bytes; waits for one to come back when all are lent.
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
                // Others are lent: do with these from now on. None: there is nothing to wait for.
                guard !state.mapped.isEmpty else { return .failure(error) }
                state.limit = state.mapped.count
                return nil
            }
        }
        // Only a deadline gives nil, and there is none.
        guard let outcome else { throw .outOfMemory }
        return LockedBuffer(slot: try outcome.get(), capacity: capacity, isLarge: isLarge, pool: self)
    }

    /// Lends a buffer of at least `byteCount` bytes for the length of `body`; waits as `take` does.
    ///
    /// - Parameter failure: makes the caller's error of a failure to lock memory.
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
