// Drops parts of files from the kernel's page cache, and bounds the requests that wait for it.

internal import HostSystem

/// Threads that notify the kernel, each of one file at a time. A notification waits for reads of the pages, and until dirty ones
/// have been written back. A file for which that takes long does not delay others, up to a limit.
///
/// A direct request that waits for a notification keeps one of the kernel's places for requests that it sends ahead
/// (`RequestedCapabilities.maximumBackground`), and what the notification waits for needs such a place, too. So only a
/// part of the places may be kept (`mayWait`); otherwise the mount would hang.
///
/// Holds no lock while it notifies, or while it calls `then`.
final class PageDrops: Sendable {
    /// A kind of direct request that waits for pages to be dropped.
    enum Waiter: Int, CaseIterable {
        case read, write

        /// The number of them that may wait at a time: together three quarters of the kernel's places.
        var limit: Int { self == .read ? 32 : 16 }
    }
    private struct Job: Sendable {
        let number: UInt64
        /// Nil: what `later` has of the file.
        let part: Part?
        let then: @Sendable () -> Void
    }
    private struct Part: Sendable {
        var start: UInt64
        /// Nil: to the end of the file.
        var end: UInt64?
    }
    private struct State: Sendable {
        var jobs: [Job] = []
        var inHand: Set<UInt64> = []
        /// The parts that nobody waits for, by file. Each has one job.
        var later: [UInt64: Part] = [:]
        var waiters = [Int](repeating: 0, count: Waiter.allCases.count)
        var threads: [BackgroundThread] = []
        var idle = 0
        var isStopping = false

        /// The first job of a file that no thread is at.
        var next: Int? { jobs.firstIndex { !inHand.contains($0.number) } }
    }
    /// The number of files that may be stuck at the same time before others wait for them.
    private static let mostThreads = 16

    private let state = Lock(State())
    private let changed = Condition()
    private let drop: @Sendable (_ number: UInt64, _ offset: UInt64, _ count: Int) -> Void

    /// - Parameter drop: notifies the kernel of a part of a file. A count of 0 means to its end.
    init(_ drop: @escaping @Sendable (_ number: UInt64, _ offset: UInt64, _ count: Int) -> Void) {
        self.drop = drop
        state.withLock { addThread(&$0) }
    }

    /// Whether parts are dropped. If not, no thread could be made, or this was stopped.
    var canWork: Bool { state.withLock { !$0.threads.isEmpty } }

    /// Whether a thread waits for a job.
    var isIdle: Bool { state.withLock { $0.idle > 0 } }

    /// Queues the drop of a part, and calls `then` after it. After `stop` nothing is done.
    func add(_ number: UInt64, at offset: UInt64, count: Int, then: @escaping @Sendable () -> Void) {
        queue { $0.jobs.append(Job(number: number, part: Self.part(offset, count), then: then)) }
    }

    /// Queues the drop of a part that nobody waits for.
    func addLater(_ number: UInt64, at offset: UInt64, count: Int) {
        let part = Self.part(offset, count)
        queue { state in
            guard let known = state.later[number] else {
                state.later[number] = part
                return state.jobs.append(Job(number: number, part: nil) {})
            }
            let end = if let one = known.end, let other = part.end { max(one, other) } else { nil as UInt64? }
            state.later[number] = Part(start: min(known.start, part.start), end: end)
        }
    }

    /// Counts a request that will wait; false if it must not. If true, call `hasWaited` when it is answered.
    func mayWait(_ kind: Waiter) -> Bool {
        state.withLock { state in
            guard state.waiters[kind.rawValue] < kind.limit else { return false }
            state.waiters[kind.rawValue] += 1
            return true
        }
    }

    /// Ends what `mayWait` has begun.
    func hasWaited(_ kind: Waiter) { state.withLock { $0.waiters[kind.rawValue] -= 1 } }

    /// Takes no more jobs, and returns when the queued ones are done. Call it once, and not from a job.
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

    private static func part(_ offset: UInt64, _ count: Int) -> Part {
        Part(start: offset, end: count == 0 ? nil : offset &+ UInt64(count))
    }

    private func queue(_ change: (inout State) -> Void) {
        state.withLock { state in
            guard !state.threads.isEmpty else { return }
            change(&state)
            help(&state)
        }
        changed.broadcast()
    }

    /// Starts another thread if a job can be done and no thread waits for one. A thread that has been woken counts until it takes
    /// its job, so it asks, too.
    private func help(_ state: inout State) {
        let mayAdd = state.threads.count < Self.mostThreads && !state.isStopping
        if mayAdd, state.next != nil, state.idle == 0 { addThread(&state) }
    }

    private func addThread(_ state: inout State) {
        // If the system cannot make one, the others do the work.
        if let thread = BackgroundThread(name: "pfs-pages", { [self] in work() }) { state.threads.append(thread) }
    }

    private func work() {
        var done: UInt64?
        while let job = next(after: done) {
            let part = job.part ?? state.withLock { $0.later.removeValue(forKey: job.number) }
            if let part { drop(job.number, part.start, part.end.map { Int($0 &- part.start) } ?? 0) }
            job.then()
            done = job.number
        }
    }

    /// Waits for a job; nil when this is stopping and none is left.
    private func next(after done: UInt64?) -> Job? {
        state.withLock { state in
            if let done { state.inHand.remove(done) }
            state.idle += 1
        }
        if done != nil { changed.broadcast() }
        return state.wait(on: changed) { state -> Job?? in
            if let index = state.next {
                let job = state.jobs.remove(at: index)
                state.inHand.insert(job.number)
                state.idle -= 1
                help(&state)
                return .some(job)
            }
            return state.isStopping && state.jobs.isEmpty ? .some(nil) : nil
        } ?? nil
    }
}
