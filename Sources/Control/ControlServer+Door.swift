// The door: connections that have not said yet what they want, all on one thread, and where their first request goes.

import CLinuxShim
import Glibc
import HostSystem

extension ControlServer {
    /// A connection whose first request is still to come.
    private struct Guest {
        let channel: Channel
        let process: Int32
        var frame = PartialFrame()
        /// When it goes, CLOCK_MONOTONIC.
        var deadline: UInt64
    }

    /// Accepts connections and reads their first requests until the listener is shut down. Nothing here waits for one of
    /// them, so those that say nothing, or half a request, hold up nobody.
    func keepDoor() {
        var guests: [Guest] = []
        while !connections.withLock({ $0.stopping }) {
            let ready = readySources(guests)
            let now = monotonicNanoseconds()
            var left: [Guest] = []
            for (place, var guest) in guests.enumerated() {
                if ready.contains(place + 1), !read(&guest, now) { continue }
                if guest.deadline <= now { guest.channel.shutDown() } else { left.append(guest) }
            }
            guests = left
            if ready.contains(0), !accept(&guests) { break }
        }
        for guest in guests { guest.channel.shutDown() }
    }

    /// Waits until something is to be done: gives the places of those that are ready, 0 for the listener.
    private func readySources(_ guests: [Guest]) -> Set<Int> {
        var sources = [pollfd(fd: listener.number, events: Int16(POLLIN), revents: 0)]
        for guest in guests { sources.append(pollfd(fd: guest.channel.number, events: Int16(POLLIN), revents: 0)) }
        var timeout: Int32 = -1
        if let first = guests.map(\.deadline).min() {
            let now = monotonicNanoseconds()
            timeout = first > now ? Int32(clamping: (first - now) / 1_000_000 + 1) : 0
        }
        guard unsafe poll(&sources, nfds_t(sources.count), timeout) > 0 else { return [] }
        return Set(sources.indices.filter { sources[$0].revents != 0 })
    }

    /// Takes in one connection; false when the listener has been shut down.
    private func accept(_ guests: inout [Guest]) -> Bool {
        let number = pfs_accept(listener.number)
        guard number >= 0 else {
            switch errno {
            case EINTR, ECONNABORTED, EAGAIN: return true
            case EMFILE, ENFILE, ENOMEM, ENOBUFS:
                // Descriptors are kept free for this; where others took them, one that has said nothing goes.
                if !dismissOne(&guests) { usleep(50_000) }
                return true
            default: return false
            }
        }
        let channel = Channel(Descriptor(taking: number))
        guard let peer = channel.peer, peer.user == geteuid() || peer.user == 0 else { return true }
        if guests.count >= limits.waiting { _ = dismissOne(&guests) }
        let now = monotonicNanoseconds()
        var guest = Guest(
            channel: channel, process: peer.process, deadline: now + Self.nanoseconds(limits.idle))
        // Who is in earnest has sent his request by now.
        if read(&guest, now) { guests.append(guest) }
        return true
    }

    private func dismissOne(_ guests: inout [Guest]) -> Bool {
        guard let place = crowded(guests.map(\.process)) else { return false }
        Self.refuse(guests.remove(at: place).channel)
        return true
    }

    /// Reads what is there; false when the connection waits here no longer.
    private func read(_ guest: inout Guest, _ now: UInt64) -> Bool {
        let hadBegun = guest.frame.hasBegun
        switch guest.channel.receive(into: &guest.frame) {
        case .more:
            if !hadBegun, guest.frame.hasBegun { guest.deadline = now + Self.nanoseconds(limits.transfer) }
            return true
        case .closed: break
        case .tooLarge: guest.channel.sendAtOnce(Self.tooLarge)
        case .whole(let frame): route(guest, frame)
        }
        return false
    }

    /// To a thread of its own where there is one; a lock and a look at the state always find a place.
    private func route(_ guest: Guest, _ frame: [UInt8]) {
        if admit(guest.channel, frame) { return }
        let request = frame.count <= Self.longestAtDesk ? try? JSONValue(parsing: frame) : nil
        switch request?["request"]?.text {
        case "lock":
            lockDesk.submit(
                .init(channel: guest.channel, process: guest.process, grace: request?["grace"]?.number))
        case "status": statusDesk.submit(.init(channel: guest.channel, process: guest.process))
        default: if !makeRoom() || !admit(guest.channel, frame) { Self.refuse(guest.channel) }
        }
    }

    /// Parsed on the thread at the door, which everybody waits for.
    private static let longestAtDesk = 1024

    private func admit(_ channel: Channel, _ first: [UInt8]) -> Bool {
        let id = ObjectIdentifier(channel)
        let isAdmitted = connections.withLock { connections in
            guard !connections.stopping, connections.open.count < limits.connections else { return false }
            connections.open[id] = Connection(channel: channel)
            return true
        }
        guard isAdmitted else { return false }
        let thread = BackgroundThread(name: "pfs-connection", stackSize: Self.stackSize) { [self] in
            serve(channel, first: first)
            leave(channel)
        }
        if thread == nil {
            connections.withLock { _ = $0.open.removeValue(forKey: id) }
            finished.broadcast()
        }
        return thread != nil
    }

    /// Ends the connection that has been idle longest, unless it listens to events; false where all are at work.
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

    // MARK: desks

    /// One lock for all who ask at a time, with the shortest grace of theirs.
    func keepLockDesk() {
        lockDesk.run { requests in
            let grace = requests.map { $0.grace ?? EventHub.usualGrace }.filter(\.isFinite).min() ?? EventHub.usualGrace
            do throws(ControlFailure) {
                return Self.success(try handler.lock(grace: min(grace, EventHub.usualGrace)).json)
            } catch {
                return Self.refusal(error)
            }
        }
    }

    func keepStatusDesk() { statusDesk.run { _ in Self.success(handler.status().json) } }
}
