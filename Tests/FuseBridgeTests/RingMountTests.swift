// Real mounts over io_uring of a file system in memory. The kernel's switch is on only while one is made.
// The plan that is unwrapped here has no limit of memory, so it is never nil.
// swift-format-ignore-file: NeverForceUnwrap

import Glibc
import HostSystem
import Synchronization
import Testing

@testable import FuseBridge

/// Not in every run: nothing ends a mount whose own process has died in the middle of a call to it, and the switch is the
/// machine's. Mount tests have a guard.
private let mayUseRings =
    unsafe getenv("PROTECTFS_RING_MOUNTS") != nil
    && access("/dev/fuse", R_OK | W_OK) == 0 && access(RingPlan.kernelSwitch, W_OK) == 0

/// Writes the kernel's switch. A mount that has rings keeps them.
private func setSwitch(_ isOn: Bool) {
    let handle = unsafe Glibc.open(RingPlan.kernelSwitch, O_WRONLY | O_CLOEXEC)
    let text: [UInt8] = Array(isOn ? "Y".utf8 : "N".utf8)
    unsafe #expect(write(handle, text, 1) == 1)
    close(handle)
}

private func plan(_ workers: Int = 4) -> RingPlan {
    RingPlan(
        processors: RingPlan.possibleProcessors ?? 1, workers: workers, dataCapacity: 1 << 20, lockable: .max)!
}

/// A mount of `system`, gone when the closure returns.
private func withRings(
    _ system: any FileSystem, _ plan: RingPlan = plan(), patience: UInt64 = 30, keepsSwitch: Bool = false,
    _ body: (String, Session) throws -> Void
) throws {
    var template = Array("/tmp/fusebridge.XXXXXX".utf8CString)
    let path = unsafe String(cString: mkdtemp(&template))
    let session = Session(system, over: plan)
    session.ringPatience = patience * 1_000_000_000
    let wasOn = RingPlan.kernelAllows == true
    if !wasOn { setSwitch(true) }
    defer { unsafe rmdir(path) }
    defer { if !wasOn, keepsSwitch { setSwitch(false) } }
    do {
        defer { if !wasOn, !keepsSwitch { setSwitch(false) } }
        try session.mount(
            at: path, source: Array("memory".utf8), options: ["subtype=bridgetest", "default_permissions"])
    }
    try session.start(workers: 4)
    defer {
        unsafe umount2(path, Int32(MNT_DETACH))
        session.wait()
        session.close()
    }
    try body(path, session)
}

@Suite(.serialized, .enabled(if: mayUseRings, "run-tests --full runs them, as root, on Linux 6.14 and later"))
struct RingMountTests {
    @Test func filesRoundTrip() throws {
        let system = MemoryFileSystem()
        try withRings(system) { path, session in
            #expect(session.transport == .ring)
            let handle = unsafe Glibc.open(path + "/file", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
            let data = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ $0 >> 9) }
            unsafe #expect(pwrite(handle, data, data.count, 0) == data.count)
            #expect(fsync(handle) == 0)
            #expect(session.invalidate(node: 2) == 0)
            #expect((system.state.withLock { $0.files[2]?.data } == data) as Bool)
            var back = [UInt8](repeating: 0, count: data.count)
            unsafe #expect(pread(handle, &back, back.count, 0) == back.count)
            #expect(back == data)
            close(handle)
            for index in 0..<500 { close(unsafe Glibc.open(path + "/name\(index)", O_RDWR | O_CREAT, 0o600)) }
            unsafe #expect(Glibc.access(path + "/none", F_OK) == -1 && errno == ENOENT)
            unsafe #expect(Glibc.mkdir(path + "/directory", 0o700) == -1 && errno == EIO)
            #expect(session.wipeBuffers(until: monotonicNanoseconds() + 5_000_000_000))
        }
    }

    @Test func withoutTheSwitchThereIsTheDevice() throws {
        guard RingPlan.kernelAllows == false else { return }
        var template = Array("/tmp/fusebridge.XXXXXX".utf8CString)
        let path = unsafe String(cString: mkdtemp(&template))
        let session = Session(MemoryFileSystem(), over: plan())
        try session.mount(at: path, source: Array("memory".utf8), options: ["subtype=bridgetest"])
        try session.start(workers: 2)
        #expect(session.transport == .device)
        unsafe #expect(Glibc.access(path + "/none", F_OK) == -1 && errno == ENOENT)
        unsafe umount2(path, Int32(MNT_DETACH))
        session.wait()
        session.close()
        unsafe rmdir(path)
    }

    /// A kernel that has fewer queues than it says has switched over when the next one is refused. After a refusal it looks at its
    /// switch for each answer.
    @Test func tooManyQueuesAreCounted() throws {
        let many = RingPlan(
            processors: (RingPlan.possibleProcessors ?? 1) + 2, workers: 2, dataCapacity: 1 << 20, lockable: .max)!
        try withRings(MemoryFileSystem(), many, keepsSwitch: true) { path, session in
            #expect(session.transport == .ring)
            let handle = unsafe Glibc.open(path + "/file", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
            unsafe #expect(pwrite(handle, [1], 1, 5) == 1)
            close(handle)
        }
    }

    /// Too few queues leave the kernel waiting: the mount works without rings.
    @Test func ringsThatFailLeaveTheDevice() throws {
        let known = RingPlan.possibleProcessors ?? 1
        guard known > 1 else { return }
        let few = RingPlan(
            processors: max(1, known - 1), workers: 2, dataCapacity: 1 << 20, lockable: .max)!
        try withRings(MemoryFileSystem(), few, patience: 1) { path, session in
            #expect(session.transport == .device)
            let handle = unsafe Glibc.open(path + "/file", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
            unsafe #expect(pwrite(handle, [1], 1, 5) == 1)
            close(handle)
        }
    }

    @Test func leavingEndsAllWorkers() throws {
        try withRings(MemoryFileSystem()) { path, session in
            unsafe #expect(Glibc.access(path + "/none", F_OK) == -1 && errno == ENOENT)
            session.leave()
            session.wait()
        }
    }

    /// More requests at once than a queue has workers, all parked, and answered by another thread.
    @Test func parkedRequestsStopNoQueue() throws {
        let parking = Parking()
        try withRings(parking.system(), plan(2)) { path, session in
            let ended = Atomic<Int>(0)
            let threads = (0..<40).compactMap { index in
                BackgroundThread(name: "asks") {
                    var status = stat()
                    unsafe _ = lstat(path + "/parked\(index)", &status)
                    ended.add(errno == ENOENT ? 1 : 1000, ordering: .relaxed)
                }
            }
            let deadline = monotonicNanoseconds() + 20_000_000_000
            while parking.parked.withLock({ $0.count }) < 40, monotonicNanoseconds() < deadline { usleep(1000) }
            #expect(parking.parked.withLock { $0.count } == 40)
            #expect(ended.load(ordering: .relaxed) == 0)
            // Other requests are answered meanwhile, on each processor, and buffers can be wiped.
            for _ in 0..<100 { unsafe #expect(Glibc.access(path + "/now", F_OK) == -1 && errno == ENOENT) }
            #expect(session.wipeBuffers(until: monotonicNanoseconds() + 5_000_000_000))
            parking.answerAll()
            for thread in threads { thread.join() }
            #expect(ended.load(ordering: .relaxed) == 40)
        }
    }

    /// The mount ends although a request is parked; its answer comes too late and harms nothing.
    @Test func theMountEndsWithAParkedRequest() throws {
        let parking = Parking()
        var thread: BackgroundThread?
        try withRings(parking.system()) { path, session in
            thread = BackgroundThread(name: "asks") { unsafe _ = Glibc.access(path + "/parked", F_OK) }
            while parking.parked.withLock({ $0.isEmpty }) { usleep(1000) }
            let entry = try MountTable.entry(at: HostPath(path))
            let device = try #require(entry).deviceNumber
            // The connection's number is the device's minor.
            let abort = unsafe Glibc.open("/sys/fs/fuse/connections/\(device & 0xFF)/abort", O_WRONLY | O_CLOEXEC)
            if abort >= 0 {
                unsafe #expect(write(abort, "1", 1) == 1)
                close(abort)
            } else {
                session.leave()
            }
            session.wait()
            parking.answerAll()
        }
        thread?.join()
    }
}

extension RingMountTests {
    /// INTERRUPT comes through /dev/fuse, and finds the request that came over io_uring.
    @Test func aSignalReachesAParkedRequest() throws {
        let parking = Parking()
        try withRings(parking.system(isInterruptible: true)) { path, _ in
            let child = try ChildProcess.start(
                HostPath("/usr/bin/stat"), [Array("stat".utf8), Array((path + "/parked").utf8)])
            let deadline = monotonicNanoseconds() + 20_000_000_000
            while parking.waiting.withLock({ $0 == nil }), monotonicNanoseconds() < deadline { usleep(1000) }
            kill(child.id, SIGTERM)
            while parking.interrupts.load(ordering: .relaxed) == 0, monotonicNanoseconds() < deadline { usleep(1000) }
            #expect(parking.interrupts.load(ordering: .relaxed) == 1)
            parking.waiting.withLock { $0 }?.take()?.error(EINTR)
            #expect(try child.wait() == .signalled(SIGTERM))
        }
    }
}

/// Replies that were put aside until the test gives them.
private final class Parking: Sendable {
    let parked = Lock<[ParkedReply]>([])
    /// The last one, if signals are to end it.
    let waiting = Lock<WaitingReply?>(nil)
    let interrupts = Atomic<Int>(0)

    /// A file system that parks lookups of names that begin with "parked".
    func system(isInterruptible: Bool = false) -> MemoryFileSystem {
        MemoryFileSystem(park: { [self] reply in
            if isInterruptible {
                let kept = WaitingReply(reply) { [weak self] in _ = self?.interrupts.add(1, ordering: .relaxed) }
                waiting.withLock { $0 = kept }
            } else {
                let kept = ParkedReply(reply)
                parked.withLock { $0.append(kept) }
            }
        })
    }

    func answerAll() {
        let all = parked.withLock { parked in
            defer { parked = [] }
            return parked
        }
        for reply in all { reply.take()?.error(ENOENT) }
    }
}
