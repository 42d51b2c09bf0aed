// The daemon's end of the control socket: bounded in connections, sizes and times, and open to one user only.

import CLinuxShim
import Glibc
package import HostSystem
package import Keybag

/// What the daemon does for the socket. Called on a connection's own thread, and may block.
package protocol ControlHandler: AnyObject, Sendable {
    /// The state of the mount. Must not publish an event, nor wait for one who does.
    func status() -> StatusReport
    /// Locks the volume: announces it, waits the grace and locks.
    func lock(grace: Double?) throws(ControlFailure) -> LockReport
    /// Unlocks the volume. Growing delays after failures are the handler's.
    func unlock(_ credential: consuming Credential) throws(ControlFailure) -> UnlockOutcome
    /// Begins to unmount; the answer goes out before the server stops.
    func unmount() throws(ControlFailure)
    /// Changes a file's class with a new key, or its wrap only; ends when `progress`, which is asked often, gives false:
    /// nobody waits for it any more.
    func changeClass(_ request: ClassRequest, progress: (ClassProgress) -> Bool) throws(ControlFailure)
    /// What is known of the volume beyond its state: open epochs, damage.
    func info() throws(ControlFailure) -> JSONValue
}

/// Bounds of the server.
package struct ControlLimits: Sendable {
    /// Connections that have made a request, at a time. Beyond them a lock and a look at the state are answered, and all
    /// else is told `busy` unless one of them is idle.
    package var connections = 64
    /// Connections at a time whose first request is still to come.
    package var waiting = 64
    /// Requests at a time that wait to be answered beyond `connections`, of each kind that is.
    package var desk = 16
    /// Seconds after which an idle connection makes room where there are too many.
    package var leastIdle = 1.0
    /// Of these, subscribers.
    package var subscribers = 32
    /// Seconds in which a connection must begin its next request.
    package var idle = 10.0
    /// Seconds in which a request must be there whole, and an answer taken.
    package var transfer = 5.0
    /// The longest grace, in seconds.
    package var longestGrace = 300.0

    /// The bounds of every mount.
    package static let standard = ControlLimits()
}

/// Serves one control socket.
package final class ControlServer: Sendable {
    let handler: any ControlHandler
    let limits: ControlLimits
    /// What subscribers hear of.
    let events: EventHub
    let lockDesk: Desk
    let statusDesk: Desk
    private let path: HostPath
    let listener: Descriptor
    /// The socket's own inode: a mount that comes after this one may have the same number, and so the same path.
    private let inode = Lock<UInt64?>(nil)
    let connections = Lock(Connections())
    let finished = Condition()

    struct Connection {
        let channel: Channel
        /// Since when it has been waiting for a request; nil while it does something.
        var idleSince: UInt64?
        var isSubscriber = false
    }

    struct Connections {
        var open: [ObjectIdentifier: Connection] = [:]
        /// Threads of the server's own: the door and the desks.
        var threads = 0
        var stopping = false
    }

    /// Makes the socket, readable and writable by its owner only, in a directory that is the owner's only. One that
    /// is there already belongs to a mount that is gone, and is replaced.
    package init(
        socket path: HostPath, handler: any ControlHandler, events: EventHub, limits: ControlLimits = .standard
    ) throws(SystemError) {
        self.path = path
        self.handler = handler
        self.events = events
        self.limits = limits
        lockDesk = Desk(longest: limits.desk)
        statusDesk = Desk(longest: limits.desk)
        listener = Descriptor(taking: pfs_unix_socket())
        guard listener.number >= 0 else { throw .last("socket") }
        // Through the directory's descriptor: sun_path holds 108 bytes only.
        let directory = try Descriptor(opening: path.parent, pfs_O_PATH | pfs_O_DIRECTORY)
        // Under another name until it listens: who waits for it to appear can connect at once.
        let unready = HostPath("/proc/self/fd/\(directory.number)").appending("new-\(path.lastComponent)")
        _ = unsafe unready.withCString { unsafe unlink($0) }
        guard unsafe unready.withCString({ unsafe pfs_unix_bind(listener.number, $0) }) == 0 else {
            throw .last("bind", path.description)
        }
        // Nobody can connect before listen.
        let isReady = unsafe unready.withCString { from in
            guard unsafe chmod(from, 0o600) == 0, listen(listener.number, Self.backlog) == 0 else { return false }
            return unsafe path.withCString { unsafe rename(from, $0) } == 0
        }
        guard isReady else { throw .last("listen", path.description) }
        let bound = Self.inode(of: path)
        inode.withLock { $0 = bound }
    }

    /// Who connects while so many others do waits his turn in the order of coming; beyond it, in no order.
    private static let backlog: Int32 = 4096

    /// Enough for a password hash's clean-up of 64 KiB of stack; many connections must not cost much.
    static let stackSize = 512 << 10

    /// Begins to serve: with threads for what always is answered, which cannot be made when they are needed.
    package func start() throws(SystemError) {
        for work in [keepDoor, keepLockDesk, keepStatusDesk] {
            connections.withLock { $0.threads += 1 }
            let thread = BackgroundThread(name: "pfs-control", stackSize: Self.stackSize) { [self] in
                work()
                ended()
            }
            guard thread != nil else {
                ended()
                stop()
                throw SystemError(code: EAGAIN, call: "pthread_create")
            }
        }
    }

    private func ended() {
        connections.withLock { $0.threads -= 1 }
        finished.broadcast()
    }

    /// Takes no more requests, answers those that run, removes the socket and returns when all connections have ended, at
    /// most 10 s later.
    package func stop() {
        let open = connections.withLock { connections in
            connections.stopping = true
            return connections.open.values.map(\.channel)
        }
        shutdown(listener.number, Int32(SHUT_RDWR))
        // Who asked to unmount is still to be answered.
        for channel in open { channel.endReading() }
        events.close()
        lockDesk.close()
        statusDesk.close()
        _ = connections.wait(on: finished, until: monotonicNanoseconds() + 10_000_000_000) { connections in
            connections.open.isEmpty && connections.threads == 0 ? true : nil
        }
        if let bound = inode.withLock({ $0 }), Self.inode(of: path) == bound {
            _ = unsafe path.withCString { unsafe unlink($0) }
        }
    }

    private static func inode(of path: HostPath) -> UInt64? {
        var status = stat()
        guard unsafe path.withCString({ unsafe lstat($0, &status) }) == 0 else { return nil }
        return UInt64(status.st_ino)
    }

    /// Notes whether a connection waits for its next request.
    func note(_ channel: Channel, isIdle: Bool) {
        connections.withLock { connections in
            connections.open[ObjectIdentifier(channel)]?.idleSince = isIdle ? monotonicNanoseconds() : nil
        }
    }

    /// Notes that a connection listens to events, and may be idle.
    func noteSubscriber(_ channel: Channel) {
        connections.withLock { $0.open[ObjectIdentifier(channel)]?.isSubscriber = true }
    }

    func leave(_ channel: Channel) {
        events.remove(channel)
        channel.shutDown()
        connections.withLock { _ = $0.open.removeValue(forKey: ObjectIdentifier(channel)) }
        finished.broadcast()
    }

    static func refusal(_ failure: ControlFailure) -> JSONValue {
        .object([
            JSONMember("ok", false), JSONMember("error", .string(failure.code)),
            JSONMember("message", .string(failure.message)), JSONMember("details", failure.details),
        ])
    }
}
