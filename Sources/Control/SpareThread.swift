// One thread, made in advance, for connections that the system refuses a thread of their own.

import HostSystem

/// Serves connections one after another.
final class SpareThread: Sendable {
    private struct State {
        var waiting: [@Sendable () -> Void] = []
        var isClosed = false
    }

    private let state = Lock(State())
    private let changed = Condition()
    private let longest: Int

    /// - Parameter longest: the most connections that wait.
    init(longest: Int) { self.longest = longest }

    /// Queues `serve`; false if too many wait.
    func add(_ serve: @escaping @Sendable () -> Void) -> Bool {
        let isTaken = state.withLock { state in
            guard !state.isClosed, state.waiting.count < longest else { return false }
            state.waiting.append(serve)
            return true
        }
        changed.broadcast()
        return isTaken
    }

    /// Serves until the queue is closed and empty.
    func run() {
        while let serve = next() { serve() }
    }

    private func next() -> (@Sendable () -> Void)? {
        let taken = state.wait(on: changed) { state -> (@Sendable () -> Void)?? in
            if !state.waiting.isEmpty { return .some(state.waiting.removeFirst()) }
            return state.isClosed ? .some(nil) : nil
        }
        return taken ?? nil
    }

    /// Takes no more connections.
    func close() {
        state.withLock { $0.isClosed = true }
        changed.broadcast()
    }
}
