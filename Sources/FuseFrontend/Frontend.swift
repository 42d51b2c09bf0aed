// A mounted volume as the daemon uses it: mount, lock, unlock, report, end.

package import FuseBridge
package import HostSystem
package import KeyFiles
package import Keybag
package import ProtectedVolume
internal import SodiumKit
internal import Synchronization
package import VolumeFormat

/// An event of a mount.
package enum FrontendEvent: Sendable, Equatable {
    /// The lock has begun: class A is closed.
    case locking
    /// The keys are gone, and the kernel holds no page of class A.
    case locked
    /// The keys are gone, but the kernel still holds pages of this many files. `locked` follows.
    case sweeping(files: Int)
    /// The keys are present. `isFirst` is true for the first unlock since the mount was made.
    case unlocked(isFirst: Bool)
    /// The time of class 7 after a lock has run out, and its keys are gone. The kernel still holds pages of this many files.
    case inactive(files: Int)
    /// Protected files have not been used for the time of `-o idle`.
    case idle
    /// An object has got a weaker class.
    case classLowered(LoweredClass)
    /// A program's request was refused because a file's stored content does not verify. The volume itself reports other damage.
    case damaged(Damage, inode: UInt64)
}

/// Statistics of a mount.
package struct FrontendStatistics: Sendable {
    /// Open handles by class.
    package var openHandles: [ProtectionClass: Int]
    /// The number of inodes that the kernel knows.
    package var knownNodes: Int
    /// Seconds since files of classes A and B were last used.
    package var idleSeconds: UInt64
    /// The number of worker threads; over io_uring the most of one queue.
    package var workers: Int
    /// How requests come: a value of `Transport`.
    package var transport: String
    /// The number of files with pages that a lock wants gone and the kernel still holds.
    package var sweepingFiles: Int
    /// Seconds until class 7 is closed. Nil unless the volume is locked and the class is open.
    package var inactiveSeconds: UInt64?
}

/// A mount of a volume. Call `mount`, then `wait` until it has ended, then `close`. Call the rest from any thread except a
/// worker.
package final class Frontend: Sendable {
    let volume: Volume
    private let options: MountOptions
    private let source: HostPath
    let system: VolumeFileSystem
    private let session: Session
    let calls: DeferredCalls
    private let timer: MountTimer
    private let mender: Mender
    /// The number of workers if requests come through /dev/fuse.
    private let deviceWorkers: Int
    private let log: @Sendable (String) -> Void
    let events: @Sendable (FrontendEvent) -> Void
    /// The mount has ended, so calls that still run on it stop.
    let isEnding = Atomic(false)
    /// Held for one lock or unlock at a time. Its value is the number of the last lock. The first one is random, so that a number
    /// of an earlier mount at the same place means nothing.
    private let turn = Lock(Int64.random(in: 0..<1 << 48))

    /// A front end of `volume`, not mounted yet.
    /// - Parameters:
    ///   - source: shown as the mount's source.
    ///   - log: takes one line at a time.
    ///   - trace: takes one line for each request, with names if `options` let the log hold them; nil: nothing is traced.
    ///   - events: called on the thread of the lock, unlock or request, or on the timer's. It must wait for none.
    package init(
        volume: Volume, options: MountOptions, source: HostPath, log: @escaping @Sendable (String) -> Void,
        trace: (@Sendable (String) -> Void)? = nil, events: @escaping @Sendable (FrontendEvent) -> Void
    ) {
        self.volume = volume
        self.options = options
        self.source = source
        self.log = log
        self.events = events
        let limits = WorkerLimits.ofThisProcess()
        let plan = limits.ringPlan(options)
        deviceWorkers = limits.workers
        calls = DeferredCalls(volume, limits: limits.over(plan))
        volume.whenRenewed { [weak calls] directory in calls?.forgetNames(in: directory) }
        mender = Mender(volume)
        system = VolumeFileSystem(volume: volume, options: options, calls: calls, log: log, events: events)
        session = Session(
            system, trace: trace.map { RequestTrace(showsNames: options.logsNames, write: $0) }, over: plan)
        timer = MountTimer(
            system: system, sequence: LockSequence(system: system, calls: calls),
            idleSeconds: options.idleSeconds, inactiveSeconds: options.inactiveSeconds
        ) { events(.idle) }
    }

    /// Mounts at an absolute path. Requests are answered when it returns.
    package func mount(at mountPoint: String) throws(SessionError) {
        try session.mount(at: mountPoint, source: source.bytes, options: options.sessionOptions)
        calls.begin(session)
        do throws(SessionError) {
            try session.start(workers: deviceWorkers)
        } catch {
            // Otherwise it would stay in the mount table, dead.
            session.close()
            throw error
        }
        if let entry = try? MountTable.entry(at: HostPath(mountPoint)) {
            calls.begin(MountClient(mountPoint: mountPoint, device: entry.deviceNumber))
        } else {
            log("the mount is not in the mount table: times of direct writes will be told late")
        }
        timer.start { [weak self] in
            self?.finishSweeping()
        } closeInactive: { [weak self] in
            self?.closeInactive()
        }
        mender.start()
        for line in PageCacheSettings.apply(mountPoint: mountPoint) { log(line) }
        if session.unlockedBuffers > 0 {
            log("the limit of locked memory (ulimit -l) leaves \(session.unlockedBuffers) request buffers unlocked")
        }
    }

    /// Returns when the mount has ended: unmounted, or its connection aborted.
    package func wait() {
        session.wait()
        isEnding.store(true, ordering: .relaxed)
    }

    /// Waits up to a second until this process does not use the mount itself. Call it before unmounting.
    package func settle() {
        calls.settle(until: monotonicNanoseconds() + 1_000_000_000)
    }

    /// Has the kernel write back what programs have written, and drops all pages. What the store does not take in time stays.
    package func writeBack(seconds: UInt64) {
        let time = seconds * 1_000_000_000
        _ = calls.evictor.evict(volume.knownFiles, until: monotonicNanoseconds() + time, patience: time)
    }

    /// Ends the session although the file system is mounted. Requests fail from then on.
    package func leave() { session.leave() }

    /// Frees the session, after `wait`. The caller closes the volume.
    package func close() {
        mender.stop()
        system.locks?.stop()
        timer.stop()
        calls.end()
        // Comes after the calls, because they may add parked reads, each of which holds a part of its file.
        system.readers.stop()
        session.close()
    }

    /// Locks. It always succeeds, and does nothing unless the volume is unlocked. The caller announces it and waits for the
    /// grace before.
    ///
    /// - Parameter countsAlways: whether it gets a number of its own even if the volume is locked already.
    package func lock(countsAlways: Bool = false) -> LockReport {
        turn.withLock { last in
            var report = LockSequence(system: system, calls: calls).run { events(.locking) }
            report.state = volume.keys.state
            if !report.wasLocked || countsAlways { last += 1 }
            report.number = last
            if report.wasLocked {
                if report.state == .sweeping { report.files = max(1, calls.evictor.pending.count) }
                return report
            }
            if report.files > 0 {
                log("locked; the kernel still holds pages of \(report.files) files, which the store has not taken yet")
            }
            // Still under the lock, so that the event of an unlock that follows at once cannot come first.
            timer.locked()
            var inactive: LockReport?
            if options.inactiveSeconds == 0 {
                let closed = runInactive()
                report.cutOff += closed.cutOff
                report.processes = Set(report.processes + closed.processes).sorted()
                report.milliseconds += closed.milliseconds
                inactive = closed
            }
            events(report.files > 0 ? .sweeping(files: report.files) : .locked)
            if let inactive { events(.inactive(files: inactive.files)) }
            return report
        }
    }

    /// The report of a lock that another one has overtaken while it waited for its grace. Nothing is locked, because an unlock may
    /// have come after that.
    ///
    /// - Parameter countsAlways: whether it gets a number of its own if the volume is still locked.
    package func overtakenLock(countsAlways: Bool) -> LockReport {
        turn.withLock { last in
            var report = LockReport()
            report.wasLocked = true
            report.state = volume.keys.state
            if countsAlways, report.state != .unlocked { last += 1 }
            report.number = last
            if report.state == .sweeping { report.files = max(1, calls.evictor.pending.count) }
            return report
        }
    }

    /// Called when the time of class 7 after a lock has run out. Does nothing if the volume has been unlocked meanwhile.
    private func closeInactive() {
        turn.withLock { _ in
            // An unlock and another lock may have come while this waited for its turn.
            guard timer.isInactiveDue else { return }
            let report = runInactive()
            guard !report.wasLocked else { return }
            log("class completeWhenUserInactive is closed; \(report.cutOff) open handles lost access")
            events(.inactive(files: report.files))
        }
    }

    private func runInactive() -> LockReport {
        defer { timer.inactiveClosed() }
        return LockSequence(system: system, calls: calls).inactive.run {}
    }

    /// Called while sweeping. Sets the states to locked once the kernel holds no more pages.
    private func finishSweeping() {
        let sequence = LockSequence(system: system, calls: calls)
        turn.withLock { _ in
            if volume.keys.state(of: .completeWhenUserInactive) == .sweeping,
                sequence.inactive.sweepOn(until: monotonicNanoseconds() + 20_000_000) == 0,
                volume.keys.finishSweeping(.completeWhenUserInactive)
            {
                log("the kernel holds no pages of class completeWhenUserInactive any more")
            }
            guard volume.keys.state == .sweeping, sequence.sweepOn(until: monotonicNanoseconds() + 20_000_000) == 0,
                calls.evictor.pending.isEmpty, volume.keys.finishSweeping()
            else { return }
            log("locked: the kernel holds no pages any more")
            events(.locked)
        }
    }

    /// Takes keys in. From here on every class is open.
    ///
    /// - Parameter condition: when to do it. Otherwise the volume stays as it is.
    package func unlock(
        with keys: consuming VolumeKeys, when condition: UnlockCondition = .always
    ) throws(KeyError) -> UnlockOutcome {
        // The closure below runs at most once, which the type system cannot see, so the keys go in through an optional.
        var given: VolumeKeys? = consume keys
        return try turn.withLock { last throws(KeyError) in
            if case .ifLock(let number) = condition, number != last { throw .lockedSince }
            guard let keys = given.take() else { return UnlockOutcome.alreadyUnlocked }
            let outcome = try volume.unlock(with: keys, onlyIfUnlocked: condition == .ifUnlocked)
            guard outcome != .alreadyUnlocked else { return outcome }
            system.refusals.reset()
            timer.unlocked()
            events(.unlocked(isFirst: outcome == .first))
            return outcome
        }
    }

    /// The mount's current statistics.
    package var statistics: FrontendStatistics {
        FrontendStatistics(
            openHandles: system.files.handlesByClass, knownNodes: volume.knownNodeCount,
            idleSeconds: system.idleClock.idleNanoseconds / 1_000_000_000, workers: calls.limits.workers,
            transport: session.transport.rawValue, sweepingFiles: calls.evictor.pending.count,
            inactiveSeconds: timer.inactiveSeconds)
    }
}
