// Makes the kernel write back cached writes: for seeks, for the lock, and before a file gets a new key.

internal import BackingStore
internal import FuseBridge
internal import HostSystem
internal import ProtectedVolume

/// Flushes files on a few threads of its own, so that one stuck file does not delay the others.
///
/// A file is flushed through our own mount: it is opened for reading and given to sync_file_range(2), which sends requests as
/// large as those of fsync and takes no lock of the inode. The kernel holds that lock while it waits for the answer to a LSEEK.
/// On older kernels close(2) waits for the lock (6.18 does not), so close(2) comes last, after the answer. Before Linux 6.16
/// sync_file_range(2) does not wait for the answers to FUSE's requests, which the kernel sends from copies of the pages, but
/// close(2) does. There a file counts as flushed only after close(2), and seeks cannot wait for it (`isLockFree`).
///
/// A file without a path, or one that may not be opened, is flushed page by page, by the notification that drops its pages. So
/// is a file with a refused write-back, because the calls above take the error that the kernel keeps for the writer's close(2).
/// (fsync(2) has its own record of the error and reports it in any case.) An error that arises meanwhile is given back.
final class Flusher: Sendable {
    /// The largest number of flushing threads. If more files than this are stuck together, the store is stuck, and so are all
    /// files.
    private static let mostFlushing = 8
    /// The largest number of all threads. Closing threads do not count above, because each may wait for a seek that needs a
    /// flush first.
    private static let mostThreads = 64
    /// How long a thread waits for a job before it ends.
    private static let idleTime: UInt64 = 5_000_000_000
    /// Whether files are flushed without the inode's lock.
    static let isLockFree = KernelVersion.running.map { $0 >= KernelVersion(6, 16) } ?? false

    fileprivate struct Waiter: Sendable {
        var deadline: UInt64
        var then: @Sendable (Bool) -> Void
    }
    /// A file that is being flushed or will be.
    fileprivate struct Job: Sendable {
        let node: Node
        /// Callers that asked after the current pass began. It may have missed their data, so they wait for the next one.
        var waiting: [Waiter] = []
        /// Callers that the current pass serves.
        var served: [Waiter] = []
        var isQueued = false
        var isRunning = false
        /// A page was refused since the current pass began.
        var isRefused = false
        /// A page was refused while we had a descriptor open, so we have taken the error from the writer.
        var owesError = false
        /// A thread is closing descriptors of the file. It also closes the descriptor of the next pass.
        var isClosing = false
        var toClose: [HostFile] = []
    }
    fileprivate struct State: Sendable {
        var session: Session?
        var volume: Volume?
        var mount: MountClient?
        /// The jobs by node number.
        var jobs: [UInt64: Job] = [:]
        /// Jobs that have not started, in the order in which they came.
        var queue: [UInt64] = []
        /// Files with a refused write-back since they were opened, and the last reason.
        var refused: [UInt64: Int32] = [:]
        /// By a running number, because a thread that is starting does not know its own ID yet.
        var threads: [UInt64: BackgroundThread] = [:]
        var started: UInt64 = 0
        /// The thread IDs as they appear in requests.
        var numbers: Set<Int32> = []
        var idle = 0
        /// Threads that are closing descriptors.
        var closing = 0
        var clock: BackgroundThread?
        /// When the clock thread looks next.
        var wake = UInt64.max
        var isStopping = false
    }
    private let state = Lock(State())
    /// A job is queued, or no more jobs are taken.
    private let changed = Condition()
    /// The clock thread must look earlier.
    private let hurried = Condition()
    /// A job is done.
    private let finished = Condition()

    // MARK: life

    func begin(_ session: Session, _ volume: Volume) {
        state.withLock { state in
            state.session = session
            state.volume = volume
        }
    }

    func begin(_ mount: MountClient) {
        state.withLock { $0.mount = mount }
    }

    /// Called when the mount has ended, and with it every call on it. Answers all waiting callers, and returns when the threads
    /// are gone.
    func end() {
        let (waiters, threads, clock) = state.withLock { state in
            state.isStopping = true
            state.queue = []
            return (state.takeLate(.max), state.threads, state.clock)
        }
        changed.broadcast()
        hurried.broadcast()
        for waiter in waiters { waiter.then(false) }
        for thread in threads.values { thread.join() }
        clock?.join()
        state.withLock { state in
            state.session = nil
            state.volume = nil
            state.mount = nil
            // The body of each thread holds this object.
            state.threads = [:]
            state.clock = nil
        }
    }

    /// Waits until this object holds no file open, or until `deadline`.
    func settle(until deadline: UInt64) {
        _ = state.wait(on: finished, until: deadline) { $0.jobs.isEmpty ? true : nil }
    }

    /// Whether requests of this thread come from a flush. Files that it opens are neither read nor written.
    func isOwn(_ process: Int32) -> Bool {
        state.withLock { $0.numbers.contains(process) }
    }

    // MARK: what is known of refusals

    /// Called before the kernel is told that a page of the file is refused. The kernel keeps an error for the writer.
    func refused(_ number: UInt64, _ errno: Int32) {
        state.withLock { state in
            state.refused[number] = errno
            state.jobs[number]?.isRefused = true
            state.jobs[number]?.owesError = true
        }
    }

    /// Whether pages of the file were refused since it was opened. The kernel's data then differs from ours.
    func hasRefused(_ number: UInt64) -> Bool {
        state.withLock { $0.refused[number] != nil }
    }

    /// The answer to a request by one of these threads to set the file's time (`MountClient.keepError`).
    func owedError(_ number: UInt64) -> Int32? {
        state.withLock { $0.jobs[number]?.owesError == true ? $0.refused[number] : nil }
    }

    /// Called when the file's last handle is gone.
    func closed(_ number: UInt64) {
        state.withLock { $0.refused[number] = nil }
    }

    // MARK: flushing

    /// Makes the kernel write back a file's dirty data and calls `then` once, with no lock held. It passes true if all data
    /// that was dirty at the time of this call has reached us, and false if that failed or cannot be known. It comes at
    /// `deadline` (CLOCK_MONOTONIC) at the latest, even if something hangs.
    ///
    /// `then` runs here at once if there can be no dirty data, and else on another thread. It may do I/O only if it gets true,
    /// because at the deadline other callers wait behind it.
    func flush(_ node: Node, until deadline: UInt64, then: @escaping @Sendable (Bool) -> Void) {
        // The kernel sends the writes of a handle or a mapping before it closes that.
        guard node.writableHandles > 0 else { return then(true) }
        let isTaken = state.withLock { state in
            guard !state.isStopping, state.session != nil else { return false }
            if state.clock == nil { state.clock = BackgroundThread(name: "pfs-flush-clock") { [self] in watch() } }
            guard state.clock != nil else { return false }
            state.jobs[node.number, default: Job(node: node)].waiting.append(Waiter(deadline: deadline, then: then))
            state.queueIfNeeded(node.number)
            startThreadIfNeeded(&state)
            guard !state.threads.isEmpty else {
                // The first thread could not be made, so nobody else waits either.
                state.queue = []
                state.jobs = [:]
                return false
            }
            if deadline < state.wake { state.wake = deadline }
            return true
        }
        guard isTaken else { return then(false) }
        changed.broadcast()
        hurried.broadcast()
    }

    /// Flushes several files and waits until all are done or `deadline` has passed. Returns the numbers of the flushed ones.
    func flush(_ nodes: [Node], until deadline: UInt64) -> Set<UInt64> {
        let results = Lock((left: nodes.count, flushed: Set<UInt64>()))
        let done = Condition()
        for node in nodes {
            flush(node, until: deadline) { isFlushed in
                results.withLock { results in
                    results.left -= 1
                    if isFlushed { results.flushed.insert(node.number) }
                }
                done.broadcast()
            }
        }
        return results.wait(on: done) { $0.left == 0 ? $0.flushed : nil } ?? []
    }

    // MARK: the threads

    private func startThreadIfNeeded(_ state: inout State) {
        guard state.idle < state.queue.count, state.threads.count < Self.mostThreads,
            state.threads.count - state.closing < Self.mostFlushing
        else { return }
        let id = state.started
        guard let thread = BackgroundThread(name: "pfs-flusher", { [self] in work(id) }) else { return }
        state.started += 1
        state.threads[id] = thread
        // The thread takes a job as soon as it runs.
        state.idle += 1
    }

    private func work(_ id: UInt64) {
        let me = BackgroundThread.currentNumber
        state.withLock { _ = $0.numbers.insert(me) }
        while let number = next(id) {
            pass(number)
            state.withLock { $0.idle += 1 }
        }
        state.withLock { _ = $0.numbers.remove(me) }
    }

    /// The next job. Nil, and the thread no longer counts, if there is none for a while or the mount has ended.
    private func next(_ id: UInt64) -> UInt64? {
        let taken = state.wait(on: changed, until: monotonicNanoseconds() + Self.idleTime) { state -> UInt64?? in
            if state.isStopping { return .some(nil) }
            guard !state.queue.isEmpty else { return nil }
            state.idle -= 1
            return .some(state.queue.removeFirst())
        }
        if let taken { return taken }
        // Looks once more in the same step in which the thread leaves, because a job that came since was left to this thread.
        return state.withLock { state in
            state.idle -= 1
            if state.isStopping { return nil }
            guard state.queue.isEmpty else { return state.queue.removeFirst() }
            // Nothing will join the thread then.
            state.threads[id] = nil
            return nil
        }
    }

    private func pass(_ number: UInt64) {
        let (served, isFlushed, isCloser) = flushed(number)
        changed.broadcast()
        finished.broadcast()
        for waiter in served { waiter.then(isFlushed) }
        if isCloser { close(number) }
    }

    /// Flushes a file once, for the callers that asked before it began. Returns whether the caller must close the left
    /// descriptor.
    ///
    /// A separate function, so that the only reference left is the one in the job. Releasing the last one closes the file.
    private func flushed(_ number: UInt64) -> (served: [Waiter], isFlushed: Bool, isCloser: Bool) {
        let job = state.withLock { state in
            state.jobs[number]?.begin()
            return state.jobs[number]
        }
        guard let job else { return ([], false, false) }
        var file = hasRefused(number) ? nil : open(job.node)
        let isDone = handOver(job.node, file)
        if !Self.isLockFree { file = nil }
        let left = file
        return state.withLock { state in
            var result = state.passed(number, leaving: left)
            if !isDone { result.isFlushed = false }
            if result.isCloser { state.closing += 1 }
            startThreadIfNeeded(&state)
            return result
        }
    }

    private func open(_ node: Node) -> HostFile? {
        let (volume, mount) = state.withLock { ($0.volume, $0.mount) }
        guard let mount, let path = volume?.path(of: node) else { return nil }
        return mount.openForWriteBack(path, inode: node.inode)
    }

    /// Whether all dirty data has reached us or was refused.
    private func handOver(_ node: Node, _ file: HostFile?) -> Bool {
        if let file { return (try? file.writeBack()) != nil }
        // Before 6.16 the call waits for the pages that it sends itself, but not for pages that are already being sent.
        guard let session = state.withLock({ $0.session }) else { return false }
        return session.invalidate(node: node.number) == 0 && Self.isLockFree
    }

    /// Closes the descriptors that passes leave, with no lock held. Closing may wait for a seek that another pass will answer.
    private func close(_ number: UInt64) {
        while true {
            let (files, debtor) = state.withLock { state in
                let files = state.jobs[number]?.toClose ?? []
                state.jobs[number]?.toClose = []
                let debtor = files.isEmpty && state.jobs[number]?.owesError == true ? state.jobs[number]?.node : nil
                if files.isEmpty && debtor == nil {
                    state.closing -= 1
                    state.jobs[number]?.isClosing = false
                    state.removeIfOver(number)
                }
                return (files, debtor)
            }
            if let debtor {
                giveBackError(debtor)
            } else if files.isEmpty {
                break
            }
        }
        finished.broadcast()
    }

    /// Makes the kernel keep the error again that our calls have taken, for the writer's close(2).
    private func giveBackError(_ node: Node) {
        let (volume, mount) = state.withLock { ($0.volume, $0.mount) }
        if let mount, let path = volume?.path(of: node) { mount.keepError(path) }
        state.withLock { $0.jobs[node.number]?.owesError = false }
    }

    /// The clock thread. It answers callers whose deadline has passed.
    private func watch() {
        while true {
            let wake = state.withLock { $0.wake }
            let isStopping = state.wait(on: hurried, until: wake == .max ? nil : wake) { state -> Bool? in
                if state.isStopping { return true }
                return state.wake < wake ? false : nil
            }
            if isStopping == true { return }
            let late = state.withLock { $0.takeLate(monotonicNanoseconds()) }
            finished.broadcast()
            for waiter in late { waiter.then(false) }
        }
    }
}

extension Flusher.Job {
    /// Whether the job has nothing left to do.
    fileprivate var isOver: Bool { !isQueued && !isRunning && !isClosing && waiting.isEmpty }

    /// Begins a pass for all waiting callers.
    fileprivate mutating func begin() {
        isQueued = false
        isRunning = true
        isRefused = false
        served = waiting
        waiting = []
    }
}

extension Flusher.State {
    /// Queues a job that has waiting callers, unless it is already queued or running.
    fileprivate mutating func queueIfNeeded(_ number: UInt64) {
        guard let job = jobs[number], !job.waiting.isEmpty, !job.isQueued, !job.isRunning else { return }
        jobs[number]?.isQueued = true
        queue.append(number)
    }

    /// Ends a pass. Returns the callers to answer, whether no page was refused, and whether the caller must close the left
    /// descriptor.
    fileprivate mutating func passed(
        _ number: UInt64, leaving file: HostFile?
    ) -> (served: [Flusher.Waiter], isFlushed: Bool, isCloser: Bool) {
        guard var job = jobs[number] else { return ([], false, false) }
        let result = (served: job.served, isFlushed: !job.isRefused, isCloser: file != nil && !job.isClosing)
        job.served = []
        job.isRunning = false
        if let file {
            job.toClose.append(file)
            job.isClosing = true
        }
        jobs[number] = job
        queueIfNeeded(number)
        removeIfOver(number)
        return result
    }

    fileprivate mutating func removeIfOver(_ number: UInt64) {
        if jobs[number]?.isOver == true { jobs[number] = nil }
    }

    /// Removes and returns callers whose deadline has passed at `now`, and sets when to look again.
    fileprivate mutating func takeLate(_ now: UInt64) -> [Flusher.Waiter] {
        var late: [Flusher.Waiter] = []
        wake = .max
        for (number, job) in jobs {
            let waiters = job.waiting + job.served
            late += waiters.filter { $0.deadline <= now }
            wake = min(wake, waiters.map(\.deadline).filter { $0 > now }.min() ?? .max)
            jobs[number]?.waiting.removeAll { $0.deadline <= now }
            jobs[number]?.served.removeAll { $0.deadline <= now }
            removeIfOver(number)
        }
        return late
    }
}
