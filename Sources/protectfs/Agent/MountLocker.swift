// Locks and unlocks the user's mounts for the agent, each in a thread of its own, as one that hangs must not keep the others open.

import Control
import Glibc
import HostSystem
import Keybag
import VolumeFormat

/// What the agent does with mounts. Any thread may call it. Nothing here waits for a daemon, except `waitForEnd`.
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
        /// Counts locks. An unlock that began before the last one must not last.
        var locks: UInt64 = 0
        /// The mounts that this agent has locked, and may unlock.
        var locked: Set<Key> = []
        /// The mounts that have been locked in this period without input.
        var idle: Set<Key> = []
    }

    private let state: Lock<State>
    private let hasEnded = Condition()
    /// Raised when a thread has ended.
    let progress: Wakeup
    private let tell: @Sendable (Notice) -> Void

    /// How long programs get before the machine sleeps: less than logind waits (`InhibitDelayMaxSec`).
    private static let graceBeforeSleep = 2.0

    init(_ policy: Policy, tell: @escaping @Sendable (Notice) -> Void) throws(SystemError) {
        state = Lock(State(policy: policy))
        progress = try Wakeup()
        self.tell = tell
    }

    private func mounts() -> (entries: [MountEntry], policy: Policy) {
        let entries = MountLookup.own().filter { $0.owner == geteuid() }
        do throws(CommandFailure) {
            let policy = try Policy.read()
            state.withLock { $0.policy = policy }
            return (entries, policy)
        } catch {
            Output.error("\(error.message); the agent goes on with what it has read before")
            return (entries, state.withLock { $0.policy })
        }
    }

    // MARK: locking

    /// Locks the mounts that an event locks.
    func lock(for event: AgentEvent) {
        let (entries, policy) = mounts()
        let request = LockRequest(
            grace: event == .sleep ? Self.graceBeforeSleep : nil, isForSleep: event == .sleep)
        let chosen = entries.filter { policy.events(at: $0.mountPoint).contains(event) }
        state.withLock { $0.locks += 1 }
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
        let (entries, policy) = mounts()
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
            state.withLock { state in
                state.idle.insert(key)
                state.locks += 1
            }
            lock(entry, LockRequest(), "idle")
        }
        return next
    }

    private func lock(_ entry: MountEntry, _ request: LockRequest, _ reason: String) {
        let job = Job(key: Key(entry), kind: request.grace == nil ? .lock : .lockSoon)
        run(job) { [self] in lockAndWait(entry, request, reason) }
    }

    private func lockAndWait(_ entry: MountEntry, _ request: LockRequest, _ reason: String) {
        let key = Key(entry)
        let path = entry.mountPoint
        do throws(CommandFailure) {
            let client = try DaemonConnection.connect(entry, path)
            let report = try DaemonConnection.call(path) { () throws(ControlError) in try client.lock(request) }
            if report.wasLocked { return }
            _ = state.withLock { $0.locked.insert(key) }
            Output.note("\(path): locked (\(reason)), \(report.milliseconds) ms\(Self.cutOff(report))")
            if report.cutOff > 0 || report.state == .sweeping { tell(Self.notice(path, report)) }
        } catch {
            // It may have ended meanwhile.
            guard MountLookup.own().contains(where: { Key($0) == key }) else { return }
            Output.error(error.message)
            tell(Notice(summary: "\(path) could not be locked", text: error.message, isUrgent: true))
        }
    }

    private static func cutOff(_ report: LockReport) -> String {
        report.cutOff == 0 ? "" : ", \(report.cutOff) open files closed until unlock"
    }

    private static func notice(_ path: HostPath, _ report: LockReport) -> Notice {
        var text: [String] = []
        if report.cutOff > 0 {
            let files = report.cutOff == 1 ? "1 open file is" : "\(report.cutOff) open files are"
            text.append("\(files) closed until unlock.")
        }
        let isSweeping = report.state == .sweeping
        if isSweeping { text.append("The kernel still holds plaintext, because the store does not answer.") }
        return Notice(summary: "\(path) is locked", text: text.joined(separator: " "), isUrgent: isSweeping)
    }

    // MARK: unlocking

    /// Unlocks the mounts that this agent has locked, as far as the configuration allows.
    func unlock() {
        let (entries, policy) = mounts()
        let (wanted, count) = state.withLock { state in
            defer { state.locked = [] }
            return (state.locked, state.locks)
        }
        for entry in entries where wanted.contains(Key(entry)) {
            unlock(entry, policy.unlocking(at: entry.mountPoint), count)
        }
    }

    private func unlock(_ entry: MountEntry, _ way: AgentUnlock, _ locks: UInt64) {
        var words = ["protectfs", "unlock"]
        switch way {
        case .no: return
        case .yes: break
        case .command(let text): words += ["--passphrase-command", text]
        }
        let arguments = words.map { Array($0.utf8) } + [Array("--".utf8), entry.mountPoint.bytes]
        run(Job(key: Key(entry), kind: .unlock)) { [self] in
            do throws(SystemError) {
                // Without a terminal and input, it asks nobody. What it cannot do, it says on standard error.
                let nothing = try Descriptor(opening: HostPath("/dev/null"), O_RDWR)
                let child = try ChildProcess.start(
                    HostPath("/proc/self/exe"), arguments, descriptors: [(0, nothing.number)], hasTerminal: false)
                if try child.wait() == .exited(0) { Output.note("\(entry.mountPoint): unlocked (session)") }
            } catch {
                Output.error("\(entry.mountPoint): cannot be unlocked: \(error)")
            }
            // The session has been locked again meanwhile: the unlock may have come after that lock.
            if state.withLock({ $0.locks != locks }) {
                lockAndWait(entry, LockRequest(grace: 0), "locked again meanwhile")
            }
        }
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

    /// Whether a sleep may begin. A lock with a longer grace has nothing left to do when the one before sleep is done.
    var isReadyForSleep: Bool { state.withLock { $0.running.keys.allSatisfy { $0.kind == .lock } } }

    /// Waits until everything is done, or the deadline has come.
    func waitForEnd(until deadline: UInt64) -> Bool {
        state.wait(on: hasEnded, until: deadline) { $0.running.isEmpty ? true : nil } ?? false
    }
}
