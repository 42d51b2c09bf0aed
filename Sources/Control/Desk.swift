// A thread that waits for one kind of request, so that this kind is answered when everything else is taken.

import HostSystem

/// Requests of one kind, answered by one thread, which is there before it is needed: all that wait at a time get one answer.
final class Desk: Sendable {
    struct Request: Sendable {
        let channel: Channel
        /// Who asks, by the kernel's word.
        let process: Int32
        /// Of a lock, as it was asked for.
        var grace: Double?
    }

    private struct Queue {
        var requests: [Request] = []
        var isClosed = false
    }

    private let queue = Lock(Queue())
    private let changed = Condition()
    private let longest: Int

    /// - Parameter longest: most requests that wait; beyond it the eldest of the process with the most of them goes.
    init(longest: Int) { self.longest = longest }

    func submit(_ request: Request) {
        let refused = queue.withLock { queue -> Channel? in
            guard !queue.isClosed else { return request.channel }
            queue.requests.append(request)
            guard queue.requests.count > longest, let victim = crowded(queue.requests.map(\.process)) else {
                return nil
            }
            return queue.requests.remove(at: victim).channel
        }
        changed.broadcast()
        if let refused { ControlServer.refuse(refused) }
    }

    /// Answers until the desk is closed. A connection ends with its answer.
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
        let batch = queue.wait(on: changed) { queue -> [Request]? in
            if queue.isClosed { return [] }
            guard !queue.requests.isEmpty else { return nil }
            defer { queue.requests = [] }
            return queue.requests
        }
        return batch?.isEmpty == false ? batch : nil
    }

    /// Takes no more; who waits is let go.
    func close() {
        let left = queue.withLock { queue in
            queue.isClosed = true
            defer { queue.requests = [] }
            return queue.requests
        }
        changed.broadcast()
        for request in left { request.channel.shutDown() }
    }
}

/// Who has to go where there are too many: of the process that has the most, the eldest. So one that crowds others out
/// crowds itself out, however often it comes again.
func crowded(_ processes: [Int32]) -> Int? {
    var counts: [Int32: Int] = [:]
    for process in processes { counts[process, default: 0] += 1 }
    guard let most = counts.values.max() else { return nil }
    return processes.firstIndex { counts[$0] == most }
}
