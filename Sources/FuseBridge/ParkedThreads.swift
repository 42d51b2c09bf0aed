// Threads beside the workers, for requests that were parked until their file was free: each with a buffer like a worker's.

internal import Glibc
internal import HostSystem
internal import Synchronization

/// Does parked work in the order in which it became ready. What a job leaves in the buffer is wiped before the next one, so a
/// lock of the volume has nothing to ask of these threads.
public final class ParkedThreads: Sendable {
    /// Work with a buffer that is lent for it; what it gives are the bytes of data that may stand in there.
    public typealias Job = @Sendable (inout MutableSpan<UInt8>) -> Int

    private struct State {
        var jobs: [Job] = []
        var isStopping = false
    }
    private let state = Lock(State())
    private let changed = Condition()
    private let threads: Lock<[BackgroundThread]>
    /// Threads that have a buffer, or are about to.
    private let alive = Atomic<Int>(0)

    /// Starts `count` threads with buffers for `dataCapacity` bytes of data.
    public init(count: Int, dataCapacity: Int) {
        threads = Lock([])
        for number in 0..<count {
            let thread = BackgroundThread(name: "pfs-parked-\(number)") { [self] in run(dataCapacity) }
            guard let thread else { break }
            threads.withLock { $0.append(thread) }
            alive.add(1, ordering: .relaxed)
        }
    }

    /// Whether there is anybody to do what is added.
    public var canWork: Bool { alive.load(ordering: .relaxed) > 0 }

    /// Queues `job`; it is done in every case, unless no thread ever ran.
    public func add(_ job: @escaping Job) {
        state.withLock { $0.jobs.append(job) }
        changed.broadcast()
    }

    /// Returns when everything that was added is done. Once; nothing may be added afterwards.
    public func stop() {
        state.withLock { $0.isStopping = true }
        changed.broadcast()
        // A thread holds this object, by its body: it must not be held in turn.
        let ending = threads.withLock { threads in
            defer { threads = [] }
            return threads
        }
        for thread in ending { thread.join() }
        // Where no thread found memory these are dropped, which answers them.
        state.withLock { $0.jobs = [] }
    }

    private func run(_ dataCapacity: Int) {
        guard let buffer = WorkerBuffer(dataCapacity: dataCapacity) else {
            alive.subtract(1, ordering: .relaxed)
            return
        }
        buffer.bind()
        while let job = next() {
            // Where the workers' answers stand, too.
            var bytes = unsafe MutableSpan<UInt8>(
                _unsafeStart: WorkerBuffer.current + WorkerBuffer.requestCapacity,
                byteCount: dataCapacity + WorkerBuffer.slack)
            let used = job(&bytes)
            wipeRequestData(min(used, dataCapacity))
        }
    }

    private func next() -> Job? {
        let taken = state.wait(on: changed) { state -> Job?? in
            guard !state.jobs.isEmpty else { return state.isStopping ? .some(nil) : nil }
            return .some(state.jobs.removeFirst())
        }
        return taken ?? nil
    }
}
