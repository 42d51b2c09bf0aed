// Notices that the store has little space left, so that programs learn it from write(2).

internal import HostSystem
internal import Synchronization

/// Whether the store is nearly full, or has refused a write for lack of space a short time ago. Thread-safe.
///
/// With the write-back cache write(2) succeeds before the store was asked. On a full store a program could write for ever,
/// and only fsync(2) and close(2) would tell it. A shell ignores what close(2) says. See `VolumeFileSystem+Space`.
final class StoreSpace: Sendable {
    /// The store counts as nearly full below this number of free bytes. More than a program writes between two looks.
    static let least: UInt64 = 64 << 20
    /// The longest time between a look and its use, in nanoseconds.
    private static let interval: UInt64 = 100_000_000
    /// The number of written bytes after which the store is looked at again.
    private static let bytesPerLook: UInt64 = 8 << 20
    /// How long a refusal counts although the store says that it has space: a quota is not seen in statfs(2).
    private static let memory: UInt64 = 60_000_000_000
    /// How long a file whose page was refused refuses writes before it asks the store again.
    private static let retry: UInt64 = 1_000_000_000

    private struct State {
        var looked: UInt64 = 0
        var isNearlyFull = false
        /// The time of the last refusal.
        var refused: UInt64?
        /// The errno and the time of each file's last refusal.
        var files: [UInt64: (errno: Int32, at: UInt64)] = [:]
    }

    private let state = Lock(State())
    private let written = Atomic<UInt64>(0)
    private let free: @Sendable () -> UInt64?
    private let isShortNow = Atomic(false)

    /// - Parameter free: the free bytes of the store; nil if it does not tell.
    init(free: @escaping @Sendable () -> UInt64?) { self.free = free }

    /// Whether writes go to the store at once, as last seen.
    var isShort: Bool { isShortNow.load(ordering: .relaxed) }

    /// Looks again if the last look is too long ago. Do not call it with a lock.
    /// - Returns: whether the store has become short of space with this look.
    func look(at now: UInt64 = monotonicNanoseconds()) -> Bool {
        let isDue = state.withLock { state in
            guard state.looked == 0 || nanoseconds(from: state.looked, to: now) >= Self.interval else { return false }
            state.looked = now
            return true
        }
        guard isDue else { return false }
        let isNearlyFull = free().map { $0 < Self.least } ?? false
        return state.withLock { state in
            state.isNearlyFull = isNearlyFull
            return update(&state, now)
        }
    }

    /// Counts bytes that the store has taken, and looks again after many.
    func wrote(_ count: Int) -> Bool {
        let (before, after) = written.add(UInt64(count), ordering: .relaxed)
        return before / Self.bytesPerLook != after / Self.bytesPerLook && look()
    }

    /// Notes that a page of a file was refused.
    /// - Returns: whether this is about space, and the first of a while.
    func refused(_ number: UInt64, _ errno: Errno, at now: UInt64 = monotonicNanoseconds()) -> Bool {
        guard errno == .ENOSPC || errno == .EDQUOT else { return false }
        return state.withLock { state in
            state.refused = now
            state.files[number] = (errno.rawValue, now)
            return update(&state, now)
        }
    }

    /// The errno for a write to a file, if its last page was refused just now.
    func refusal(of number: UInt64, at now: UInt64 = monotonicNanoseconds()) -> Int32? {
        state.withLock { state in
            guard let last = state.files[number] else { return nil }
            if nanoseconds(from: last.at, to: now) < Self.retry { return last.errno }
            state.files[number] = nil
            return nil
        }
    }

    /// Called when a file's last handle is gone.
    func closed(_ number: UInt64) {
        state.withLock { _ = $0.files.removeValue(forKey: number) }
    }

    private func update(_ state: inout State, _ now: UInt64) -> Bool {
        if let refused = state.refused, nanoseconds(from: refused, to: now) >= Self.memory { state.refused = nil }
        let isShort = state.isNearlyFull || state.refused != nil
        return !isShortNow.exchange(isShort, ordering: .relaxed) && isShort
    }
}
