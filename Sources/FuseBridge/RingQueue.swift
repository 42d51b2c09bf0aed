// The queues of a mount over io_uring: how many workers each has, and which one has a request.

internal import CLibrary
internal import HostSystem
internal import Synchronization

/// The queue of one processor. The kernel gives a request to a worker that waits, and only to one of the queue of the processor
/// that the request comes from. So a queue gets another worker whenever none of it waits.
final class RingQueue: Sendable {
    /// The most workers that start because others have parked requests.
    static let mostForParked = 64

    let number: UInt16
    private let most: Int
    private let isUnlimited: Bool
    private struct Numbers {
        var workers = 0
        /// Workers that wait for a request, or are being started.
        var waiting = 0
        /// Workers whose request is parked.
        var parked = 0
    }
    private let numbers = Lock(Numbers())

    init(_ number: Int, most: Int, isUnlimited: Bool = true) {
        self.number = UInt16(number)
        self.most = most
        self.isUnlimited = isUnlimited
    }

    /// Whether another worker is to be started. It counts as waiting from then on, unless `failed` is called.
    private func wantsMore(_ numbers: inout Numbers) -> Bool {
        guard numbers.waiting == 0, numbers.workers < most + min(numbers.parked, Self.mostForParked) else {
            return false
        }
        numbers.workers += 1
        numbers.waiting += 1
        return true
    }

    /// Whether the worker that was started last may lock its buffers. Those for parked requests may not if there is a limit: they
    /// would take what the keys of files need.
    var mayLock: Bool { isUnlimited || numbers.withLock { $0.workers <= most } }

    /// The first worker is to be started.
    func begin() -> Bool { numbers.withLock { wantsMore(&$0) } }

    /// A worker that waited could not be started, or has ended.
    func failed() {
        numbers.withLock { numbers in
            numbers.workers -= 1
            numbers.waiting -= 1
        }
    }

    /// A worker has got a request. True if another one is to be started.
    func took() -> Bool {
        numbers.withLock { numbers in
            numbers.waiting -= 1
            return wantsMore(&numbers)
        }
    }

    /// Its request is parked. True if another one is to be started.
    func parked() -> Bool {
        numbers.withLock { numbers in
            numbers.parked += 1
            return wantsMore(&numbers)
        }
    }

    /// It waits again.
    func freed(wasParked: Bool) {
        numbers.withLock { numbers in
            if wasParked { numbers.parked -= 1 }
            numbers.waiting += 1
        }
    }
}

/// The queues of a mount, their workers and threads.
final class Rings: Sendable {
    let queues: [RingQueue]
    private struct State: Sendable {
        var workers: [RingWorker] = []
        var threads: [BackgroundThread] = []
        /// For each queue that has been tried.
        var results: [Int32] = []
        /// The mount uses /dev/fuse after all.
        var isWithdrawn = false
    }
    private let state = Lock(State())
    private let changed = Condition()
    private let served = Atomic(false)

    init(_ plan: RingPlan) {
        queues = (0..<plan.queues).map { RingQueue($0, most: plan.workersPerQueue, isUnlimited: plan.isUnlimited) }
    }

    /// The worker that has the request of this number.
    func owner(of number: UInt64) -> RingWorker? {
        if let worker = RingWorker.current, worker.isAnswering(number) { return worker }
        return state.withLock { $0.workers.first { $0.isAnswering(number) } }
    }

    func add(_ worker: RingWorker) { state.withLock { $0.workers.append(worker) } }

    func remove(_ worker: RingWorker) { state.withLock { $0.workers.removeAll { $0 === worker } } }

    /// Keeps a thread for `join`. It may have ended already.
    func add(_ thread: BackgroundThread) { state.withLock { $0.threads.append(thread) } }

    /// Returns when all threads have ended.
    func join() {
        while let thread = state.withLock({ $0.threads.popLast() }) { thread.join() }
    }

    /// The first worker of the next queue has begun (0), or could not (an errno).
    func report(_ error: Int32) {
        state.withLock { $0.results.append(error) }
        changed.broadcast()
    }

    /// Waits for the report on a queue.
    func result(of index: Int) -> Int32 {
        state.wait(on: changed) { $0.results.count > index ? $0.results[index] : nil } ?? EAGAIN
    }

    /// Whether a request has come, so that the kernel holds none back.
    var hasRequest: Bool { served.load(ordering: .relaxed) }

    func noteRequest() {
        if !hasRequest { served.store(true, ordering: .relaxed) }
    }

    var isWithdrawn: Bool { state.withLock { $0.isWithdrawn } }

    /// The workers end when they are next woken.
    func withdraw() { state.withLock { $0.isWithdrawn = true } }
}
