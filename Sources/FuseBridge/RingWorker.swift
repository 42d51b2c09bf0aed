// One entry of a queue of io_uring, and the thread that serves it. An entry has one request at a time.
// libfuse and pthread give the pointers unwrapped here in every case.
// swift-format-ignore-file: NeverForceUnwrap

internal import CLibrary
internal import CLinuxShim
internal import HostSystem
internal import Synchronization

/// A worker that gets its requests from a queue of io_uring.
///
/// Only its own thread talks to the ring: the kernel hands a request over in the thread that has asked for it, and takes back
/// the entries of a thread that ends. An answer that another thread gives is put into the entry, and the worker is woken, which
/// waits for it. So a parked request keeps a worker and its entry (`RingQueue` starts others), and costs no other worker
/// anything.
@safe final class RingWorker: @unchecked Sendable {
    /// Where the entry's request is.
    enum Step: Equatable {
        /// The kernel has the entry.
        case waiting
        /// The file system has the request.
        case working
        /// An answer of this many bytes is in the entry.
        case answered(Int)
        /// The worker has ended.
        case ended
    }

    let queue: RingQueue
    private let device: Int32
    /// Only the worker's thread uses it.
    private var ring: Ring
    /// The memory of the request changes hands with `step`.
    private let entry: RingEntry
    private let step = Lock(Step.waiting)
    private let changed = Condition()
    /// The number of the request that the file system has; 0 if it has none.
    private let unique = Atomic<UInt64>(0)
    /// Whether the request's answer has a program's data. Changes with `unique`.
    private let hasData = Atomic(false)
    private let thread = pthread_self()
    /// The thread's signals while it waits.
    private let mask: sigset_t

    /// An entry and a ring of the calling thread. Nil if there is no memory.
    init?(_ queue: RingQueue, device: Int32, dataCapacity: Int, locks: Bool) {
        guard let entry = RingEntry(dataCapacity: dataCapacity, locks: locks), let ring = Ring() else { return nil }
        self.queue = queue
        self.device = device
        self.entry = entry
        self.ring = ring
        var mask = sigset_t()
        unsafe pthread_sigmask(SIG_BLOCK, nil, &mask)
        unsafe sigdelset(&mask, wakeSignal)
        self.mask = mask
        unsafe pthread_setspecific(currentWorker, Unmanaged.passUnretained(self).toOpaque())
    }

    var isLocked: Bool { entry.isLocked }

    /// The worker of the calling thread. Valid only during a request.
    static var current: RingWorker? {
        guard let pointer = unsafe pthread_getspecific(currentWorker) else { return nil }
        return unsafe Unmanaged<RingWorker>.fromOpaque(pointer).takeUnretainedValue()
    }

    /// Gives the entry to the kernel. An errno if the kernel refuses it, after which it uses no ring for this mount unless it does
    /// so already.
    func register() -> Int32 {
        // The thread runs on any processor. On its queue's alone it would take turns with the program that the requests come from,
        // also where the program does not wait for them: read-ahead, write-back, RELEASE.
        ring.queueRegistration(entry, device: device, queue: queue.number)
        ring.submit()
        return -(ring.completion() ?? 0)
    }

    /// Why `wait` has returned.
    enum Event: Equatable { case request, woken, ended }

    /// Gives the kernel an answer that is there, and waits for a request.
    func wait() -> Event {
        if isAnswered { commit() }
        guard let result = ring.wait(mask) else { return .woken }
        return result == 0 ? .request : .ended
    }

    /// Moves the request into a buffer; its length, or nil if it is malformed, which is answered.
    func takeRequest(into place: UnsafeMutableRawPointer, room: Int) -> Int? {
        guard let count = unsafe entry.takeRequest(into: place, room: room) else {
            entry.putError(EIO)
            step.withLock { $0 = .answered(0) }
            return nil
        }
        // READLINK, READ, GETXATTR, LISTXATTR, READDIR, IOCTL, READDIRPLUS.
        hasData.store([5, 15, 22, 23, 28, 39, 44].contains(entry.opcode), ordering: .relaxed)
        step.withLock { $0 = .working }
        unique.store(entry.unique, ordering: .releasing)
        return count
    }

    /// Whether the file system has answered the request.
    var isAnswered: Bool {
        step.withLock { step in
            if case .answered = step { return true }
            return false
        }
    }
    /// Whether the request is parked: the file system will answer it later.
    var isParked: Bool { step.withLock { $0 == .working } }

    /// Waits for an answer from another thread, or for a signal.
    func waitForAnswer() {
        guard isParked else { return }
        var mask = mask
        // The signal is blocked, so one that has come since the look above is still there.
        unsafe _ = sigsuspend(&mask)
    }

    func isAnswering(_ number: UInt64) -> Bool { unique.load(ordering: .acquiring) == number }

    /// Takes an answer from libfuse; its length, or nil if the worker has ended.
    ///
    /// An answer with data has reached the kernel when this returns, as with /dev/fuse: a lock of the volume counts on it, and
    /// handlers then wipe the data. Other answers go with the wait for the next request, in one system call.
    func answer(_ number: UInt64, _ vectors: UnsafeBufferPointer<iovec>) -> Int? {
        let isOwn = pthread_equal(thread, pthread_self()) != 0
        let isUrgent = hasData.load(ordering: .relaxed)
        let length: Int? = step.withLock { step in
            guard step == .working, isAnswering(number), let length = unsafe entry.putAnswer(vectors) else {
                return nil
            }
            step = .answered(length - RingEntry.answerHeader)
            // The thread cannot end meanwhile: it takes this lock for that.
            if !isOwn { pthread_kill(thread, wakeSignal) }
            return length
        }
        guard let length, isUrgent else { return length }
        if isOwn {
            commit()
        } else {
            _ = step.wait(on: changed) { [self] _ in isAnswering(number) ? nil : true }
        }
        return length
    }

    /// Gives the kernel the answer. It has read it when this returns.
    private func commit() {
        let (number, isUrgent) = (entry.commitNumber, hasData.load(ordering: .relaxed))
        var count = 0
        step.withLock { step in
            if case .answered(let bytes) = step { count = bytes }
            step = .waiting
        }
        ring.queueAnswer(device: device, queue: queue.number, number: number)
        if isUrgent {
            ring.submit()
            entry.wipeAnswer(count, to: number)
        }
        release()
    }

    private func release() {
        step.withLock { _ in unique.store(0, ordering: .releasing) }
        changed.broadcast()
    }

    /// No answer reaches the entry from now on. The thread ends after it.
    func end() {
        step.withLock { $0 = .ended }
        release()
        pthread_setspecific(currentWorker, nil)
    }
}

/// Holds the worker of a thread. Made once.
private let currentWorker: pthread_key_t = {
    var key = pthread_key_t()
    unsafe pthread_key_create(&key, nil)
    return key
}()
