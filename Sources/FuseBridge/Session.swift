// One mount: creates it, serves it with worker threads, and ends it.
// libfuse and pthread give the pointers unwrapped here in every case.
// swift-format-ignore-file: NeverForceUnwrap

internal import CFuse3
internal import CLibrary
internal import CLinuxShim
internal import HostSystem
internal import Synchronization

/// The reasons why a mount could not be made.
package enum SessionError: Error, Equatable {
    /// libfuse or the kernel refused the options or the mount. libfuse has written the reason to stderr.
    case mountRefused(errno: Int32)
    /// The kernel's first request did not get the right answer.
    case handshakeFailed
    /// No thread or buffer could be made.
    case noResources(errno: Int32)
}

/// A mount and the threads that serve it.
///
/// Order of calls: `init`, `mount`, `start`, then `wait` until the mount has ended, `close`.
@safe package final class Session: @unchecked Sendable {
    /// The file system that answers the requests.
    let fileSystem: any FileSystem
    /// Takes a line for each request. Nil if nothing is traced.
    let trace: RequestTrace?
    /// Written by `mount` only, before any worker runs.
    var patch = InitPatch()
    private let plan: RingPlan?
    /// The queues of io_uring. Changes only before any worker runs, and in `start`.
    private(set) var rings: Rings?
    /// How long the first request over the rings may take, in nanoseconds. If none comes the kernel holds them back.
    var ringPatience: UInt64 = 30_000_000_000
    /// How requests come. Known after `start`.
    package private(set) var transport = Transport.device
    private var pointer: OpaquePointer?
    private var threads: [BackgroundThread] = []
    /// Raised to ask the workers to wipe their buffers.
    private let wipeCount = Atomic<UInt64>(0)
    private let hasLeft = Atomic(false)
    private struct Workers: Sendable {
        /// For each worker that runs, the count up to which it has wiped.
        var wiped: [pthread_t: UInt64] = [:]
        var begun = 0
        /// Workers that found no memory, and have ended.
        var failed = 0
        var unlockedBuffers = 0
    }
    private let workers = Lock(Workers())
    private let begun = Condition()
    /// The most bytes of one READ or WRITE. Changes only before `start`.
    var dataCapacity: Int
    /// Where it is mounted; empty before that.
    package private(set) var mountPoint = ""
    /// The number of workers with a buffer that could not be locked against swapping.
    package var unlockedBuffers: Int { workers.withLock { $0.unlockedBuffers } }

    /// The name in a CREATE of a file without a name. No file can have it.
    package static let noName: StaticString = "/"
    /// A flag of SETXATTR of an access ACL, beside those of setxattr(2): the caller does not belong to the object's group.
    package static let clearsSetGroup: Int32 = 1 << 30

    /// A session of `fileSystem`, not mounted yet.
    /// - Parameter plan: for io_uring, if the kernel has it; nil: /dev/fuse alone.
    package init(_ fileSystem: any FileSystem, trace: RequestTrace? = nil, over plan: RingPlan? = nil) {
        self.fileSystem = fileSystem
        self.trace = trace
        self.plan = plan
        dataCapacity = min(max(Int(fileSystem.connection.maximumWrite), 1 << 16), WorkerBuffer.largestData)
    }

    /// Mounts at `mountPoint` (an absolute path) and answers the kernel's first request.
    /// - Parameters:
    ///   - source: the first field of the mount in the kernel's table, any bytes but zero.
    ///   - options: as for `-o`, one per element. A `\` escapes a comma or backslash in a value.
    package func mount(at mountPoint: String, source: [UInt8], options: [String]) throws(SessionError) {
        precondition(unsafe pointer == nil, "mounted twice")
        guard let buffer = WorkerBuffer(dataCapacity: WorkerBuffer.largestData) else {
            throw .noResources(errno: ENOMEM)
        }
        buffer.bind()
        var arguments = unsafe fuse_args()
        let words = ["protectfs"] + options.flatMap { ["-o", $0] } + ["-o"]
        for word in words.map({ Array($0.utf8) }) + [Self.sourceOption(source)] {
            let text = (word + [0]).map { CChar(bitPattern: $0) }
            unsafe fuse_opt_add_arg(&arguments, text)
        }
        defer { unsafe fuse_opt_free_args(&arguments) }
        var operations = makeOperations()
        unsafe operations.`init` = { userdata, connection in
            let session = unsafe Unmanaged<Session>.fromOpaque(userdata!).takeUnretainedValue()
            unsafe session.fileSystem.connection.apply(to: &connection!.pointee)
        }
        let me = unsafe Unmanaged.passUnretained(self).toOpaque()
        guard
            let session = unsafe pfs_fuse_session_new(
                &arguments, &operations, MemoryLayout<fuse_lowlevel_ops>.size, me)
        else { throw .mountRefused(errno: EINVAL) }
        errno = 0
        guard unsafe fuse_session_mount(session, mountPoint) == 0 else {
            let reason = errno
            unsafe fuse_session_destroy(session)
            throw .mountRefused(errno: reason)
        }
        unsafe pointer = session
        self.mountPoint = mountPoint
        patch.kernelChecksPermissions = options.contains("default_permissions")
        // Nothing is promised that this process may not do.
        patch.promisesRings = plan != nil && Ring.canBeMade
        var io = makeCustomIO()
        guard unsafe fuse_session_custom_io(session, &io, fuse_session_fd(session)) == 0,
            unsafe serveInit(session, buffer)
        else {
            unsafe fuse_session_unmount(session)
            unsafe fuse_session_destroy(session)
            unsafe pointer = nil
            throw .handshakeFailed
        }
    }

    /// The word for libfuse that names the source. A comma in it must not begin another option.
    static func sourceOption(_ source: [UInt8]) -> [UInt8] {
        let (comma, backslash) = (UInt8(ascii: ","), UInt8(ascii: "\\"))
        return Array("fsname=".utf8) + source.flatMap { [comma, backslash].contains($0) ? [backslash, $0] : [$0] }
    }

    /// What a mount over io_uring has for FORGET and INTERRUPT.
    private static let deviceWorkers = 2

    /// Starts `count` worker threads, or those of io_uring.
    package func start(workers count: Int) throws(SessionError) {
        installWakeSignal()
        var count = count
        if patch.hasPromisedRings, let plan {
            let rings = Rings(plan)
            self.rings = rings
            if try startRings(rings) {
                transport = .ring
                count = min(count, Self.deviceWorkers)
            } else {
                self.rings = nil
            }
        }
        for _ in 0..<count {
            let thread = BackgroundThread(name: "protectfs", receiving: wakeSignal) { [self] in work() }
            guard let thread else {
                if threads.isEmpty { throw .noResources(errno: EAGAIN) }
                warn("only \(threads.count) of \(count) workers could be started")
                break
            }
            threads.append(thread)
        }
        // Waits so that `unlockedBuffers` is known. If a worker finds no memory, the others do its work.
        let wanted = threads.count
        let working = workers.wait(on: begun) { $0.begun + $0.failed >= wanted ? $0.begun : nil } ?? 0
        guard working < wanted else { return }
        // No thread would ever answer a request, so the mount must not stay.
        guard working > 0 else {
            wait()
            throw .noResources(errno: ENOMEM)
        }
        warn("only \(working) of \(count) workers found memory")
    }

    /// Returns when the mount has ended (unmounted, or its connection aborted) and every worker with it.
    package func wait() {
        for thread in threads { thread.join() }
        threads = []
        rings?.join()
    }

    /// Makes the workers end although the mount exists. `close` then closes `/dev/fuse`, which ends the connection.
    package func leave() {
        hasLeft.store(true, ordering: .relaxed)
        endWorkers()
    }

    /// Makes all workers end, and returns when they have.
    func endWorkers() {
        guard let session = unsafe pointer else { return }
        unsafe fuse_session_exit(session)
        wakeUntilGone()
    }

    /// Wakes the workers, which have a reason to end, until none is left.
    func wakeUntilGone() {
        // A worker between its look at the session and its read(2) misses the signal, so the signal is sent again.
        while true {
            let isDone = workers.withLock { workers in
                for thread in workers.wiped.keys { pthread_kill(thread, wakeSignal) }
                return workers.wiped.isEmpty
            }
            if isDone { return }
            usleep(500)
        }
    }

    /// Frees libfuse's memory, after `wait`. Lazily unmounts a mount that still exists.
    package func close() {
        precondition(threads.isEmpty, "workers still run")
        guard let session = unsafe pointer else { return }
        // After `leave` another mount may be at the path.
        if !hasLeft.load(ordering: .relaxed) { unsafe fuse_session_unmount(session) }
        unsafe fuse_session_destroy(session)
        unsafe pointer = nil
    }

    deinit { close() }

    /// Whether the kernel lets direct-I/O handles be mapped shared (Linux 6.6).
    package var allowsDirectMapping: Bool { patch.taken2 & 1 << 4 != 0 }
    /// Whether the daemon clears suid, sgid and capabilities itself.
    package var clearsPrivileges: Bool { patch.taken & 1 << 28 != 0 }

    /// Drops the kernel's cached pages and attributes of `node`. The kernel first writes back dirty pages, and this blocks until
    /// those WRITE requests are answered. Never call it from a request's handler, or with a lock that a handler needs.
    /// - Returns: 0, or an errno (ENOENT: the kernel does not know the inode).
    @discardableResult
    package func invalidate(node: NodeID) -> Int32 {
        guard let session = unsafe pointer else { return ENOTCONN }
        return unsafe -fuse_lowlevel_notify_inval_inode(session, node, 0, 0)
    }

    /// The same for the pages that hold `count` bytes at `offset`.
    @discardableResult
    package func invalidate(node: NodeID, at offset: UInt64, count: Int) -> Int32 {
        guard let session = unsafe pointer else { return ENOTCONN }
        return unsafe -fuse_lowlevel_notify_inval_inode(session, node, off_t(clamping: offset), off_t(count))
    }

    /// Drops the kernel's cached attributes of `node`, but not its pages.
    @discardableResult
    package func invalidateAttributes(node: NodeID) -> Int32 {
        guard let session = unsafe pointer else { return ENOTCONN }
        return unsafe -fuse_lowlevel_notify_inval_inode(session, node, -1, 0)
    }

    /// Drops the kernel's knowledge of a name. It takes the directory's lock in the kernel, so the same rules apply.
    @discardableResult
    package func invalidateEntry(parent: NodeID, name: [UInt8]) -> Int32 {
        guard let session = unsafe pointer else { return ENOTCONN }
        return unsafe name.withUnsafeBytes { bytes in
            let start = unsafe bytes.baseAddress?.assumingMemoryBound(to: CChar.self)
            return unsafe -fuse_lowlevel_notify_inval_entry(session, parent, start, bytes.count)
        }
    }

    /// Asks the workers to wipe the data of earlier requests from their buffers, each between two of its requests.
    package func askForWipe() {
        wipeCount.add(1, ordering: .releasing)
    }

    /// The same, but wakes idle workers and waits for all. False if `deadline` (CLOCK_MONOTONIC, ns) passes first. Do not call
    /// it from a worker.
    package func wipeBuffers(until deadline: UInt64) -> Bool {
        let wanted = wipeCount.add(1, ordering: .releasing).newValue
        while true {
            // A worker cannot end while this lock is held. A worker between its look at the count and its read(2) misses the
            // signal, so the signal is sent again until all have wiped.
            let isDone = workers.withLock { workers in
                let waiting = workers.wiped.filter { $0.value < wanted }
                for thread in waiting.keys { pthread_kill(thread, wakeSignal) }
                return waiting.isEmpty
            }
            if isDone { return true }
            if monotonicNanoseconds() >= deadline { return false }
            usleep(500)
        }
    }

    /// Answers the kernel's first request. False if that failed.
    private func serveInit(_ session: OpaquePointer, _ buffer: borrowing WorkerBuffer) -> Bool {
        while !patch.isDone {
            if unsafe !serveOne(session, buffer) { return false }
        }
        return true
    }

    /// Receives and handles one request, or is woken. False if the mount has ended.
    private func serveOne(_ session: OpaquePointer, _ buffer: borrowing WorkerBuffer) -> Bool {
        var request = unsafe fuse_buf()
        unsafe request.mem = buffer.base
        let count = unsafe fuse_session_receive_buf(session, &request)
        if count == -EINTR { return true }
        if count <= 0 { return false }
        unsafe fuse_session_process_buf(session, &request)
        return true
    }

    /// Has libfuse handle a request that is not from /dev/fuse.
    func process(_ bytes: UnsafeMutableRawBufferPointer) {
        guard let session = unsafe pointer else { return }
        var request = unsafe fuse_buf()
        unsafe request.mem = bytes.baseAddress
        unsafe request.size = unsafe adapt(bytes)
        unsafe fuse_session_process_buf(session, &request)
    }

    /// The descriptor of /dev/fuse.
    var deviceNumber: Int32? { unsafe pointer.map { unsafe fuse_session_fd($0) } }

    private func work() {
        guard let session = unsafe pointer, let buffer = WorkerBuffer(dataCapacity: dataCapacity) else {
            workers.withLock { $0.failed += 1 }
            begun.broadcast()
            return
        }
        buffer.bind()
        work(buffer, isLocked: buffer.isLocked) {
            workers.withLock { $0.begun += 1 }
            begun.broadcast()
        } serve: {
            unsafe serveOne(session, buffer)
        }
    }

    /// Serves until the session has ended or `serve` returns false, and wipes the buffer when that is asked for.
    func work(_ buffer: borrowing WorkerBuffer, isLocked: Bool, begun: () -> Void, serve: () -> Bool) {
        guard let session = unsafe pointer else { return }
        let me = pthread_self()
        var done = wipeCount.load(ordering: .acquiring)
        workers.withLock { workers in
            if !isLocked { workers.unlockedBuffers += 1 }
            workers.wiped[me] = done
        }
        begun()
        // A worker that has ended gets no more signals, because another thread may have its number.
        defer { _ = workers.withLock { $0.wiped.removeValue(forKey: me) } }
        while unsafe fuse_session_exited(session) == 0 {
            if !serve() { break }
            let wanted = wipeCount.load(ordering: .acquiring)
            guard wanted != done else { continue }
            buffer.wipe()
            done = wanted
            workers.withLock { $0.wiped[me] = wanted }
        }
    }
}

/// Interrupts a worker that waits for requests. Nothing else sends this signal.
let wakeSignal = SIGURG

/// The handler does nothing. A signal without a handler, or with one that restarts read(2), would wake no worker.
private func installWakeSignal() {
    pfs_handle_signal(wakeSignal) { _ in }
}

extension RequestedCapabilities {
    /// Asks for the wishes that the kernel offers, and for nothing that libfuse would add itself.
    func apply(to connection: inout fuse_conn_info) {
        var want =
            FUSE_CAP_ASYNC_READ | FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_EXPORT_SUPPORT
            | FUSE_CAP_IOCTL_DIR
        if listedAttributes { want |= FUSE_CAP_READDIRPLUS }
        if listedAttributes, choosesListing { want |= FUSE_CAP_READDIRPLUS_AUTO }
        if writeBackCache { want |= FUSE_CAP_WRITEBACK_CACHE }
        if asynchronousDirectIO { want |= FUSE_CAP_ASYNC_DIO }
        want |= explicitInvalidation ? FUSE_CAP_EXPLICIT_INVAL_DATA : FUSE_CAP_AUTO_INVAL_DATA
        if cacheSymlinks { want |= FUSE_CAP_CACHE_SYMLINKS }
        if noOpendir { want |= FUSE_CAP_NO_OPENDIR_SUPPORT }
        if remoteLocks { want |= FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS }
        // Only taken together. Without DONT_MASK the kernel applies the umask even if there is a default ACL.
        let lists = FUSE_CAP_POSIX_ACL | FUSE_CAP_DONT_MASK
        if accessControlLists, connection.capable & UInt32(lists) == UInt32(lists) { want |= lists }
        connection.want = connection.capable & UInt32(want)
        connection.max_write = min(connection.max_write, max(maximumWrite, 1 << 16))
        connection.max_background = maximumBackground
        connection.congestion_threshold = maximumBackground * 3 / 4
        connection.time_gran = 1
    }
}
