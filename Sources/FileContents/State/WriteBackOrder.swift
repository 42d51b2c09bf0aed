// Writes from the page cache that come before the one that makes the file long enough.

internal import HostSystem

/// The kernel's write-back sends requests in parallel. One that begins behind the end of the file waits, within limits, for those
/// before it: otherwise ordinary files would be marked as having holes. Thread-safe.
struct WriteBackOrder: ~Copyable, Sendable {
    // Not private: the compiler lays it out in another file.
    struct State {
        /// The offsets of the writes that are running.
        var offsets: [UInt64] = []
        /// Opened when the file grows.
        var waiting: [Gate] = []
    }
    private let state = InPlaceLock(State())

    /// A write from the page cache begins.
    func begin(at offset: UInt64) { state.withLock { $0.offsets.append(offset) } }

    /// It has ended.
    func end(at offset: UInt64) {
        state.withLock { state in
            if let index = state.offsets.firstIndex(of: offset) { state.offsets.remove(at: index) }
        }
    }

    /// The file has grown.
    func tellGrowth() {
        let waiting = state.withLock { state in
            defer { state.waiting = [] }
            return state.waiting
        }
        for gate in waiting { gate.open() }
    }

    /// Waits while earlier writes than the one at `offset` are running, and briefly for one that has not arrived yet, until the
    /// file has grown so far that `isReached`. The caller holds no lock.
    func wait(at offset: UInt64, until isReached: () -> Bool) {
        let end = monotonicNanoseconds() + 1_000_000_000
        while monotonicNanoseconds() < end {
            let gate = Gate()
            // Before the look, so that growth after it opens the gate.
            state.withLock { $0.waiting.append(gate) }
            if isReached() { return }
            if gate.wait(until: monotonicNanoseconds() + 100_000_000) { continue }
            guard state.withLock({ $0.offsets.contains { $0 < offset } }) else { return }
        }
    }
}
