// A session's workers over io_uring. FORGET, INTERRUPT and notifications stay on /dev/fuse.

internal import CFuse3
internal import CLibrary
internal import CLinuxShim
internal import HostSystem

extension Session {
    /// Starts the first worker of each queue. True if the kernel has switched over. If false, it sends all requests to /dev/fuse,
    /// and no thread has stayed.
    ///
    /// The answer to INIT has promised rings, and the kernel holds all requests back until each queue has an entry. It takes the
    /// promise back when an entry is refused (`fuse_uring_cmd`, Linux 6.14), and before INIT it takes none. Once it has switched
    /// over there is no way back, so the queues get their entries in order: which one was refused says whether it has.
    func startRings(_ rings: Rings) throws(SessionError) -> Bool {
        for (index, queue) in rings.queues.enumerated() where queue.begin() {
            let error = startWorker(on: queue, of: rings, isFirst: true) ? rings.result(of: index) : EAGAIN
            // The kernel has fewer queues than it said, and all of them have an entry.
            if error == EINVAL, index > 0 { return true }
            if error != 0 { return try giveUp(rings) }
        }
        return isServed(by: rings) ? true : try giveUp(rings)
    }

    /// Whether a request comes over the rings, or can be answered without one: else the kernel has more queues than it said.
    private func isServed(by rings: Rings) -> Bool {
        let deadline = monotonicNanoseconds() + ringPatience
        let place = mountPoint
        _ = BackgroundThread(name: "pfs-stir", stackSize: 64 << 10) {
            var status = statvfs()
            unsafe _ = statvfs(place, &status)
            rings.noteRequest()
        }
        while !rings.hasRequest {
            if monotonicNanoseconds() >= deadline { return false }
            usleep(100)
        }
        return true
    }

    private func giveUp(_ rings: Rings) throws(SessionError) -> Bool {
        rings.withdraw()
        wakeUntilGone()
        rings.join()
        guard let device = deviceNumber, takeBackPromise(device) else { throw .noResources(errno: ENOMEM) }
        return false
    }

    /// Has the kernel refuse an entry: that of a queue that cannot exist.
    private func takeBackPromise(_ device: Int32) -> Bool {
        guard var ring = Ring(), let entry = RingEntry(dataCapacity: 0) else { return false }
        ring.queueRegistration(entry, device: device, queue: UInt16.max)
        ring.submit()
        return ring.completion() ?? 0 < 0
    }

    private func startWorker(on queue: RingQueue, of rings: Rings, isFirst: Bool = false) -> Bool {
        let thread = BackgroundThread(name: "protectfs-\(queue.number)") { [self] in
            workRing(rings, queue, isFirst: isFirst)
        }
        guard let thread else {
            queue.failed()
            return false
        }
        rings.add(thread)
        return true
    }

    /// Makes a request that comes from the queue's processor. The kernel gives a request that found no entry only to an entry that
    /// answers another one (`fuse_uring_commit_fetch`, Linux 6.18), and not to a new one. Nothing waits for this thread.
    private func stir(_ queue: RingQueue) {
        let (number, place) = (UInt32(queue.number), mountPoint)
        _ = BackgroundThread(name: "pfs-stir", stackSize: 64 << 10) {
            _ = pfs_stay_on(number)
            var status = statvfs()
            unsafe _ = statvfs(place, &status)
        }
    }

    private func workRing(_ rings: Rings, _ queue: RingQueue, isFirst: Bool) {
        let locks = queue.mayLock
        guard let device = deviceNumber, let buffer = WorkerBuffer(dataCapacity: dataCapacity, locks: locks),
            let worker = RingWorker(queue, device: device, dataCapacity: dataCapacity, locks: locks)
        else {
            queue.failed()
            return rings.report(ENOMEM)
        }
        buffer.bind()
        rings.add(worker)
        defer {
            worker.end()
            rings.remove(worker)
        }
        let error = worker.register()
        guard error == 0 else {
            queue.failed()
            return rings.report(error)
        }
        if !isFirst { stir(queue) }
        var use = RingUse.waiting
        work(buffer, isLocked: buffer.isLocked && worker.isLocked) {
            if isFirst { rings.report(0) }
        } serve: { [self] in
            serveOne(worker, of: rings, buffer, &use)
        }
        guard !rings.isWithdrawn else { return }
        // The connection has ended, or the kernel does not take this entry back, and a program would wait for ever.
        worker.end()
        endWorkers()
    }

    /// What the worker does, as its queue counts it.
    private enum RingUse { case waiting, busy, parked }

    /// Receives and handles one request, or is woken. False if the mount has ended.
    private func serveOne(
        _ worker: RingWorker, of rings: Rings, _ buffer: borrowing WorkerBuffer, _ use: inout RingUse
    ) -> Bool {
        let queue = worker.queue
        if worker.isParked {
            if use == .busy {
                use = .parked
                if queue.parked() { _ = startWorker(on: queue, of: rings) }
            }
            worker.waitForAnswer()
            return true
        }
        if use != .waiting { queue.freed(wasParked: use == .parked) }
        use = .waiting
        switch worker.wait() {
        case .ended: return false
        case .woken: return !rings.isWithdrawn
        case .request: break
        }
        use = .busy
        rings.noteRequest()
        if queue.took() { _ = startWorker(on: queue, of: rings) }
        let room = WorkerBuffer.requestCapacity + dataCapacity
        guard let count = unsafe worker.takeRequest(into: buffer.base, room: room) else { return true }
        unsafe process(UnsafeMutableRawBufferPointer(start: buffer.base, count: count))
        return true
    }
}
