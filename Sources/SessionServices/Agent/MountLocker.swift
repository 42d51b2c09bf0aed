// Locks and unlocks the user's mounts for the agent, each in a thread of its own, as one that hangs must not keep the others open.

import CLibrary
import CommandSupport
import Control
import HostSystem
import Keybag
import VolumeAccess
import VolumeControl
import VolumeFormat

/// What the agent does with mounts. Any thread may call it. Nothing here waits for a daemon, except `end`.
///
/// The mount table is read for each event, so mounts may come and go. So are the configuration files; while they have a mistake,
/// what they said before holds.
final class MountLocker: Sendable {
    /// What a person should see.
    struct Notice: Sendable {
        let summary: String
        let text: String
        /// Whether plaintext may still be open.
        let isUrgent: Bool
    }

    /// A mount, as long as it is the same one.
    private struct Key: Hashable {
        let mountPoint: HostPath
        let device: String

        init(_ entry: MountEntry) {
            mountPoint = entry.mountPoint
            device = entry.device
        }
    }

    /// Something to do with a mount. Each kind has a thread of its own, so a lock before sleep waits for no other.
    private struct Job: Hashable {
        enum Kind {
            /// A lock with the usual grace of the mount.
            case lock
            /// A lock with a short one.
            case lockSoon
            case unlock
        }

        let key: Key
        let kind: Kind
    }

    private struct State {
        var policy: Policy
        /// What runs now, and what runs once more after it, as it was asked for again meanwhile.
        var running: [Job: (@Sendable () -> Void)?] = [:]
        /// Counts the locks of each mount. An unlock that began before the last one must not last.
        var locks: [Key: UInt64] = [:]
        /// The mounts that this agent has locked, and may unlock, with the number of that lock. A later lock by a person has
        /// another one.
        var locked: [Key: Int64] = [:]
        /// What `locks` was when the session was unlocked last. A lock that ends after that is taken back if no other one of the
        /// mount has begun.
        var unlockedAt: [Key: UInt64]?
        /// Ends the unlocks that run. Each is raised by the next lock of its mount.
        var unlocking: [Key: Wakeup] = [:]
        /// What `locks` was for the unlocks that run.
        var unlockBegan: [Key: UInt64] = [:]
        /// Set when the agent ends: no unlock begins any more.
        var isEnding = false
        /// The mounts that have been locked in this period without input.
        var idle: Set<Key> = []
    }

    private let state: Lock<State>
    private let hasEnded = Condition()
    /// Raised when a thread has ended.
    let progress: Wakeup
    private let tell: @Sendable (Notice) -> Void

    /// How long an unlock may take, with what its command asks a person.
    private static let longestUnlock: UInt64 = 300_000_000_000
    /// How long programs get before the machine sleeps: less than logind waits (`InhibitDelayMaxSec`).
    private static let graceBeforeSleep = 2.0
    /// When the table of mounts is read again for idle mounts if it could not be read.
    private static let pause: UInt64 = 60_000_000_000

    init(_ policy: Policy, tell: @escaping @Sendable (Notice) -> Void) throws(SystemError) {
        state = Lock(State(policy: policy))
        progress = try Wakeup()
        self.tell = tell
    }

    private func mounts() throws(CommandFailure) -> (entries: [MountEntry], policy: Policy) {
        let entries = try MountLookup.knownOwn().filter { $0.owner == geteuid() }
        do throws(CommandFailure) {
            let policy = try Policy.read()
            state.withLock { $0.policy = policy }
            return (entries, policy)
        } catch {
            let policy = state.withLock { $0.policy }
            let hasNone = policy.settings.isEmpty
            let what = hasNone ? "all events lock all mounts" : "the agent goes on with what it has read before"
            Output.error("\(error.message); \(what)")
            return (entries, policy)
        }
    }

    // MARK: locking

    /// Locks the mounts that an event locks.
    func lock(for event: AgentEvent) {
        let (entries, policy): ([MountEntry], Policy)
        do throws(CommandFailure) { (entries, policy) = try mounts() } catch {
            // Their mounts may be among those of the event.
            countLock(of: state.withLock { Array($0.unlocking.keys) })
            Output.error("no mount could be locked (\(event.rawValue)): \(error.message)")
            return tell(Notice(summary: "No volume could be locked", text: error.message, isUrgent: true))
        }
        let request =
            event == .sleep ? LockRequest(grace: Self.graceBeforeSleep, reason: .sleep) : LockRequest(reason: .agent)
        let chosen = entries.filter { policy.events(at: $0.mountPoint).contains(event) }
        countLock(of: chosen.map { Key($0) })
        for entry in chosen { lock(entry, request, event.rawValue) }
    }

    /// Locks the mounts whose time without input is over.
    ///
    /// - Parameter start: when the last input came (`monotonicNanoseconds`); nil while a person uses the machine.
    /// - Returns: when to call again; nil if nothing waits.
    func lock(idleSince start: UInt64?) -> UInt64? {
        guard let start else {
            state.withLock { $0.idle = [] }
            return nil
        }
        let (entries, policy): ([MountEntry], Policy)
        do throws(CommandFailure) { (entries, policy) = try mounts() } catch {
            Output.error("no mount could be locked (idle): \(error.message)")
            return monotonicNanoseconds() + Self.pause
        }
        var next: UInt64?
        for entry in entries {
            guard let seconds = policy.idleSeconds(at: entry.mountPoint) else { continue }
            let key = Key(entry)
            let (time, isNever) = start.addingReportingOverflow(
                seconds.multipliedReportingOverflow(by: 1_000_000_000).partialValue)
            if isNever || seconds > .max / 1_000_000_000 || state.withLock({ $0.idle.contains(key) }) { continue }
            if time > monotonicNanoseconds() {
                next = min(next ?? .max, time)
                continue
            }
            state.withLock { _ = $0.idle.insert(key) }
            countLock(of: [key])
            lock(entry, LockRequest(reason: .agent), "idle")
        }
        return next
    }

    /// Ends the unlocks of these mounts that run. Those of others go on, and may wait for a person.
    private func countLock(of keys: [Key]) {
        let unlocking = state.withLock { state in
            for key in keys { state.locks[key, default: 0] += 1 }
            return keys.compactMap { state.unlocking[$0] }
        }
        for unlock in unlocking { unlock.raise() }
    }

    private func lock(_ entry: MountEntry, _ request: LockRequest, _ reason: String) {
        let job = Job(key: Key(entry), kind: request.grace == nil ? .lock : .lockSoon)
        run(job) { [self] in lockAndWait(entry, request, reason) }
    }

    private func lockAndWait(_ entry: MountEntry, _ request: LockRequest, _ reason: String) {
        let key = Key(entry)
        let path = entry.mountPoint
        do throws(VolumeControlError) {
            let report = try MountedVolume(entry).lock(request)
            let late = state.withLock { state -> (number: Int64, way: AgentUnlock, locks: UInt64)? in
                if !report.wasLocked {
                    state.locked[key] = report.number
                } else if state.locked[key] != report.number {
                    state.locked[key] = nil
                }
                let locks = state.locks[key, default: 0]
                guard let unlockedAt = state.unlockedAt, unlockedAt[key, default: 0] == locks,
                    let number = state.locked.removeValue(forKey: key)
                else { return nil }
                return (number, state.policy.unlocking(at: path), locks)
            }
            defer { if let late { unlock(entry, late.number, late.way, late.locks) } }
            if report.wasLocked { return }
            Output.note("\(path): locked (\(reason)), \(report.milliseconds) ms\(Self.cutOff(report))")
            if report.cutOff > 0 || report.state == .sweeping { tell(Self.notice(path, report)) }
        } catch {
            // It may have ended meanwhile.
            if let table = try? MountLookup.knownOwn(), !table.contains(where: { Key($0) == key }) { return }
            Output.error("\(path) could not be locked: \(error)")
            tell(Notice(summary: "\(path) could not be locked", text: "\(error)", isUrgent: true))
        }
    }

    private static func cutOff(_ report: VolumeLock) -> String {
        report.cutOff == 0 ? "" : ", \(counted(report.cutOff, "open file")) closed until unlock"
    }

    private static func notice(_ path: HostPath, _ report: VolumeLock) -> Notice {
        var text: [String] = []
        if report.cutOff > 0 {
            text.append("\(counted(report.cutOff, "open file is", "open files are")) closed until unlock.")
        }
        let isSweeping = report.state == .sweeping
        if isSweeping { text.append("The kernel still holds plaintext, because the store does not answer.") }
        return Notice(summary: "\(path) is locked", text: text.joined(separator: " "), isUrgent: isSweeping)
    }

    // MARK: unlocking

    /// Unlocks the mounts that this agent has locked, as far as the configuration allows.
    func unlock() {
        let (entries, policy): ([MountEntry], Policy)
        do throws(CommandFailure) { (entries, policy) = try mounts() } catch {
            return Output.error("no mount could be unlocked (session): \(error.message)")
        }
        let (wanted, counts) = state.withLock { state in
            defer { state.locked = [:] }
            state.unlockedAt = state.locks
            return (state.locked, state.locks)
        }
        for entry in entries {
            guard let number = wanted[Key(entry)] else { continue }
            unlock(entry, number, policy.unlocking(at: entry.mountPoint), counts[Key(entry), default: 0])
        }
    }

    private func unlock(_ entry: MountEntry, _ number: Int64, _ way: AgentUnlock, _ locks: UInt64) {
        guard let source = way.words else { return }
        let words = ["protectfs", "unlock", "--if-lock", "\(number)"].map { Array($0.utf8) }
        let arguments = words + source + [Array("--".utf8), entry.mountPoint.bytes]
        run(Job(key: Key(entry), kind: .unlock)) { [self] in
            do throws(SystemError) { try runUnlock(entry, arguments, locks) } catch {
                Output.error("\(entry.mountPoint): cannot be unlocked: \(error)")
            }
            // The session has been locked again meanwhile: the unlock may have come after that lock.
            if isLockedSince(locks, Key(entry)) {
                lockAndWait(entry, LockRequest(grace: 0, reason: .agent), "locked again meanwhile")
            }
            state.withLock { $0.unlockBegan[Key(entry)] = nil }
        }
    }

    private func isLockedSince(_ locks: UInt64, _ key: Key) -> Bool {
        state.withLock { $0.locks[key, default: 0] != locks }
    }

    /// Runs `protectfs unlock` until it ends, its time is up, something locks again, or the agent ends.
    private func runUnlock(_ entry: MountEntry, _ arguments: [[UInt8]], _ locks: UInt64) throws(SystemError) {
        let key = Key(entry)
        let isLockedAgain = try Wakeup()
        let isLate = state.withLock { state in
            state.unlocking[key] = isLockedAgain
            state.unlockBegan[key] = locks
            return state.isEnding || state.locks[key, default: 0] != locks
        }
        defer { state.withLock { $0.unlocking[key] = nil } }
        if isLate { return }
        // Without a terminal and input, it asks nobody. What it cannot do, it says on standard error.
        let nothing = try Descriptor(opening: HostPath("/dev/null"), O_RDWR)
        let child = try ChildProcess.start(
            HostPath("/proc/self/exe"), arguments, descriptors: [(0, nothing.number)], hasTerminal: false)
        let deadline = monotonicNanoseconds() + Self.longestUnlock
        let watch: ProcessWatch
        do throws(SystemError) { watch = try ProcessWatch(child.id) } catch {
            child.killAll()
            throw error
        }
        var entries = [watch.pollEntry, isLockedAgain.pollEntry]
        while !entries[0].isReady, !entries[1].isReady, monotonicNanoseconds() < deadline {
            PollEntry.wait(&entries, until: deadline)
        }
        guard entries[0].isReady else {
            child.killAll()
            let reason =
                !entries[1].isReady
                ? "no answer in time" : isLockedSince(locks, key) ? "the session was locked again" : "the agent ends"
            return Output.note("\(entry.mountPoint): the unlock was stopped: \(reason)")
        }
        if try child.wait() == .exited(0) { Output.note("\(entry.mountPoint): unlocked (session)") }
    }

    // MARK: threads

    private func run(_ job: Job, _ work: @escaping @Sendable () -> Void) {
        let isFree = state.withLock { state in
            let isFree = state.running[job] == nil
            state.running.updateValue(isFree ? nil : work, forKey: job)
            return isFree
        }
        guard isFree else { return }
        let whole: @Sendable () -> Void = { [self] in
            var next: (@Sendable () -> Void)? = work
            while let work = next {
                work()
                next = state.withLock { state in
                    guard let waiting = state.running[job] ?? nil else {
                        state.running[job] = nil
                        return nil
                    }
                    state.running.updateValue(nil, forKey: job)
                    return waiting
                }
            }
            hasEnded.broadcast()
            progress.raise()
        }
        // Waiting is better than leaving a mount open.
        if BackgroundThread(name: job.kind == .unlock ? "unlock" : "lock", whole) == nil { whole() }
    }

    /// Whether a sleep may begin. A lock with a longer grace has nothing left to do when the one before sleep is done. An unlock
    /// whose mount has been locked since it began is locked once more when it has been stopped. Others may wait for a person.
    var isReadyForSleep: Bool {
        state.withLock { state in
            state.running.keys.allSatisfy { job in
                switch job.kind {
                case .lock: true
                case .lockSoon: false
                case .unlock: state.unlockBegan[job.key].map { $0 == state.locks[job.key, default: 0] } ?? true
                }
            }
        }
    }

    /// Stops all unlocks and waits until everything is done, or the deadline has come. No unlock begins any more.
    func end(until deadline: UInt64) -> Bool {
        let unlocking = state.withLock { state in
            state.isEnding = true
            return Array(state.unlocking.values)
        }
        for unlock in unlocking { unlock.raise() }
        return state.wait(on: hasEnded, until: deadline) { $0.running.isEmpty ? true : nil } ?? false
    }
}
