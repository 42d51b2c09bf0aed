// A queue with a thread of its own for one kind of request, so that this kind is answered when all other threads are
// busy.

import HostSystem

/// Requests of one kind, answered by one thread that is made in advance. All requests that wait at the same time get
/// the same answer.
final class RequestQueue: Sendable {
    struct Request: Sendable {
        let channel: Channel
        /// The client's process, as the kernel reports it (SO_PEERCRED).
        let process: Int32
        /// What a `lock` request asks for.
        var lock = LockRequest()
    }

    private struct State {
        var requests: [Request] = []
        var isClosed = false
    }

    private let state = Lock(State())
    private let changed = Condition()
    private let longest: Int

    /// - Parameter longest: the most requests that wait. If more come, the process with the most of them loses its
    ///   oldest one.
    init(longest: Int) { self.longest = longest }

    func submit(_ request: Request) {
        let refused = state.withLock { state -> Channel? in
            guard !state.isClosed else { return request.channel }
            state.requests.append(request)
            guard state.requests.count > longest, let victim = evictionIndex(state.requests.map(\.process)) else {
                return nil
            }
            return state.requests.remove(at: victim).channel
        }
        changed.broadcast()
        if let refused { ControlServer.refuse(refused) }
    }

    /// Answers requests until the queue is closed. Each connection ends with its answer.
    func run(_ answer: ([Request]) -> JSONValue) {
        while let batch = next() {
            let value = answer(batch)
            for request in batch {
                request.channel.sendAtOnce(value)
                request.channel.shutDown()
            }
        }
    }

    private func next() -> [Request]? {
        let batch = state.wait(on: changed) { state -> [Request]? in
            if state.isClosed { return [] }
            guard !state.requests.isEmpty else { return nil }
            defer { state.requests = [] }
            return state.requests
        }
        return batch?.isEmpty == false ? batch : nil
    }

    /// Accepts no more requests and closes the connections that wait.
    func close() {
        let left = state.withLock { state in
            state.isClosed = true
            defer { state.requests = [] }
            return state.requests
        }
        changed.broadcast()
        for request in left { request.channel.shutDown() }
    }
}

/// The index of the connection to close when there are too many: the oldest one of the process with the most. A process
/// that connects again and again therefore closes its own connections.
func evictionIndex(_ processes: [Int32]) -> Int? {
    var counts: [Int32: Int] = [:]
    for process in processes { counts[process, default: 0] += 1 }
    guard let most = counts.values.max() else { return nil }
    return processes.firstIndex { counts[$0] == most }
}
