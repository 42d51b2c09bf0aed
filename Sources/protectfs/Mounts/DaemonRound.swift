// Asks the daemons of several mounts at the same time: one may be a program of any user, and must keep no other one waiting.

import CommandSupport
import Control
import HostSystem

/// Calls to the daemons of several mounts, each in a thread of its own. Nothing waits for the end of a thread.
final class DaemonRound<Answer: Sendable>: Sendable {
    typealias Outcome = Result<Answer, CommandFailure>

    private struct State {
        /// The mounts whose answers have not come.
        var open: Set<Int>
        /// The answers that `next` has not given yet.
        var come: [(index: Int, outcome: Outcome)] = []
    }

    private let entries: [MountEntry]
    private let state: Lock<State>
    private let hasAnswered = Condition()

    /// Calls `ask` for each mount.
    ///
    /// - Parameter name: that of the threads.
    init(
        _ name: String, _ entries: [MountEntry],
        _ ask: @escaping @Sendable (MountEntry) throws(CommandFailure) -> Answer
    ) {
        self.entries = entries
        state = Lock(State(open: Set(entries.indices)))
        // Each connection takes a descriptor.
        ProcessHardening.raiseOpenFiles()
        for index in Self.order(entries) {
            let entry = entries[index]
            let work: @Sendable () -> Void = { [self] in
                settle(index, Result { () throws(CommandFailure) in try ask(entry) })
            }
            guard BackgroundThread(name: name, work) == nil else { continue }
            if StoreProof.isCertain(entry) { work() } else { settle(index, Self.noThread(entry)) }
        }
    }

    /// The mounts of this user and of root come first, then one of each other user, then a second one of each. So a user with many
    /// mounts takes threads and descriptors from nobody else.
    private static func order(_ entries: [MountEntry]) -> [Int] {
        var counts: [UInt32?: Int] = [:]
        let ranks = entries.map { entry in
            if StoreProof.isCertain(entry) { return 0 }
            counts[entry.owner, default: 0] += 1
            return counts[entry.owner, default: 0]
        }
        return entries.indices.sorted { (ranks[$0], $0) < (ranks[$1], $1) }
    }

    private static func noThread(_ entry: MountEntry) -> Outcome {
        .failure(CommandFailure(.failure, "\(entry.mountPoint): there is no thread left to ask its daemon"))
    }

    private func settle(_ index: Int, _ outcome: Outcome) {
        state.withLock { state in
            if state.open.remove(index) != nil { state.come.append((index, outcome)) }
        }
        hasAnswered.broadcast()
    }

    /// The next answer, in the order in which they come. Nil if all were given, or none comes before the deadline.
    func next(until deadline: UInt64) -> (index: Int, outcome: Outcome)? {
        let next = state.wait(on: hasAnswered, until: deadline) { state -> (index: Int, outcome: Outcome)?? in
            if !state.come.isEmpty { return .some(state.come.removeFirst()) }
            return state.open.isEmpty ? .some(nil) : nil
        }
        return next ?? nil
    }

    /// The mounts whose answers have not come.
    var open: [Int] { state.withLock { $0.open.sorted() } }

    /// Takes these mounts, unless they have answered, for ones that did not answer in time. `next` gives that.
    func giveUp(_ indices: [Int]) {
        for index in indices { settle(index, .failure(DaemonConnection.explain(.timedOut, entries[index].mountPoint))) }
    }
}
