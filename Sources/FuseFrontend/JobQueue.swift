// A queue with one thread that does one job after another.

internal import HostSystem

/// Runs jobs in the order in which they came, each without any lock held.
final class JobQueue: Sendable {
    private struct State: Sendable {
        var jobs: [@Sendable () -> Void] = []
        var isStopping = false
    }
    private let state: Lock<State>
    private let changed: Condition
    private let thread: BackgroundThread?

    init(name: String) {
        let state = Lock(State())
        let changed = Condition()
        self.state = state
        self.changed = changed
        thread = BackgroundThread(name: name) {
            while let job = Self.next(state, changed) { job() }
        }
    }

    private static func next(_ state: Lock<State>, _ changed: Condition) -> (@Sendable () -> Void)? {
        let taken = state.wait(on: changed) { state -> (@Sendable () -> Void)?? in
            if !state.jobs.isEmpty { return .some(state.jobs.removeFirst()) }
            return state.isStopping ? .some(nil) : nil
        }
        return taken ?? nil
    }

    /// Whether jobs are done. If not, no thread could be made.
    var canWork: Bool { thread != nil }

    /// Queues `job`.
    func add(_ job: @escaping @Sendable () -> Void) {
        state.withLock { state in
            if !state.isStopping { state.jobs.append(job) }
        }
        changed.broadcast()
    }

    /// Queues `job` and waits until it is done. False if `deadline` (CLOCK_MONOTONIC, ns) passes first, or no thread runs.
    ///
    /// The job runs even so.
    func perform(until deadline: UInt64, _ job: @escaping @Sendable () -> Void) -> Bool {
        guard thread != nil else { return false }
        let done = Gate()
        add {
            job()
            done.open()
        }
        return done.wait(until: deadline)
    }

    /// Takes no more jobs, and returns when the queued ones are done. Call it once, and not from a job.
    func stop() {
        state.withLock { $0.isStopping = true }
        changed.broadcast()
        thread?.join()
    }
}
