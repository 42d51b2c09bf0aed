// The loop of `protectfs agent`: waits for signals and the end of the user's sessions, and has mounts locked. Nothing here waits for a bus.

import CLibrary
package import CommandSupport
import DBus
package import HostSystem
package import VolumeAccess
import VolumeFormat

/// Locks the user's mounts as long as it runs, and once more when it ends. The buses have threads of their own: one that hangs
/// delays neither a logout nor the end.
package final class Agent {
    private let signals: SignalSet
    private let signalDescriptor: Descriptor
    private let locker: MountLocker
    private let desktop: Desktop
    private let logind: LogindWatch

    private var sessions: LoginSessions?
    private var names: Set<String> = []

    /// How long the mounts may take to lock when the agent ends.
    private static let longestEnd: UInt64 = 10_000_000_000
    /// How long the agent waits for both buses before it says that it is ready.
    private static let longestStart: UInt64 = 10_000_000_000

    /// Blocks the signals that end it, before any thread starts.
    /// - Parameter mistake: what is wrong in the configuration files, if nothing of them could be taken.
    package init(_ policy: Policy, mistake: String?) throws(SystemError) {
        signals = SignalSet(blocking: [SIGTERM, SIGINT, SIGHUP])
        signalDescriptor = try signals.descriptor()
        let desktop = try Desktop()
        self.desktop = desktop
        locker = try MountLocker(policy, tell: { desktop.show($0) })
        logind = LogindWatch(locker)
        guard let mistake else { return }
        Output.error("\(mistake); until this is mended, all events lock all mounts")
        desktop.show(
            .init(summary: "A mistake in the configuration of protectfs", text: mistake, isUrgent: false))
    }

    /// Runs until a signal ends it. The mounts that a logout locks are locked then.
    package func run() -> ExitCode {
        desktop.start { [locker] in locker.lock(for: .screensaver) }
        logind.start()
        readSessions()
        guard waitForBuses() else { return end() }
        ServiceManager.notify(.ready)
        // Not here, because a mount may not answer.
        _ = BackgroundThread(name: "closed mounts") { [desktop] in
            for notice in Self.closedMounts() { desktop.show(notice) }
        }
        while true {
            var entries = [PollEntry(signalDescriptor.number)]
            if let sessions { entries.append(sessions.pollEntry) }
            let again = sessions == nil ? monotonicNanoseconds() + LogindWatch.betweenAttempts : nil
            PollEntry.wait(&entries, until: again)
            if signals.wait(timeout: 0) != nil { return end() }
            readSessions()
        }
    }

    /// What a person who has just logged in should open or mount.
    private static func closedMounts() -> [MountLocker.Notice] {
        let mounts = ((try? MountLookup.knownOwn()) ?? []).filter { $0.owner == geteuid() }
        let closed = mounts.filter { mount in
            guard let state = try? ExtendedAttribute.read("\(AttributeName.state)", of: mount.mountPoint) else {
                return false
            }
            return VolumeState(attributeValue: String(decoding: state, as: UTF8.self)) == .beforeFirstUnlock
        }
        return closed.map { mount in
            .init(
                summary: "\(mount.mountPoint) is locked",
                text: "Open it: protectfs unlock \(mount.mountPoint.word)", isUrgent: false)
        }
            + KnownMount.all().map { known in
                .init(
                    summary: "\(known.mountPoint) is not mounted", text: "Mount it: \(known.command)", isUrgent: false)
            }
    }

    /// Waits until both buses were tried, and not for ever: one may hang. False if a signal ends the agent meanwhile.
    private func waitForBuses() -> Bool {
        let end = monotonicNanoseconds() + Self.longestStart
        while monotonicNanoseconds() < end {
            let slice = min(end, monotonicNanoseconds() + 100_000_000)
            if desktop.hasTried.wait(until: slice), logind.hasTried.wait(until: slice) { return true }
            if signals.wait(timeout: 0) != nil { return false }
        }
        return true
    }

    private func end() -> ExitCode {
        ServiceManager.notify(.stopping)
        locker.lock(for: .logout)
        if locker.end(until: monotonicNanoseconds() + Self.longestEnd) { return .success }
        Output.error("not every mount was locked in time")
        return .failure
    }

    /// Locks when the last session has ended. A user who has had none since the agent began, as one who lingers, has not left.
    private func readSessions() {
        if sessions == nil { sessions = LoginSessions(of: geteuid()) }
        guard let sessions else { return }
        let now = sessions.read()
        if now.isEmpty, !names.isEmpty { locker.lock(for: .logout) }
        names = now
    }
}
