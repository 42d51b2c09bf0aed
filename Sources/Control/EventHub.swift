// Sends the volume's events to subscribers, and waits before a lock for those that ask for it.

import HostSystem

/// The link between the mount, which publishes events, and the server, which adds subscribers. The hub is made first
/// and knows neither. It drops a slow subscriber and does not wait for one that is gone.
package final class EventHub: Sendable {
    /// Seconds that a lock waits for subscribers with `wait`, unless the request names another grace.
    package static let usualGrace = 5.0

    /// How a wait for the subscribers has ended.
    package enum Wait: Sendable {
        /// All have answered, or nobody wanted to be waited for.
        case answered
        /// The grace is over.
        case timeIsUp
        /// Another lock has locked the volume meanwhile.
        case overtaken
    }

    private struct Subscriber {
        let channel: Channel
        var waits: Bool
    }

    private struct State {
        var subscribers: [ObjectIdentifier: Subscriber] = [:]
        /// For each announced lock that waits, the subscribers that have not answered yet.
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

    /// Adds a subscriber and sends it `reply`. No event comes before the reply, and it misses none after it.
    ///
    /// - Parameter reply: called with the lock held, because an event between reading the state and adding the
    ///   subscriber would be lost. It must neither publish nor wait for a thread that does.
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

    /// Records that a subscriber is ready for the lock with this number.
    func done(_ channel: Channel, _ announcement: Int64) {
        state.withLock { _ = $0.pending[announcement]?.remove(ObjectIdentifier(channel)) }
        answered.broadcast()
    }

    /// Sends an event to every subscriber without waiting. One that says that the volume is locked ends all waits for a lock.
    package func publish(_ event: ControlEvent) {
        let json = event.json
        let endsWaits =
            switch event {
            case .locked, .sweeping: true
            default: false
            }
        // The lock is held so that all subscribers see the same order. Sending never waits.
        state.withLock { state in
            for subscriber in state.subscribers.values { subscriber.channel.sendAtOnce(json) }
            if endsWaits { state.pending = [:] }
        }
        if endsWaits { answered.broadcast() }
    }

    /// Announces a lock and waits until all subscribers with `wait` have answered, or the grace is over. Returns at
    /// once if there are none.
    ///
    /// - Parameter grace: in seconds; nil means `usualGrace`.
    package func announceLock(grace: Double?) -> Wait {
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
        let wait = state.wait(on: answered, until: deadline) { state -> Wait? in
            // Only the event of a lock takes it away.
            guard let left = state.pending[announcement] else { return .overtaken }
            return state.isClosed || left.isEmpty ? .answered : nil
        }
        state.withLock { $0.pending[announcement] = nil }
        return wait ?? .timeIsUp
    }

    /// Ends all waiting.
    func close() {
        state.withLock { $0.isClosed = true }
        answered.broadcast()
    }
}
