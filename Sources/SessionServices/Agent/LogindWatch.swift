// Follows logind for the agent: locks and unlocks of the session, sleep and idle time. It has a thread of its own, as a bus may hang.

import CLibrary
import CommandSupport
import DBus
import HostSystem
import VolumeAccess

/// Connects to logind when it comes, and again when it is restarted.
final class LogindWatch: Sendable {
    private let locker: MountLocker
    /// Opens after the first attempt to connect.
    let hasTried = Gate()

    /// Nanoseconds between two looks for sessions of a machine on which logind has not run yet.
    static let betweenAttempts: UInt64 = 5_000_000_000

    init(_ locker: MountLocker) { self.locker = locker }

    /// Starts the thread.
    func start() {
        let work: @Sendable () -> Void = { [locker, hasTried] in LogindLoop(locker).run { hasTried.open() } }
        if BackgroundThread(name: "logind", work) == nil {
            Output.error("no thread for logind: locks of the session and sleep are not followed")
            hasTried.open()
        }
    }
}

/// The loop of the thread.
private final class LogindLoop {
    private let locker: MountLocker
    private var logind: Logind?
    private var connectAt: UInt64 = 0
    private var pause = RetryPause()
    private var sessions: LoginSessions?
    private var names: Set<String> = []
    /// Set while logind runs and has not answered: when to ask again.
    private var askAt: UInt64?
    private var askPause = RetryPause()
    /// Set from the announcement of a sleep until the mounts are locked.
    private var sleepAt: UInt64?
    private var idleSince: UInt64?
    private var idleAt: UInt64?

    /// No sleep is delayed longer than this. logind's own limit is shorter, if nobody has changed it.
    private static let longestDelay: UInt64 = 30_000_000_000
    /// How many messages are read before what they need is done. Any program can send messages to this connection.
    private static let messagesAtOnce = 64

    init(_ locker: MountLocker) { self.locker = locker }

    /// - Parameter hasTried: called after each attempt to connect.
    func run(_ hasTried: () -> Void) {
        while true {
            locker.progress.clear()
            if logind == nil, monotonicNanoseconds() >= connectAt {
                connect()
                hasTried()
            }
            withLogind { [self] (logind) throws(DBusError) in
                try receive(logind)
                try followSessions(logind)
                if let askAt, monotonicNanoseconds() >= askAt { try askAll(logind) }
            }
            if let idleAt, monotonicNanoseconds() >= idleAt { self.idleAt = locker.lock(idleSince: idleSince) }
            if let sleepAt, locker.isReadyForSleep || monotonicNanoseconds() >= sleepAt {
                if !locker.isReadyForSleep { Output.error("not every mount was locked before the sleep") }
                self.sleepAt = nil
                logind?.letSleep()
            }
            wait()
        }
    }

    private func wait() {
        var entries = [locker.progress.pollEntry]
        var deadlines = [idleAt, sleepAt, askAt].compactMap { $0 }
        if let sessions {
            entries.append(sessions.pollEntry)
        } else {
            deadlines.append(monotonicNanoseconds() + LogindWatch.betweenAttempts)
        }
        if let logind {
            entries.append(logind.bus.pollEntry)
            if let deadline = logind.bus.deadline { deadlines.append(deadline) }
        } else {
            deadlines.append(connectAt)
        }
        PollEntry.wait(&entries, until: deadlines.min())
    }

    private func connect() {
        readSessions()
        do throws(DBusError) {
            logind = try Logind(user: geteuid())
        } catch {
            return lost(error)
        }
        withLogind { [self] (logind) throws(DBusError) in
            if !logind.isRunning { Output.note("logind does not run yet") }
            pause = RetryPause()
            try askAll(logind)
        }
    }

    private func lost(_ error: DBusError) {
        if pause.isFresh { Output.note("no connection to logind, trying again: \(error.message)") }
        logind = nil
        askAt = nil
        idleSince = nil
        idleAt = nil
        connectAt = pause.next()
    }

    private func withLogind(_ body: (Logind) throws(DBusError) -> Void) {
        guard let logind else { return }
        do throws(DBusError) { try body(logind) } catch {
            if error.isDisconnected { return lost(error) }
            // Its signals are still followed.
            if !error.isTimeout || askPause.isFresh { Output.error("logind: \(error)") }
            if error.isTimeout { askAt = askPause.next() }
        }
    }

    /// What may have happened while no signals came: at the beginning, after a restart of logind, and after a time without answers.
    private func askAll(_ logind: Logind) throws(DBusError) {
        for event in try logind.readLocks(names) { lock(event) }
        for event in try logind.readRest() { try take(event, logind) }
        askAt = nil
        askPause = RetryPause()
    }

    /// Reads messages. Locks are done at once; what asks logind again comes after them, because logind may not answer.
    private func receive(_ logind: Logind) throws(DBusError) {
        var later: [Logind.Event] = []
        for _ in 0..<Self.messagesAtOnce {
            guard let message = try logind.bus.next() else { break }
            for event in try logind.events(in: message, { self.readSessions() }) {
                if lock(event) {
                    // It has come after them.
                    later.removeAll { $0 == .unlocked || $0 == .sleep(false) }
                } else if !later.contains(event) {
                    later.append(event)
                }
            }
        }
        for event in later { try take(event, logind) }
    }

    /// Locks, if the event wants it.
    @discardableResult
    private func lock(_ event: Logind.Event) -> Bool {
        switch event {
        case .locked: locker.lock(for: .session)
        case .sleep(true):
            locker.lock(for: .sleep)
            sleepAt = monotonicNanoseconds() + Self.longestDelay
        default: return false
        }
        return true
    }

    private func take(_ event: Logind.Event, _ logind: Logind) throws(DBusError) {
        switch event {
        case .locked, .sleep(true): lock(event)
        case .unlocked: locker.unlock()
        case .sleep(false):
            sleepAt = nil
            try logind.holdSleep()
        case .idle:
            idleSince = try logind.idleSince()
            idleAt = locker.lock(idleSince: idleSince)
        case .restarted: try askAll(logind)
        }
    }

    private func followSessions(_ logind: Logind) throws(DBusError) {
        let before = names
        if readSessions() != before { try logind.follow(names) }
    }

    @discardableResult
    private func readSessions() -> Set<String> {
        if sessions == nil { sessions = LoginSessions(of: geteuid()) }
        if let sessions { names = sessions.read() }
        return names
    }
}
