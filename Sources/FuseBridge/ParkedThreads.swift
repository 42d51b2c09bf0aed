// Threads for requests that were parked until their file was free. Each has a buffer like a worker's.

internal import CLibrary
internal import HostSystem
internal import Synchronization

/// Does parked work in the order in which it became ready. Buffers are wiped before the next job, so a lock of the volume need
/// not wait for these threads.
package final class ParkedThreads: Sendable {
    /// A job that borrows a buffer. It returns how many bytes of data the buffer may contain.
    package typealias Job = @Sendable (inout MutableSpan<UInt8>) -> Int

    private struct State {
        var jobs: [Job] = []
        var isStopping = false
    }
    private let state = Lock(State())
    private let changed = Condition()
    private let threads: Lock<[BackgroundThread]>
    /// Threads that have a buffer, or are about to make one.
    private let alive = Atomic<Int>(0)

    /// Starts `count` threads with buffers for `dataCapacity` bytes of data.
    package init(count: Int, dataCapacity: Int) {
        threads = Lock([])
        for number in 0..<count {
            let thread = BackgroundThread(name: "pfs-parked-\(number)") { [self] in run(dataCapacity) }
            guard let thread else { break }
            threads.withLock { $0.append(thread) }
            alive.add(1, ordering: .relaxed)
        }
    }

    /// Whether a thread will do the added jobs.
    package var canWork: Bool { alive.load(ordering: .relaxed) > 0 }

    /// Queues `job`. A thread does it, unless no thread could start.
    package func add(_ job: @escaping Job) {
        state.withLock { $0.jobs.append(job) }
        changed.broadcast()
    }

    /// Returns when all added jobs are done. Call it once, and add nothing afterwards.
    package func stop() {
        state.withLock { $0.isStopping = true }
        changed.broadcast()
        // A thread's body holds this object, so this object must not hold the thread.
        let ending = threads.withLock { threads in
            defer { threads = [] }
            return threads
        }
        for thread in ending { thread.join() }
        // If no thread found memory, these are dropped, which answers them.
        state.withLock { $0.jobs = [] }
    }

    private func run(_ dataCapacity: Int) {
        guard let buffer = WorkerBuffer(dataCapacity: dataCapacity) else {
            alive.subtract(1, ordering: .relaxed)
            return
        }
        buffer.bind()
        while let job = next() {
            // The same offset as in the workers' buffers.
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
