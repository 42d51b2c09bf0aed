// The loop of `protectfs agent`: waits for logind, the desktop and signals, and has mounts locked and unlocked.

import DBus
import Glibc
import HostSystem

/// Locks the user's mounts as long as it runs, and once more when it ends.
final class Agent {
    private let signals: SignalSet
    private let signalDescriptor: Descriptor
    private let locker: MountLocker
    private let desktop: Desktop

    private var logind: Logind?
    private var connectAt: UInt64 = 0
    private var pause = RetryPause()
    private var sessions: LoginSessions?
    private var names: Set<String> = []
    /// Set from the announcement of a sleep until the mounts are locked.
    private var sleepAt: UInt64?
    private var idleSince: UInt64?
    private var idleAt: UInt64?

    /// No sleep is delayed longer than this. logind's own limit is shorter, if nobody has changed it.
    private static let longestDelay: UInt64 = 30_000_000_000
    /// How long the mounts may take to lock when the agent ends.
    private static let longestEnd: UInt64 = 10_000_000_000

    /// Blocks the signals that end it, before any thread starts.
    init(_ policy: Policy) throws(SystemError) {
        signals = SignalSet(blocking: [SIGTERM, SIGINT, SIGHUP])
        signalDescriptor = try signals.descriptor()
        let desktop = try Desktop()
        self.desktop = desktop
        locker = try MountLocker(policy, tell: { desktop.show($0) })
    }

    /// Runs until a signal ends it. The mounts that a logout locks are locked then.
    func run() -> ExitCode {
        desktop.start { [locker] in locker.lock(for: .screensaver) }
        readSessions()
        connect()
        desktop.hasTried.wait(until: monotonicNanoseconds() + 2_000_000_000)
        ServiceManager.notify(.ready)
        while true {
            wait()
            if signals.wait(timeout: 0) != nil { return end() }
            locker.progress.clear()
            readSessions()
            if logind == nil, monotonicNanoseconds() >= connectAt { connect() }
            withLogind { [self] (logind) throws(DBusError) in
                while let message = try logind.bus.next() {
                    for event in try logind.events(in: message, { self.sessions?.read() ?? [] }) {
                        try take(event, logind)
                    }
                }
            }
            if let idleAt, monotonicNanoseconds() >= idleAt { self.idleAt = locker.lock(idleSince: idleSince) }
            if let sleepAt, locker.isReadyForSleep || monotonicNanoseconds() >= sleepAt {
                if !locker.isReadyForSleep { Output.error("not every mount was locked before the sleep") }
                self.sleepAt = nil
                logind?.letSleep()
            }
        }
    }

    private func wait() {
        var entries = [PollEntry(signalDescriptor.number), locker.progress.pollEntry]
        var deadlines = [idleAt, sleepAt].compactMap { $0 }
        if let sessions {
            entries.append(sessions.pollEntry)
        } else {
            deadlines.append(monotonicNanoseconds() + 5_000_000_000)
        }
        if let logind {
            entries.append(logind.bus.pollEntry)
            if let deadline = logind.bus.deadline { deadlines.append(deadline) }
        } else {
            deadlines.append(connectAt)
        }
        PollEntry.wait(&entries, until: deadlines.min())
    }

    private func end() -> ExitCode {
        ServiceManager.notify(.stopping)
        locker.lock(for: .logout)
        if locker.waitForEnd(until: monotonicNanoseconds() + Self.longestEnd) { return .success }
        Output.error("not every mount was locked in time")
        return .failure
    }

    // MARK: logind

    private func connect() {
        do throws(DBusError) {
            logind = try Logind(user: geteuid())
        } catch {
            return lost(error)
        }
        withLogind { [self] (logind) throws(DBusError) in
            if !logind.isRunning { Output.note("logind does not run yet") }
            for event in try logind.readAll(names) { try take(event, logind) }
            pause = RetryPause()
        }
    }

    private func lost(_ error: DBusError) {
        if pause.isFresh { Output.note("no connection to logind, trying again: \(error.message)") }
        logind = nil
        idleSince = nil
        idleAt = nil
        connectAt = pause.next()
    }

    private func withLogind(_ body: (Logind) throws(DBusError) -> Void) {
        guard let logind else { return }
        do throws(DBusError) { try body(logind) } catch {
            if error.isDisconnected { lost(error) } else { Output.error("logind: \(error)") }
        }
    }

    private func take(_ event: Logind.Event, _ logind: Logind) throws(DBusError) {
        switch event {
        case .locked: locker.lock(for: .session)
        case .unlocked: locker.unlock()
        case .sleep(true):
            locker.lock(for: .sleep)
            sleepAt = monotonicNanoseconds() + Self.longestDelay
        case .sleep(false):
            sleepAt = nil
            try logind.holdSleep()
        case .idle:
            idleSince = try logind.idleSince()
            idleAt = locker.lock(idleSince: idleSince)
        }
    }

    // MARK: sessions

    /// Locks when the last session has ended. A user who has had none since the agent began, as one who lingers, has not left.
    private func readSessions() {
        if sessions == nil { sessions = LoginSessions(of: geteuid()) }
        guard let sessions else { return }
        let now = sessions.read()
        guard now != names else { return }
        let hadSome = !names.isEmpty
        names = now
        if now.isEmpty, hadSome { locker.lock(for: .logout) }
        withLogind { (logind) throws(DBusError) in try logind.follow(now) }
    }
}
