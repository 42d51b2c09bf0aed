// What happens to a mount, as a sequence and as functions to be called.

import Dispatch

extension ProtectedData {
    /// What happens to a mount.
    public enum Event: Sendable, Equatable {
        /// Observing begins, or begins again after `disconnected`: the state now. Nothing after it is missed.
        case connected(State)
        /// A lock is about to begin; everything is open until every observer that is waited for has said
        /// `done()`, and at the latest until the grace is over.
        case willLock(LockAnnouncement)
        /// The volume is locked.
        case locked
        /// The volume is locked, its keys are gone, and the kernel still holds plaintext; `locked` follows when it does not.
        case sweeping
        /// Keys are about to come in.
        case willUnlock
        /// The volume is unlocked again.
        case unlocked
        /// The volume is unlocked for the first time since it was mounted.
        case firstUnlock
        /// The volume was unmounted, or its daemon is gone. `connected` follows when one is mounted there again.
        case disconnected
    }

    /// Events from the moment of iteration on, `connected` first.
    public struct Events: AsyncSequence, Sendable {
        /// Ends by cancellation, or by `FileProtectionError.unreachable`.
        public typealias Failure = any Error
        let observer: MountObserver
        let answers: Bool

        /// Begins to observe.
        public func makeAsyncIterator() -> AsyncThrowingStream<Event, any Error>.AsyncIterator {
            let (stream, continuation) = AsyncThrowingStream.makeStream(of: Event.self)
            let observer = observer
            let id = observer.add(
                .init(answers: answers, take: { continuation.yield($0) }, fail: { continuation.finish(throwing: $0) }))
            continuation.onTermination = { _ in observer.remove(id) }
            return stream.makeAsyncIterator()
        }
    }

    /// What happens from now on; a lock does not wait for who iterates over it.
    public var events: Events { Events(observer: observer, answers: false) }

    /// What happens from now on.
    ///
    /// - Parameter answering: a lock waits until `done()` of each `willLock` has been called, up to its grace. Who ends
    ///   the iteration is not waited for.
    public func events(answering: Bool) -> Events { Events(observer: observer, answers: answering) }

    /// Runs `body` before each lock, which waits until it returns, up to the grace: the place to write and close files.
    ///
    /// - Returns: what keeps it going; it ends with `cancel()` or when nobody holds it any more.
    public func beforeLock(_ body: @escaping @Sendable () async -> Void) -> Observation {
        observe(answering: true) { event in
            guard case .willLock(let lock) = event else { return }
            Task {
                await body()
                lock.done()
            }
        }
    }

    /// Calls `body` with each event, on the library's queue: it must not block. It ends when the result is released.
    public func observe(answering: Bool, _ body: @escaping @Sendable (Event) -> Void) -> Observation {
        Observation(
            observer, observer.add(MountObserver.Listener(answers: answering, take: body, fail: { _ in })))
    }

    /// An observer that was added; it ends with this object.
    public final class Observation: Sendable {
        private let observer: MountObserver
        private let id: UUID

        init(_ observer: MountObserver, _ id: UUID) {
            self.observer = observer
            self.id = id
        }

        deinit { observer.remove(id) }

        /// Ends it now.
        public func cancel() { observer.remove(id) }
    }
}

/// A lock that is about to begin, as one observer is told of it.
public final class LockAnnouncement: Sendable, Equatable {
    /// Seconds that the lock waits at most, from when it was announced.
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

    /// "My files are closed": the lock does not wait for this observer any longer. Where it did not, nothing happens.
    public func done() { observer?.done(number, generation: generation, by: listener) }

    /// Whether two are the same announcement.
    public static func == (left: LockAnnouncement, right: LockAnnouncement) -> Bool {
        left.number == right.number && left.generation == right.generation
    }
}
