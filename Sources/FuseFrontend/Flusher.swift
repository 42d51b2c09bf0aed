// Has the kernel hand over what programs have written and it keeps: for seeks, for the lock, before a new encryption.

internal import BackingStore
internal import FuseBridge
internal import HostSystem
internal import ProtectedVolume

/// Flushes files, each on one of a few threads of its own, so that a file that is stuck holds up no other.
///
/// A file is flushed through the own mount: opened for reading, and sync_file_range(2), which sends requests as large as an
/// fsync does and takes no lock of the inode. While the kernel waits for the answer to a LSEEK it holds that lock; close(2)
/// waits for it on older kernels (6.18 was seen not to), and so comes last, when the answer is given. Before Linux 6.16 sync_file_range(2) does not wait
/// for FUSE's requests to be answered (they were sent from copies of the pages), but close(2) does: there a file counts as
/// flushed after that, and seeks cannot wait for it (`isLockFree`).
///
/// What has no path, or may not be opened, is flushed by the notification that drops its pages: page by page. So is a file
/// of which a write-back was refused: the calls above take the error that the kernel keeps for the writer's close(2).
/// (fsync(2) has a record of its own and says it in any case.) An error that comes about meanwhile is given back.
final class Flusher: Sendable {
    /// Threads that flush, at most: more files than that are stuck together only where the store is, and then all are.
    private static let mostFlushing = 8
    /// Threads at most. Those that close are not counted above: each may wait for a seek that needs a flush first.
    private static let mostThreads = 64
    /// How long a thread waits for a job before it ends.
    private static let idleTime: UInt64 = 5_000_000_000
    /// Whether files are flushed without the inode's lock.
    static let isLockFree = KernelVersion.running.map { $0 >= KernelVersion(6, 16) } ?? false

    fileprivate struct Waiter: Sendable {
        var deadline: UInt64
        var then: @Sendable (Bool) -> Void
    }
    /// A file that is flushed or will be.
    fileprivate struct Job: Sendable {
        let node: Node
        /// Those that asked since the pass in hand began, which may not have seen what they mean: for the next.
        var waiting: [Waiter] = []
        /// Those for whom the pass in hand was begun.
        var served: [Waiter] = []
        var isQueued = false
        var isRunning = false
        /// A page was refused since the pass in hand began.
        var isRefused = false
        /// A page was refused while a descriptor of ours was open: the error has been taken from the writer.
        var owesError = false
        /// A thread closes descriptors of the file; what the next pass leaves is closed by it too.
        var isClosing = false
        var toClose: [HostFile] = []
    }
    fileprivate struct State: Sendable {
        var session: Session?
        var volume: Volume?
        var mount: MountClient?
        /// By node number.
        var jobs: [UInt64: Job] = [:]
        /// Jobs whose turn has not come, in the order in which they came.
        var queue: [UInt64] = []
        /// Files of which a write-back was refused since they were opened, and why at last.
        var refused: [UInt64: Int32] = [:]
        /// By a number that is counted up, as a thread that is started does not know its own yet.
        var threads: [UInt64: BackgroundThread] = [:]
        var started: UInt64 = 0
        /// As requests name them.
        var numbers: Set<Int32> = []
        var idle = 0
        /// Threads that close descriptors.
        var closing = 0
        var clock: BackgroundThread?
        /// When the clock looks next.
        var wake = UInt64.max
        var isStopping = false
    }
    private let state = Lock(State())
    /// A job is queued, or none are taken any more.
    private let changed = Condition()
    /// The clock has to look earlier.
    private let hurried = Condition()
    /// A job is over.
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

    /// The mount has ended, and with it every call on it. Answers all that wait, and returns when the threads are gone.
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
            // Each holds this object, by its body.
            state.threads = [:]
            state.clock = nil
        }
    }

    /// Waits until no file is held open here; at most until `deadline`.
    func settle(until deadline: UInt64) {
        _ = state.wait(on: finished, until: deadline) { $0.jobs.isEmpty ? true : nil }
    }

    /// Whether requests of this thread come from a flush. What it opens is neither read nor written.
    func isOwn(_ process: Int32) -> Bool {
        state.withLock { $0.numbers.contains(process) }
    }

    // MARK: what is known of refusals

    /// A page of the file was refused: the kernel keeps an error for the writer. Before the kernel is told.
    func refused(_ number: UInt64, _ errno: Int32) {
        state.withLock { state in
            state.refused[number] = errno
            state.jobs[number]?.isRefused = true
            state.jobs[number]?.owesError = true
        }
    }

    /// Whether pages of the file were refused since it was opened. What the kernel has of it is then not what we have.
    func hasRefused(_ number: UInt64) -> Bool {
        state.withLock { $0.refused[number] != nil }
    }

    /// What a request of one of these threads to set the file's time is answered (`MountClient.keepError`).
    func owedError(_ number: UInt64) -> Int32? {
        state.withLock { $0.jobs[number]?.owesError == true ? $0.refused[number] : nil }
    }

    /// The file's last handle is gone.
    func closed(_ number: UInt64) {
        state.withLock { $0.refused[number] = nil }
    }

    // MARK: flushing

    /// Has the kernel write back what is dirty of a file, and calls `then`, once and with no lock held: with true when all
    /// that was dirty at the time of this call has reached us; with false when that failed or cannot be known, and at
    /// `deadline` (CLOCK_MONOTONIC) at the latest, whatever hangs.
    ///
    /// Called here at once where nobody may have written; else by another thread, which may do I/O only for true: at the
    /// deadline others wait behind it.
    func flush(_ node: Node, until deadline: UInt64, then: @escaping @Sendable (Bool) -> Void) {
        // What was written to a handle or a mapping is handed over before the kernel gives that up.
        guard node.writableHandles > 0 else { return then(true) }
        let isTaken = state.withLock { state in
            guard !state.isStopping, state.session != nil else { return false }
            if state.clock == nil { state.clock = BackgroundThread(name: "pfs-flush-clock") { [self] in watch() } }
            guard state.clock != nil else { return false }
            state.jobs[node.number, default: Job(node: node)].waiting.append(Waiter(deadline: deadline, then: then))
            state.queueIfNeeded(node.number)
            startThreadIfNeeded(&state)
            guard !state.threads.isEmpty else {
                // The first one could not be made: nobody else waits either.
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

    /// The same for several, waiting until all have been flushed or `deadline` has passed; the numbers of those that were.
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
        // It takes a job as soon as it runs.
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

    /// The next job; nil, and the thread is counted no more, where there is none for a while or the mount has ended.
    private func next(_ id: UInt64) -> UInt64? {
        let taken = state.wait(on: changed, until: monotonicNanoseconds() + Self.idleTime) { state -> UInt64?? in
            if state.isStopping { return .some(nil) }
            guard !state.queue.isEmpty else { return nil }
            state.idle -= 1
            return .some(state.queue.removeFirst())
        }
        if let taken { return taken }
        // Looked for once more, in one step with leaving: a job that came since was left to this thread.
        return state.withLock { state in
            state.idle -= 1
            if state.isStopping { return nil }
            guard state.queue.isEmpty else { return state.queue.removeFirst() }
            // Nobody joins it then.
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

    /// One flush of a file, for those that had asked for it before it began; whether the caller has to close what it leaves.
    ///
    /// A function of its own, after which no reference is left but the one in the job: the last one closes.
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

    /// Whether all that was dirty has reached us or was refused.
    private func handOver(_ node: Node, _ file: HostFile?) -> Bool {
        if let file { return (try? file.writeBack()) != nil }
        // Before 6.16 it waits for the pages that it sends itself, and for none that are on their way.
        guard let session = state.withLock({ $0.session }) else { return false }
        return session.invalidate(node: node.number) == 0 && Self.isLockFree
    }

    /// Closes what passes over the file leave, outside of all locks: it may wait for a seek that another pass will answer.
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

    /// Has the kernel keep the error again that our calls have taken, for the writer's close(2).
    private func giveBackError(_ node: Node) {
        let (volume, mount) = state.withLock { ($0.volume, $0.mount) }
        if let mount, let path = volume?.path(of: node) { mount.keepError(path) }
        state.withLock { $0.jobs[node.number]?.owesError = false }
    }

    /// The clock: answers those whose deadline has passed.
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
    /// Nothing is left to do for it.
    fileprivate var isOver: Bool { !isQueued && !isRunning && !isClosing && waiting.isEmpty }

    /// A pass begins, for all that wait.
    fileprivate mutating func begin() {
        isQueued = false
        isRunning = true
        isRefused = false
        served = waiting
        waiting = []
    }
}

extension Flusher.State {
    /// Puts a job into the queue that has somebody waiting, unless it is there or in hand.
    fileprivate mutating func queueIfNeeded(_ number: UInt64) {
        guard let job = jobs[number], !job.waiting.isEmpty, !job.isQueued, !job.isRunning else { return }
        jobs[number]?.isQueued = true
        queue.append(number)
    }

    /// A pass is over: those to be answered, whether no page was refused, and whether the caller has to close what is left.
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

    /// Takes those out whose deadline has passed at `now`, and sets when to look again.
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
