// Drops the pages of inodes from the kernel's cache. An inode with a hanging store does not delay the others.

internal import HostSystem

/// Threads that notify the kernel, each of one inode at a time. A notification blocks until the inode's dirty pages have been
/// written back. If that takes long, another thread continues with the other inodes, up to a limit.
///
/// Holds no lock while it notifies.
final class Evictor: Sendable {
    private struct State: Sendable {
        /// The queued inodes, in order. Those before `next` are taken.
        var waiting: [UInt64] = []
        var next = 0
        /// The inodes in `waiting` that are not taken yet.
        var isWaiting: Set<UInt64> = []
        var inHand: Set<UInt64> = []
        var threads: [BackgroundThread] = []
        var idle = 0
        /// When a thread last began or finished an inode (CLOCK_MONOTONIC).
        var moved: UInt64 = 0
        var isStopping = false
    }
    /// The number of inodes that may be stuck at the same time before others wait for them.
    private static let mostThreads = 64
    /// A thread that is busy for this long gets help.
    private static let patience: UInt64 = 5_000_000

    private let state = Lock(State())
    private let changed = Condition()
    private let evict: @Sendable (UInt64) -> Void

    /// - Parameter evict: notifies the kernel, and blocks until the kernel has dropped the pages.
    init(_ evict: @escaping @Sendable (UInt64) -> Void) {
        self.evict = evict
        // One thread from the start, because at a lock the system may be unable to make one.
        state.withLock { addThread(&$0) }
    }

    /// Queues inodes, in this order.
    func add(_ numbers: [UInt64]) {
        state.withLock { state in
            for number in numbers where state.isWaiting.insert(number).inserted { state.waiting.append(number) }
            help(&state, atOnce: true)
        }
        changed.broadcast()
    }

    /// Queues inodes and waits until all are done, `deadline` passes, or no thread makes progress for `patience` nanoseconds.
    /// - Returns: the inodes that are not done yet. The threads continue with them.
    func evict(_ numbers: [UInt64], until deadline: UInt64, patience: UInt64) -> [UInt64] {
        state.withLock { $0.moved = monotonicNanoseconds() }
        add(numbers)
        let wanted = Set(numbers)
        while true {
            let now = monotonicNanoseconds()
            let next = min(deadline, now + Self.patience)
            let isDone = state.wait(on: changed, until: next) { $0.inHand.isEmpty && $0.isWaiting.isEmpty ? true : nil }
            if isDone == true { return [] }
            let after = monotonicNanoseconds()
            let left: [UInt64]? = state.withLock { state in
                help(&state)
                let left = state.inHand.union(state.isWaiting).intersection(wanted)
                let isStuck = nanoseconds(from: state.moved, to: after) > patience
                return left.isEmpty || after >= deadline || isStuck ? Array(left) : nil
            }
            if let left { return left }
        }
    }

    /// The inodes that are not done yet.
    var pending: Set<UInt64> { state.withLock { $0.inHand.union($0.isWaiting) } }

    /// Takes no more inodes, and returns when the current ones are done. Call it once.
    func stop() {
        // A thread's body holds this object, so this object must not hold the thread.
        let threads = state.withLock { state in
            state.isStopping = true
            defer { state.threads = [] }
            return state.threads
        }
        changed.broadcast()
        for thread in threads { thread.join() }
    }

    /// Starts another thread if all have been busy for a while, or `atOnce`, because there may be no later check.
    private func help(_ state: inout State, atOnce: Bool = false) {
        guard !state.isWaiting.isEmpty, state.idle == 0, state.threads.count < Self.mostThreads, !state.isStopping,
            atOnce || nanoseconds(from: state.moved, to: monotonicNanoseconds()) > Self.patience
        else { return }
        addThread(&state)
    }

    private func addThread(_ state: inout State) {
        // If the system cannot make one, the others do the work.
        if let thread = BackgroundThread(name: "pfs-evictor", { [self] in work() }) { state.threads.append(thread) }
    }

    private func work() {
        var done: UInt64?
        while true {
            let taken = state.withLock { state -> UInt64? in
                if let done {
                    state.inHand.remove(done)
                    state.moved = monotonicNanoseconds()
                }
                return take(&state)
            }
            if done != nil, taken == nil { changed.broadcast() }
            guard let number = taken ?? waitForWork() else { return }
            evict(number)
            done = number
        }
    }

    private func waitForWork() -> UInt64? {
        state.withLock { $0.idle += 1 }
        let number = state.wait(on: changed) { state -> UInt64?? in
            if let number = take(&state) { return .some(number) }
            return state.isStopping ? .some(nil) : nil
        }
        state.withLock { $0.idle -= 1 }
        return number ?? nil
    }

    /// The first waiting inode that no other thread is working on. An inode that is being worked on is done again afterwards.
    private func take(_ state: inout State) -> UInt64? {
        guard !state.isStopping,
            let index = state.waiting[state.next...].firstIndex(where: { !state.inHand.contains($0) })
        else { return nil }
        state.waiting.swapAt(index, state.next)
        let number = state.waiting[state.next]
        state.next += 1
        if 2 * state.next >= state.waiting.count {
            state.waiting.removeFirst(state.next)
            state.next = 0
        }
        state.isWaiting.remove(number)
        state.inHand.insert(number)
        state.moved = monotonicNanoseconds()
        return number
    }
}
