// What the settings mean for `protectfs agent` at one mount.

package import HostSystem

extension Policy {
    /// The events that lock a mount.
    package func events(at mountPoint: HostPath) -> Set<AgentEvent> {
        if case .events(let events)? = setting(.agentLock, at: mountPoint)?.value { return events }
        return Set(AgentEvent.allCases)
    }

    /// The seconds without input after which a mount locks; nil for never.
    package func idleSeconds(at mountPoint: HostPath) -> UInt64? {
        guard case .seconds(let seconds)? = setting(.agentIdle, at: mountPoint)?.value else { return nil }
        return seconds == 0 ? nil : seconds
    }

    /// How a mount is unlocked after the session is.
    package func unlocking(at mountPoint: HostPath) -> AgentUnlock {
        if case .unlocking(let way)? = setting(.agentUnlock, at: mountPoint)?.value { return way }
        return .no
    }
}
