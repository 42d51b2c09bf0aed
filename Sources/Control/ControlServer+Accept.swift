// Accepts connections and reads their first requests on one thread, then hands each request to the thread that answers
// it.

import CLibrary
import CLinuxShim
import HostSystem

extension ControlServer {
    /// A connection whose first request is not complete.
    private struct PendingConnection {
        let channel: Channel
        let process: Int32
        var frame = PartialFrame()
        /// When the connection is closed, in nanoseconds of CLOCK_MONOTONIC.
        var deadline: UInt64
    }

    /// Accepts connections and reads their first requests until the listener is shut down. The thread never waits for a
    /// single connection, so one that sends nothing, or half a request, delays no other.
    func acceptConnections() {
        var pending: [PendingConnection] = []
        while !connections.withLock({ $0.stopping }) {
            let ready = readySources(pending)
            let now = monotonicNanoseconds()
            var left: [PendingConnection] = []
            for (place, var connection) in pending.enumerated() {
                if ready.contains(place + 1), !read(&connection, now) { continue }
                if connection.deadline <= now { connection.channel.shutDown() } else { left.append(connection) }
            }
            pending = left
            if ready.contains(0), !accept(&pending) { break }
        }
        for connection in pending { connection.channel.shutDown() }
    }

    /// Waits for input or for the first deadline. Returns the indices of the sources that are ready: 0 is the listener,
    /// and `place + 1` is the connection at `place`.
    private func readySources(_ pending: [PendingConnection]) -> Set<Int> {
        var sources = [pollfd(fd: listener.number, events: Int16(POLLIN), revents: 0)]
        sources += pending.map { pollfd(fd: $0.channel.number, events: Int16(POLLIN), revents: 0) }
        var timeout: Int32 = -1
        if let first = pending.map(\.deadline).min() {
            let now = monotonicNanoseconds()
            timeout = first > now ? Int32(clamping: (first - now) / 1_000_000 + 1) : 0
        }
        guard unsafe poll(&sources, nfds_t(sources.count), timeout) > 0 else { return [] }
        return Set(sources.indices.filter { sources[$0].revents != 0 })
    }

    /// Accepts one connection; false when the listener has been shut down.
    private func accept(_ pending: inout [PendingConnection]) -> Bool {
        let number = pfs_accept(listener.number)
        guard number >= 0 else {
            switch errno {
            case EINTR, ECONNABORTED, EAGAIN: return true
            case EMFILE, ENFILE, ENOMEM, ENOBUFS:
                // Descriptors are reserved for connections. If they are used up all the same, a pending one is closed.
                if !evictOne(&pending) { usleep(50_000) }
                return true
            default: return false
            }
        }
        let channel = Channel(Descriptor(taking: number))
        guard let peer = channel.peer, peer.user == geteuid() || peer.user == 0 else { return true }
        if pending.count >= limits.pending { _ = evictOne(&pending) }
        let now = monotonicNanoseconds()
        var connection = PendingConnection(
            channel: channel, process: peer.process, deadline: now + Self.nanoseconds(limits.idle))
        // Most clients have sent their request by now.
        if read(&connection, now) { pending.append(connection) }
        return true
    }

    private func evictOne(_ pending: inout [PendingConnection]) -> Bool {
        guard let place = evictionIndex(pending.map(\.process)) else { return false }
        Self.refuse(pending.remove(at: place).channel)
        return true
    }

    /// Reads the bytes that have arrived; false when the connection is no longer pending.
    private func read(_ connection: inout PendingConnection, _ now: UInt64) -> Bool {
        let hadBegun = connection.frame.hasBegun
        switch connection.channel.receive(into: &connection.frame) {
        case .more:
            if !hadBegun, connection.frame.hasBegun { connection.deadline = now + Self.nanoseconds(limits.transfer) }
            return true
        case .closed: break
        case .tooLarge: connection.channel.sendAtOnce(Self.tooLarge)
        case .whole(let frame): route(connection, frame)
        }
        return false
    }

    /// Hands a request to a thread of its own. If none can be made, `lock` and `status` go to their queues, so they are
    /// always answered.
    private func route(_ connection: PendingConnection, _ frame: [UInt8]) {
        if admit(connection.channel, frame) { return }
        let request = frame.count <= Self.longestQueuedRequest ? try? JSONValue(parsing: frame) : nil
        switch request?["request"]?.text {
        case "lock":
            lockQueue.submit(
                .init(channel: connection.channel, process: connection.process, lock: LockRequest(request)))
        case "status": statusQueue.submit(.init(channel: connection.channel, process: connection.process))
        default: if !makeRoom() || !admit(connection.channel, frame) { Self.refuse(connection.channel) }
        }
    }

    /// The longest request, in bytes, that is parsed on the accepting thread, because every connection waits for this
    /// thread.
    private static let longestQueuedRequest = 1024

    private func admit(_ channel: Channel, _ first: [UInt8]) -> Bool {
        let id = ObjectIdentifier(channel)
        let isAdmitted = connections.withLock { connections in
            guard !connections.stopping, connections.open.count < limits.connections else { return false }
            connections.open[id] = Connection(channel: channel)
            return true
        }
        guard isAdmitted else { return false }
        let work = { @Sendable [self] in
            serve(channel, first: first)
            leave(channel)
        }
        if BackgroundThread(name: "pfs-connection", stackSize: Self.stackSize, work) != nil { return true }
        // A subscriber would keep the spare thread for itself.
        if !Self.isSubscription(first), spare.add(work) { return true }
        connections.withLock { _ = $0.open.removeValue(forKey: id) }
        finished.broadcast()
        return false
    }

    private static func isSubscription(_ frame: [UInt8]) -> Bool {
        frame.count <= longestQueuedRequest && (try? JSONValue(parsing: frame))?["request"]?.text == "subscribe"
    }

    /// Ends the connection that has been idle longest, except subscribers; false when all are busy.
    private func makeRoom() -> Bool {
        let now = monotonicNanoseconds()
        let victim = connections.withLock { connections -> Channel? in
            let idle = connections.open.filter { !$0.value.isSubscriber }.compactMap { entry in
                entry.value.idleSince.map { (entry.key, since: $0) }
            }
            guard let (id, since) = idle.min(by: { $0.since < $1.since }),
                now >= since + Self.nanoseconds(limits.leastIdle)
            else { return nil }
            return connections.open.removeValue(forKey: id)?.channel
        }
        victim?.shutDown()
        return victim != nil
    }

    static func refuse(_ channel: Channel) {
        channel.sendAtOnce(refusal(ControlFailure(code: "busy", message: "too many connections")))
        channel.shutDown()
    }

    static let tooLarge = refusal(ControlFailure(code: "tooLarge", message: "a request has 64 KiB at most"))

    // MARK: the threads of the request queues

    /// Locks once for all requests that wait at the same time, with the shortest grace among them.
    func answerLocks() {
        lockQueue.run { requests in
            // Nil is the usual grace of this mount, and the whole of it if nobody has asked for a shorter one.
            let grace = requests.compactMap(\.lock.grace).filter(\.isFinite).min().map { min($0, EventHub.usualGrace) }
            let reason =
                [LockRequest.Reason.sleep, .command].first { reason in requests.contains { $0.lock.reason == reason } }
            do throws(ControlFailure) {
                let all = LockRequest(grace: grace, reason: reason ?? .agent)
                return Self.success(try handler.lock(all, by: requests.first?.channel.peer?.user).json)
            } catch {
                return Self.refusal(error)
            }
        }
    }

    func answerStatus() { statusQueue.run { _ in Self.success(handler.status().json) } }
}
