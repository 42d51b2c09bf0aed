// The number of workers and the size of their requests, as the limit of locked memory allows.

internal import FileContents
internal import FuseBridge
internal import SodiumKit
internal import Synchronization

/// Requests hold plaintext, so their buffers are locked: 10 of 1 MiB, or 4 of 256 KiB if little memory can be locked.
package struct WorkerLimits: Sendable, Equatable {
    /// The least memory that a mount locks: 4 request buffers, the pools of buffers, and keys of a few hundred open files.
    package static let leastLockedMemory: UInt64 = 5 << 20

    var workers: Int
    /// The most bytes of one READ or WRITE.
    var requestSize: UInt32

    /// Derived from the number of large buffers that the pool can make: 16 without a limit, 4 under the usual 8 MiB.
    init(largeBuffers: Int) {
        let isRoomy = largeBuffers >= 12
        workers = isRoomy ? 10 : 4
        requestSize = isRoomy ? 1 << 20 : 1 << 18
    }

    /// The most threads of a mount that nothing hinders: workers, those of parked reads, and one each for the helper, the
    /// evictor, the timer, mending, pages to drop after direct writes, what the kernel is told late, and waits for locks to end.
    package static var threads: Int { ofThisProcess().workers + 10 }

    static func ofThisProcess() -> WorkerLimits {
        WorkerLimits(largeBuffers: BufferPool.shared.largeCount)
    }

    /// The numbers for io_uring; nil if the mount uses /dev/fuse. Its buffers may lock what a mount does not need.
    ///
    /// With `-o shared` a request can wait for another machine as long as a program likes. Over io_uring it would keep a place in
    /// its queue, so such mounts use /dev/fuse.
    func ringPlan(_ options: MountOptions) -> RingPlan? {
        guard options.usesRings, !options.volume.isShared, RingPlan.kernelAllows == true,
            let processors = RingPlan.possibleProcessors
        else { return nil }
        let lockable = lockableMemory()
        return RingPlan(
            processors: processors, workers: workers, dataCapacity: Int(requestSize),
            lockable: lockable == .max ? .max : lockable - min(lockable, Self.leastLockedMemory))
    }

    /// The kernel's switch for io_uring, if there is one and it is off.
    package static var ringSwitchThatIsOff: String? {
        RingPlan.kernelAllows == false ? RingPlan.kernelSwitch : nil
    }

    /// The limits over io_uring: what waits must leave a worker in each queue.
    func over(_ plan: RingPlan?) -> WorkerLimits {
        guard let plan else { return self }
        var limits = self
        limits.workers = plan.workersPerQueue
        limits.requestSize = UInt32(plan.dataCapacity)
        return limits
    }
}

/// Handlers that wait for the kernel or delay a program. There are never so many that no worker is left.
final class WaitLimit: Sendable {
    private let most: Int
    private let waiting = Atomic<Int>(0)

    init(_ limits: WorkerLimits) { most = max(1, limits.workers / 3) }

    /// Runs `body` unless too many workers wait already.
    func run(_ body: () -> Void) {
        let (_, now) = waiting.add(1, ordering: .relaxed)
        defer { waiting.subtract(1, ordering: .relaxed) }
        if now <= most { body() }
    }
}
