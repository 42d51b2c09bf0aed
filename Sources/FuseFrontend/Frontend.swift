// A mounted volume as the daemon drives it: mount, lock, unlock, look at, end.

package import FuseBridge
internal import HostSystem
package import Keybag
package import ProtectedVolume
internal import SodiumKit
internal import Synchronization
package import VolumeFormat

/// What happens to a mount.
package enum FrontendEvent: Sendable, Equatable {
    /// The lock has begun: class A is closed.
    case locking
    /// The keys are gone, and the kernel holds no page of class A.
    case locked
    /// The keys are gone, and the kernel still holds pages of so many files; `locked` follows.
    case sweeping(files: Int)
    /// The keys are there; `isFirst` since the mount was made.
    case unlocked(isFirst: Bool)
    /// Nobody has used protected files for the time of `-o idle`.
    case idle
}

/// What a mount is doing.
package struct FrontendStatistics: Sendable {
    /// Open handles by class.
    package var openHandles: [ProtectionClass: Int]
    /// Inodes that the kernel knows.
    package var knownNodes: Int
    /// Seconds since files of classes A and B were last used.
    package var idleSeconds: UInt64
    /// Worker threads.
    package var workers: Int
    /// Files of which the kernel still holds pages that a lock wants gone.
    package var sweepingFiles: Int
}

/// A mount of a volume. `mount`, then `wait` until it has ended, `close`; the rest from any thread but a worker.
package final class Frontend: Sendable {
    let volume: Volume
    private let options: MountOptions
    private let source: String
    private let system: VolumeFileSystem
    private let session: Session
    let calls: DeferredCalls
    private let timer: MountTimer
    private let mender: Mender
    private let log: @Sendable (String) -> Void
    private let events: @Sendable (FrontendEvent) -> Void
    /// The mount has ended: what still runs on it gives up.
    let isEnding = Atomic(false)
    /// One lock or unlock at a time.
    private let turn = Lock(())

    /// A front end of `volume`, not mounted yet.
    /// - Parameters:
    ///   - source: shown as the mount's source.
    ///   - log: takes one line at a time.
    ///   - trace: takes one line for each request, with names if `options` let the log hold them; nil: nothing is traced.
    ///   - events: called from the thread of the lock or unlock, or the timer's; must not wait for either.
    package init(
        volume: Volume, options: MountOptions, source: String, log: @escaping @Sendable (String) -> Void,
        trace: (@Sendable (String) -> Void)? = nil, events: @escaping @Sendable (FrontendEvent) -> Void
    ) {
        self.volume = volume
        self.options = options
        self.source = source
        self.log = log
        self.events = events
        calls = DeferredCalls(volume, limits: .ofThisProcess())
        mender = Mender(volume)
        system = VolumeFileSystem(volume: volume, options: options, calls: calls, log: log)
        session = Session(system, trace: trace.map { RequestTrace(showsNames: options.logsNames, write: $0) })
        timer = MountTimer(
            system: system, sequence: LockSequence(system: system, calls: calls),
            idleSeconds: options.idleSeconds
        ) { events(.idle) }
    }

    /// Mounts at an absolute path. Requests are answered when it returns.
    package func mount(at mountPoint: String) throws(SessionError) {
        try session.mount(at: mountPoint, options: options.sessionOptions(source: source))
        calls.begin(session)
        do throws(SessionError) {
            try session.start(workers: calls.limits.workers)
        } catch {
            // Else it would stay in the mount table, dead.
            session.close()
            throw error
        }
        if let entry = try? MountTable.entry(at: HostPath(mountPoint)) {
            calls.begin(MountClient(mountPoint: mountPoint, device: entry.deviceNumber))
        } else {
            log("the mount is not in the mount table: times of direct writes will be told late")
        }
        timer.start { [weak self] in self?.finishSweeping() }
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

    /// Waits, a second at most, until this process itself does not use the mount: before unmounting.
    package func settle() {
        calls.settle(until: monotonicNanoseconds() + 1_000_000_000)
    }

    /// Frees the session, after `wait`. Closing the volume is the caller's.
    package func close() {
        mender.stop()
        // Nobody holds a file's pages any more: everything that was parked has come to its turn.
        system.readers.stop()
        timer.stop()
        calls.end()
        session.close()
    }

    /// Locks: always succeeds. Does nothing unless the volume is unlocked. Announcing and grace come before it.
    package func lock() -> LockReport {
        turn.withLock { _ in
            var report = LockSequence(system: system, calls: calls).run { events(.locking) }
            report.state = volume.keys.state
            if report.wasLocked {
                if report.state == .sweeping { report.files = max(1, calls.evictor.pending.count) }
                return report
            }
            if report.files > 0 {
                log("locked; the kernel still holds pages of \(report.files) files, which the store has not taken yet")
            }
            // Still in turn: an unlock that followed at once must not be told of first.
            timer.locked()
            events(report.files > 0 ? .sweeping(files: report.files) : .locked)
            return report
        }
    }

    /// While sweeping: once the kernel holds no page any more the state is locked.
    private func finishSweeping() {
        let sequence = LockSequence(system: system, calls: calls)
        turn.withLock { _ in
            guard volume.keys.state == .sweeping, sequence.sweepOn(until: monotonicNanoseconds() + 20_000_000) == 0,
                calls.evictor.pending.isEmpty, volume.keys.finishSweeping()
            else { return }
            log("locked: the kernel holds no pages any more")
            events(.locked)
        }
    }

    /// Takes keys in: from here on everything is open.
    package func unlock(with keys: consuming VolumeKeys) throws(KeyError) -> UnlockOutcome {
        // The closure below may run once only, which the type system cannot see: the keys go in through an optional.
        var given: VolumeKeys? = consume keys
        return try turn.withLock { _ throws(KeyError) in
            guard let keys = given.take() else { return UnlockOutcome.alreadyUnlocked }
            let outcome = try volume.unlock(with: keys)
            guard outcome != .alreadyUnlocked else { return outcome }
            system.refusals.reset()
            timer.unlocked()
            events(.unlocked(isFirst: outcome == .first))
            return outcome
        }
    }

    /// Open handles by class and the like.
    package var statistics: FrontendStatistics {
        FrontendStatistics(
            openHandles: system.files.handlesByClass, knownNodes: volume.knownNodeCount,
            idleSeconds: system.idleClock.idleNanoseconds / 1_000_000_000, workers: calls.limits.workers,
            sweepingFiles: calls.evictor.pending.count)
    }
}
