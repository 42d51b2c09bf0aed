// Carries what happens to a volume to the programs that subscribe, and waits for those that ask for it before a lock.

import HostSystem

/// Made before the mount that publishes and the server that subscribes; knows neither. A slow subscriber is dropped, a
/// vanished one is not waited for.
package final class EventHub: Sendable {
    /// Seconds that a lock waits for those who asked to be waited for, unless told otherwise.
    package static let usualGrace = 5.0

    private struct Subscriber {
        let channel: Channel
        var waits: Bool
    }

    private struct State {
        var subscribers: [ObjectIdentifier: Subscriber] = [:]
        /// Announcements that are waited for, and by whom they are still to be answered.
        var pending: [Int64: Set<ObjectIdentifier>] = [:]
        var lastAnnouncement: Int64 = 0
        var isClosed = false
    }

    private let state = Lock(State())
    private let answered = Condition()
    private let longestGrace: Double

    /// A hub without subscribers.
    /// - Parameter longestGrace: in seconds.
    package init(longestGrace: Double = ControlLimits.standard.longestGrace) { self.longestGrace = longestGrace }

    /// Adds `channel`, whose first message is `reply`: no event comes before it, none after it is missed.
    ///
    /// - Parameter reply: called with the lock held, as an event between its look at the state and the addition would be
    ///   lost; must neither publish nor wait for one who does.
    func add(_ channel: Channel, waits: Bool, limit: Int, reply: () -> JSONValue) -> Bool {
        state.withLock { state in
            let id = ObjectIdentifier(channel)
            guard state.subscribers[id] != nil || state.subscribers.count < limit else { return false }
            channel.sendAtOnce(reply())
            state.subscribers[id] = Subscriber(channel: channel, waits: waits)
            return true
        }
    }

    func remove(_ channel: Channel) {
        let id = ObjectIdentifier(channel)
        state.withLock { state in
            state.subscribers[id] = nil
            for key in state.pending.keys { state.pending[key]?.remove(id) }
        }
        answered.broadcast()
    }

    /// The answer of one who was to be waited for.
    func done(_ channel: Channel, _ announcement: Int64) {
        state.withLock { _ = $0.pending[announcement]?.remove(ObjectIdentifier(channel)) }
        answered.broadcast()
    }

    /// Tells every subscriber; never waits for one.
    package func publish(_ event: ControlEvent) {
        let json = event.json
        // Under the lock, so that all see the same order; sending never waits.
        state.withLock { state in
            for subscriber in state.subscribers.values { subscriber.channel.sendAtOnce(json) }
        }
    }

    /// Announces a lock and waits until all who asked have answered that they are done, or the grace is over. Nobody
    /// asked: returns at once.
    ///
    /// - Parameter grace: seconds; nil: the usual 5.
    /// - Returns: whether all have answered.
    package func announceLock(grace: Double?) -> Bool {
        let seconds = min(max(grace ?? Self.usualGrace, 0), longestGrace)
        let grace = seconds.isFinite ? seconds : Self.usualGrace
        let announcement = state.withLock { state in
            state.lastAnnouncement += 1
            let number = state.lastAnnouncement
            state.pending[number] = Set(state.subscribers.filter { $0.value.waits }.keys)
            let json = ControlEvent.willLock(id: number, grace: grace).json
            for subscriber in state.subscribers.values { subscriber.channel.sendAtOnce(json) }
            return number
        }
        let deadline = monotonicNanoseconds() + UInt64(grace * 1e9)
        let all = state.wait(on: answered, until: deadline) { state in
            state.isClosed || state.pending[announcement]?.isEmpty != false ? true : nil
        }
        state.withLock { $0.pending[announcement] = nil }
        return all ?? false
    }

    /// Waits no longer for anybody.
    func close() {
        state.withLock { $0.isClosed = true }
        answered.broadcast()
    }
}
