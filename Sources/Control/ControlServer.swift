// The daemon's end of the control socket. It limits connections, sizes and times, and accepts one user only.

import CLibrary
import CLinuxShim
package import HostSystem
package import Keybag

/// The daemon's answers to the requests. The server calls them on the connection's own thread, so they may block. `user` is who
/// asks, as the kernel reports it; nil if it does not.
package protocol ControlHandler: AnyObject, Sendable {
    /// The state of the mount. Must not publish an event, nor wait for a thread that does.
    func status() -> StatusReport
    /// Announces the lock, waits up to the grace and locks the volume.
    func lock(_ request: LockRequest, by user: UInt32?) throws(ControlFailure) -> LockReport
    /// Unlocks the volume, or takes in the keys of a keybag that was changed. The handler imposes the growing delays after
    /// failures.
    func unlock(
        _ credential: consuming Credential, when condition: UnlockCondition, by user: UInt32?
    ) throws(ControlFailure) -> UnlockOutcome
    /// Begins to unmount. The answer is sent before the server stops. If forced, programs that use the mount do not hinder it.
    func unmount(isForced: Bool, by user: UInt32?) throws(ControlFailure)
    /// Changes a file's class, with a new file key or by wrapping the key again. Calls `progress` often, and gives up
    /// when it returns false because the client is gone.
    func changeClass(
        _ request: ClassRequest, by user: UInt32?, progress: (ClassProgress) -> Bool
    ) throws(ControlFailure)
    /// Gives a file a new key if a former class key wraps its key. Calls `progress` often, and gives up when it returns false.
    func renewKey(
        _ request: RenewalRequest, progress: (ClassProgress) -> Bool
    ) throws(ControlFailure) -> RenewalReport
    /// What needs former class keys beyond the store. Refuses if class keys cannot be changed while this mount lives.
    func formerKeys() throws(ControlFailure) -> FormerKeysReport
    /// Facts about the volume beyond its state, such as open epochs and damage.
    func info() throws(ControlFailure) -> JSONValue
    /// The answer to a challenge, which only the volume's keys give. Works in every state.
    func prove(_ challenge: MountChallenge) -> [UInt8]
    /// Translates between the paths of the mount and of its store. Works in every state.
    func path(_ request: PathRequest) throws(ControlFailure) -> PathReport
    /// Accepts files that are older than this machine has seen them. Works in every state.
    func trust(_ request: TrustRequest) throws(ControlFailure)
}

/// Bounds of the server.
package struct ControlLimits: Sendable {
    /// The most connections that have made a request. Beyond them `lock` and `status` are still answered. Other
    /// requests get `busy` unless an idle connection can be closed.
    package var connections = 64
    /// The most connections whose first request is not complete.
    package var pending = 64
    /// The most `lock` requests, and the most `status` requests, that wait for an answer beyond `connections`.
    package var queued = 16
    /// Seconds after which an idle connection may be closed to make room.
    package var leastIdle = 1.0
    /// The most subscribers among `connections`.
    package var subscribers = 32
    /// Seconds in which a connection must begin its next request.
    package var idle = 10.0
    /// Seconds in which a request must arrive completely, and in which the client must take an answer.
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
    /// Sends events to the subscribers.
    let events: EventHub
    let lockQueue: RequestQueue
    let statusQueue: RequestQueue
    let spare: SpareThread
    private let path: HostPath
    let listener: Descriptor
    /// The socket's inode. A later mount may have the same mount number, and then its socket has the same path.
    private let inode = Lock<UInt64?>(nil)
    let connections = Lock(Connections())
    let finished = Condition()

    struct Connection {
        let channel: Channel
        /// When it began to wait for a request, in nanoseconds of CLOCK_MONOTONIC; nil while it is busy.
        var idleSince: UInt64?
        var isSubscriber = false
    }

    struct Connections {
        var open: [ObjectIdentifier: Connection] = [:]
        /// Running threads of the server itself: the accepting thread, those of the two queues and the spare one.
        var threads = 0
        var stopping = false
    }

    /// Makes the socket with mode 0600 in a directory that only its owner can enter. A socket that exists already
    /// belongs to a mount that has ended, and is replaced.
    package init(
        socket path: HostPath, handler: any ControlHandler, events: EventHub, limits: ControlLimits = .standard
    ) throws(SystemError) {
        self.path = path
        self.handler = handler
        self.events = events
        self.limits = limits
        lockQueue = RequestQueue(longest: limits.queued)
        statusQueue = RequestQueue(longest: limits.queued)
        spare = SpareThread(longest: limits.queued)
        listener = Descriptor(taking: pfs_unix_socket())
        guard listener.number >= 0 else { throw .last("socket") }
        // The path leads through the directory's descriptor, because sun_path holds only 108 bytes.
        let directory = try Descriptor(opening: path.parent, pfs_O_PATH | pfs_O_DIRECTORY)
        // The socket has another name until it listens, so a program that waits for it to appear can connect at once.
        let unready = HostPath("/proc/self/fd/\(directory.number)").appending("new-\(path.lastComponent)")
        _ = unsafe unready.withCString { unsafe unlink($0) }
        guard unsafe unready.withCString({ unsafe pfs_unix_bind(listener.number, $0) }) == 0 else {
            throw .last("bind", path.description)
        }
        // No program can connect before listen.
        let isReady = unsafe unready.withCString { from in
            guard unsafe chmod(from, 0o600) == 0, listen(listener.number, Self.backlog) == 0 else { return false }
            return unsafe path.withCString { unsafe rename(from, $0) } == 0
        }
        guard isReady else { throw .last("listen", path.description) }
        let bound = Self.inode(of: path)
        inode.withLock { $0 = bound }
    }

    /// The most connections that wait in the kernel in the order of their arrival. Beyond it the order is undefined.
    private static let backlog: Int32 = 4096

    /// In bytes. A password hash wipes 64 KiB of its stack; many connections must not need much memory.
    static let stackSize = 512 << 10

    /// Starts the server's own threads. Those of the queues are made now because the system may refuse a thread later.
    package func start() throws(SystemError) {
        for work in [acceptConnections, answerLocks, answerStatus, spare.run] {
            connections.withLock { $0.threads += 1 }
            let thread = BackgroundThread(name: "pfs-control", stackSize: Self.stackSize) { [self] in
                work()
                ended()
            }
            guard thread != nil else {
                ended()
                // Another server of the mount may go on with the events.
                stop(endingEvents: false)
                throw SystemError(code: EAGAIN, call: "pthread_create")
            }
        }
    }

    private func ended() {
        connections.withLock { $0.threads -= 1 }
        finished.broadcast()
    }

    /// Takes no more requests, answers those in progress and removes the socket. Returns when all connections have
    /// ended, or after 10 s.
    package func stop(endingEvents: Bool = true) {
        let open = connections.withLock { connections in
            connections.stopping = true
            return connections.open.values.map(\.channel)
        }
        shutdown(listener.number, Int32(SHUT_RDWR))
        // The client that asked to unmount still waits for its answer.
        for channel in open { channel.endReading() }
        if endingEvents { events.close() }
        lockQueue.close()
        statusQueue.close()
        spare.close()
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

    /// Records whether a connection waits for its next request.
    func note(_ channel: Channel, isIdle: Bool) {
        connections.withLock { connections in
            connections.open[ObjectIdentifier(channel)]?.idleSince = isIdle ? monotonicNanoseconds() : nil
        }
    }

    /// Records that a connection is a subscriber, and so may be idle.
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
