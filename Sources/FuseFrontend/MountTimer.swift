// The timer of a mount: sweeps and the time of class 7 while locked, idle time while unlocked, and the memory of forgotten nodes.

internal import HostSystem
internal import Keybag
internal import ProtectedVolume
internal import VolumeFormat

/// A thread that sleeps until something is due.
final class MountTimer: Sendable {
    private struct State: Sendable {
        var isStopping = false
        /// Counts the events that change when to look again.
        var changes = 0
        /// Sweeps done since the lock. Nil while not locked.
        var sweeps: Int?
        /// When the next sweep is due (CLOCK_MONOTONIC).
        var sweepDue: UInt64 = 0
        /// When memory of forgotten nodes may go back to the system, and how many there were at the last look.
        var memoryDue = UInt64.max
        var forgotten: UInt64 = 0
        /// The idle time has been reported, and no use has followed.
        var saidIdle = false
        /// When class 7 is to be closed (CLOCK_BOOTTIME). Nil unless the volume is locked and the class is open.
        var inactiveDue: UInt64?
    }
    /// Memory goes back after so many nanoseconds in which the kernel has forgotten nothing.
    private static let memoryDelay: UInt64 = 1_000_000_000

    private let system: VolumeFileSystem
    private let sequence: LockSequence
    private let idleNanoseconds: UInt64?
    private let inactiveNanoseconds: UInt64
    private let idle: @Sendable () -> Void
    private let state = Lock(State())
    private let changed = Condition()
    private let thread = Lock<BackgroundThread?>(nil)

    init(
        system: VolumeFileSystem, sequence: LockSequence, idleSeconds: UInt64?, inactiveSeconds: UInt64,
        idle: @escaping @Sendable () -> Void
    ) {
        self.system = system
        self.sequence = sequence
        idleNanoseconds = idleSeconds.map(Self.nanoseconds)
        inactiveNanoseconds = Self.nanoseconds(inactiveSeconds)
        self.idle = idle
    }

    /// Half of what the clock can count, so that a sum with the time now does not overflow.
    private static func nanoseconds(_ seconds: UInt64) -> UInt64 { min(seconds, .max / 2_000_000_000) * 1_000_000_000 }

    /// - Parameters:
    ///   - finishSweeping: called repeatedly in the state `sweeping`.
    ///   - closeInactive: called when the time of class 7 after a lock has run out.
    func start(finishSweeping: @escaping @Sendable () -> Void, closeInactive: @escaping @Sendable () -> Void) {
        thread.withLock { $0 = BackgroundThread(name: "pfs-timer") { [self] in run(finishSweeping, closeInactive) } }
        system.forgotten.whenMany { [weak self] in self?.manyForgotten() }
    }

    func stop() {
        system.forgotten.whenMany(nil)
        state.withLock { $0.isStopping = true }
        changed.broadcast()
        thread.withLock { thread in
            thread?.join()
            thread = nil
        }
    }

    /// Called after a lock. Sweeps begin, and the time of class 7.
    func locked() {
        state.withLock { state in
            state.changes += 1
            state.sweeps = 0
            state.sweepDue = monotonicNanoseconds() + LockSequence.sweepDelay(0)
            state.inactiveDue = WallClock.bootNanoseconds + inactiveNanoseconds
        }
        changed.broadcast()
    }

    /// Called when class 7 is closed. Sweeps begin again.
    func inactiveClosed() {
        state.withLock { state in
            state.changes += 1
            state.inactiveDue = nil
            state.sweeps = 0
            state.sweepDue = monotonicNanoseconds() + LockSequence.sweepDelay(0)
        }
        changed.broadcast()
    }

    /// Whether the time of class 7 after the last lock has run out, and the class is still open.
    var isInactiveDue: Bool { state.withLock { $0.inactiveDue.map { $0 <= WallClock.bootNanoseconds } ?? false } }

    /// Seconds until class 7 is closed, rounded up. Nil unless the volume is locked and the class is open.
    var inactiveSeconds: UInt64? {
        state.withLock { state in
            state.inactiveDue.map { due in
                let now = WallClock.bootNanoseconds
                return due <= now ? 0 : (due - now + 999_999_999) / 1_000_000_000
            }
        }
    }

    /// Called after an unlock. Sweeps end, and idle time counts from now.
    func unlocked() {
        system.idleClock.touch()
        state.withLock { state in
            state.changes += 1
            state.sweeps = nil
            state.inactiveDue = nil
            state.saidIdle = false
        }
        changed.broadcast()
    }

    private func manyForgotten() {
        state.withLock { state in
            state.changes += 1
            state.memoryDue = min(state.memoryDue, monotonicNanoseconds() + Self.memoryDelay)
        }
        changed.broadcast()
    }

    private func run(_ finishSweeping: () -> Void, _ closeInactive: () -> Void) {
        while true {
            let seen = state.withLock { $0.changes }
            let isStopping = state.wait(on: changed, until: wake(after: monotonicNanoseconds())) { state -> Bool? in
                if state.isStopping { return true }
                // The end of this wait was computed before the change.
                return state.changes != seen ? false : nil
            }
            if isStopping == true { return }
            if isSweepDue() {
                sequence.sweep()
                if isSweeping { finishSweeping() }
            }
            if isInactiveDue { closeInactive() }
            if isIdle() { idle() }
            if isMemoryDue() {
                system.volume.shrinkTables()
                ProcessHardening.trimHeap()
            }
        }
    }

    private var isSweeping: Bool {
        let keys = system.volume.keys
        return keys.state == .sweeping || keys.state(of: .completeWhenUserInactive) == .sweeping
    }

    /// When to look again: the next sweep, memory that is due, the end of class 7's time, or a quarter of the idle time, but
    /// for the last two at most 5 s. A suspended machine so locks soon after it wakes: CLOCK_MONOTONIC stops during suspension,
    /// CLOCK_BOOTTIME does not.
    private func wake(after now: UInt64) -> UInt64 {
        let due = state.withLock { state in
            var due = min(state.sweeps == nil ? .max : state.sweepDue, state.memoryDue)
            if let inactiveDue = state.inactiveDue {
                let left = HostSystem.nanoseconds(from: WallClock.bootNanoseconds, to: inactiveDue)
                due = min(due, now + max(1_000_000, min(left, 5_000_000_000)))
            }
            return due
        }
        guard let idleNanoseconds else { return due == .max ? now + 3_600_000_000_000 : due }
        return min(due, now + max(50_000_000, min(idleNanoseconds / 4, 5_000_000_000)))
    }

    private func isSweepDue() -> Bool {
        state.withLock { state in
            let now = monotonicNanoseconds()
            guard let count = state.sweeps, state.sweepDue <= now else { return false }
            state.sweeps = count + 1
            let delay = LockSequence.sweepDelay(count + 1)
            state.sweepDue = now + (isSweeping ? min(delay, 100_000_000) : delay)
            return true
        }
    }

    private func isMemoryDue() -> Bool {
        let forgotten = system.forgotten.number
        return state.withLock { state in
            let now = monotonicNanoseconds()
            guard state.memoryDue <= now else { return false }
            let hasStopped = state.forgotten == forgotten
            state.forgotten = forgotten
            state.memoryDue = hasStopped ? .max : now + Self.memoryDelay
            return hasStopped
        }
    }

    private func isIdle() -> Bool {
        guard let idleNanoseconds, system.volume.keys.state == .unlocked else { return false }
        let isIdle = system.idleClock.idleNanoseconds >= idleNanoseconds
        return state.withLock { state in
            defer { state.saidIdle = isIdle }
            return isIdle && !state.saidIdle
        }
    }
}
