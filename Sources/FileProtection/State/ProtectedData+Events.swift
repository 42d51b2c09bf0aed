// Events of a mount, as an asynchronous sequence and through callbacks.

import Dispatch

extension ProtectedData {
    /// An event of a mount.
    public enum Event: Sendable, Equatable {
        /// Observing begins, or begins again after `disconnected`, with the present state. No event after it is missed.
        case connected(State)
        /// A lock is about to begin. Files stay open until every observer that the lock waits for has called `done()`,
        /// and at the latest until the grace is over.
        case willLock(LockAnnouncement)
        /// The volume is locked.
        case locked
        /// The volume is locked and its keys are wiped, but the kernel still holds plaintext. `locked` follows when it
        /// holds none.
        case sweeping
        /// The volume is about to be unlocked.
        case willUnlock
        /// The volume is unlocked again.
        case unlocked
        /// The volume is unlocked for the first time since it was mounted.
        case firstUnlock
        /// The volume was unmounted or its daemon has died. `connected` follows when a volume is mounted there again.
        case disconnected
    }

    /// The events from the start of the iteration on. The first one is `connected`.
    public struct Events: AsyncSequence, Sendable {
        /// The iteration ends by cancellation or with `FileProtectionError.unreachable`.
        public typealias Failure = any Error
        let observer: MountObserver
        let answers: Bool

        /// Begins to observe the mount.
        public func makeAsyncIterator() -> AsyncThrowingStream<Event, any Error>.AsyncIterator {
            let (stream, continuation) = AsyncThrowingStream.makeStream(of: Event.self)
            let observer = observer
            let id = observer.add(
                .init(answers: answers, take: { continuation.yield($0) }, fail: { continuation.finish(throwing: $0) }))
            continuation.onTermination = { _ in observer.remove(id) }
            return stream.makeAsyncIterator()
        }
    }

    /// The mount's events from now on. A lock does not wait for this iteration.
    public var events: Events { Events(observer: observer, answers: false) }

    /// The mount's events from now on.
    ///
    /// - Parameter answering: if true, a lock waits until `done()` of its `willLock` has been called, up to its grace.
    ///   It does not wait for an iteration that has ended.
    public func events(answering: Bool) -> Events { Events(observer: observer, answers: answering) }

    /// Runs `body` before each lock. The lock waits until it returns, up to the grace. Use it to write and close files.
    ///
    /// - Returns: the observation, which ends with `cancel()` or when the object is released.
    public func beforeLock(_ body: @escaping @Sendable () async -> Void) -> Observation {
        observe(answering: true) { event in
            guard case .willLock(let lock) = event else { return }
            Task {
                await body()
                lock.done()
            }
        }
    }

    /// Calls `body` with each event, on the library's queue, so it must not block. The observation ends with `cancel()`
    /// or when the result is released.
    ///
    /// - Parameters:
    ///   - answering: if true, a lock waits until `done()` of its `willLock` has been called, up to its grace.
    ///   - body: receives each event.
    public func observe(answering: Bool, _ body: @escaping @Sendable (Event) -> Void) -> Observation {
        Observation(
            observer, observer.add(MountObserver.Listener(answers: answering, take: body, fail: { _ in })))
    }

    /// A running observation. It ends when this object is released.
    public final class Observation: Sendable {
        private let observer: MountObserver
        private let id: UUID

        init(_ observer: MountObserver, _ id: UUID) {
            self.observer = observer
            self.id = id
        }

        deinit { observer.remove(id) }

        /// Ends the observation.
        public func cancel() { observer.remove(id) }
    }
}

/// The announcement of a lock to one observer.
public final class LockAnnouncement: Sendable, Equatable {
    /// The most seconds that the lock waits after its announcement.
    public let grace: TimeInterval
    private let observer: MountObserver?
    private let number: Int64
    private let generation: Int
    private let listener: UUID

    init(observer: MountObserver?, number: Int64, generation: Int, listener: UUID, grace: TimeInterval) {
        self.observer = observer
        self.number = number
        self.generation = generation
        self.listener = listener
        self.grace = grace
    }

    /// Tells the daemon that this observer has closed its files, so the lock need not wait for it. Has no effect if the
    /// lock does not wait for it.
    public func done() { observer?.done(number, generation: generation, by: listener) }

    /// True if both are the same announcement.
    public static func == (left: LockAnnouncement, right: LockAnnouncement) -> Bool {
        left.number == right.number && left.generation == right.generation
    }
}
