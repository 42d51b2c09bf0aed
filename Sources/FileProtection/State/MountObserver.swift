// The shared part of all observers of one mount: one connection to its daemon, which is made again after it ends.

import CLibrary
import Dispatch

/// Observes one mount. All work except the table of observers happens on one queue of the process. Observers need no
/// thread of their own and no polling.
final class MountObserver: @unchecked Sendable {
    /// One observer.
    struct Listener {
        /// Whether a lock waits for it.
        let answers: Bool
        /// Receives an event. Must not block.
        let take: @Sendable (ProtectedData.Event) -> Void
        /// Receives the error that ends the events.
        let fail: @Sendable (FileProtectionError) -> Void
        /// Whether it has received the initial state.
        var isTold = false
    }

    private static let queue = DispatchQueue(label: "protectfs.state")
    private static let registry = Registry()

    private final class Registry: @unchecked Sendable {
        let lock = NSLock()
        var observers: [String: MountObserver] = [:]
    }

    /// The observer of the mount at a path.
    static func shared(_ mountPoint: String) -> MountObserver {
        registry.lock.withLock {
            if let known = registry.observers[mountPoint] { return known }
            let made = MountObserver(mountPoint)
            registry.observers[mountPoint] = made
            return made
        }
    }

    private let mountPoint: String
    private var listeners: [UUID: Listener] = [:]
    private var connection: ControlConnection?
    /// Counts connections, so that answers for an earlier one are ignored.
    private var generation = 0
    private var state: ProtectedData.State?
    /// Whether the daemon has been asked to wait for this process.
    private var waits = false
    /// For each announced lock, the observers that have not answered yet.
    private var pending: [Int64: Set<UUID>] = [:]
    private var watch: DirectoryWatch?
    private var isRetrying = false

    private init(_ mountPoint: String) { self.mountPoint = mountPoint }

    /// Adds an observer. Its first event is `connected`.
    func add(_ listener: Listener) -> UUID {
        let id = UUID()
        Self.queue.async { [self] in
            listeners[id] = listener
            if connection == nil { connect() } else { askToWait() }
            greet()
        }
        return id
    }

    /// Removes an observer. Locks no longer wait for it.
    func remove(_ id: UUID) {
        Self.queue.async { [self] in
            listeners[id] = nil
            for announcement in Array(pending.keys) { answer(announcement, by: id) }
            guard listeners.isEmpty else { return askToWait() }
            connection?.close()
            connection = nil
            watch = nil
            forget()
        }
    }

    /// Records one observer's answer to an announcement of a connection.
    func done(_ announcement: Int64, generation: Int, by id: UUID) {
        Self.queue.async { [self] in
            if generation == self.generation { answer(announcement, by: id) }
        }
    }

    private func answer(_ announcement: Int64, by id: UUID) {
        guard pending[announcement]?.remove(id) != nil, pending[announcement]?.isEmpty == true else { return }
        pending[announcement] = nil
        connection?.send(["request": "done", "id": announcement])
    }

    private func forget() {
        state = nil
        waits = false
        pending = [:]
    }

    // MARK: The connection

    private func connect() {
        guard !listeners.isEmpty, connection == nil else { return }
        let places = ControlSocket.places(mountPoint)
        // The watch begins before the first attempt, so a socket that appears later is noticed.
        if watch == nil {
            watch = DirectoryWatch(places.directories, on: Self.queue) { [weak self] in self?.connect() }
            if watch == nil { retry() }
        }
        if let reason = places.closed { return fail(.unreachable(path: mountPoint, cause: reason)) }
        for socket in places.sockets {
            generation += 1
            let number = generation
            do throws(ProtectionSystemError) {
                connection = try ControlConnection.open(
                    socket, owner: places.owner, on: Self.queue,
                    receive: { [weak self] in self?.take($0, number) }, ended: { [weak self] in self?.ended(number) })
                waits = listeners.values.contains(where: \.answers)
                connection?.send(["request": "subscribe", "wait": waits])
                return
            } catch {
                if error.code == EACCES || error.code == EPERM {
                    return fail(.unreachable(path: mountPoint, cause: error))
                }
                // If the socket is missing, the watch reports when it appears. A full backlog is not reported, so try
                // again.
                if error.code == EAGAIN { retry() }
            }
        }
    }

    /// Tries again later. This is needed only after too many connections, or without inotify.
    private func retry() {
        guard !isRetrying else { return }
        isRetrying = true
        Self.queue.asyncAfter(deadline: .now() + 1) { [weak self] in
            self?.isRetrying = false
            self?.connect()
        }
    }

    private func ended(_ number: Int) {
        guard number == generation else { return }
        let wasAnswered = state != nil
        connection = nil
        forget()
        for id in Array(listeners.keys) where listeners[id]?.isTold == true {
            listeners[id]?.isTold = false
            listeners[id]?.take(.disconnected)
        }
        if wasAnswered { connect() } else { retry() }
    }

    private func fail(_ error: FileProtectionError) {
        let all = listeners.values
        listeners = [:]
        watch = nil
        for listener in all { listener.fail(error) }
    }

    /// Tells the daemon whether a lock waits for this process, if that has changed.
    private func askToWait() {
        let wanted = listeners.values.contains(where: \.answers)
        guard wanted != waits, connection != nil else { return }
        waits = wanted
        connection?.send(["request": "subscribe", "wait": wanted])
    }

    // MARK: Messages of the daemon

    private func greet() {
        guard let state else { return }
        for id in Array(listeners.keys) where listeners[id]?.isTold == false {
            listeners[id]?.isTold = true
            listeners[id]?.take(.connected(state))
        }
    }

    private func take(_ message: ControlMessage, _ number: Int) {
        guard number == generation else { return }
        if let ok = message.ok {
            guard ok, let now = message.state.flatMap({ ProtectedData.State(rawValue: $0) }) else { return }
            state = now
            watch = nil
            return greet()
        }
        switch message.event {
        case "willLock":
            guard let id = message.id else { return }
            let answering = Set(listeners.filter { $0.value.answers && $0.value.isTold }.keys)
            if waits, answering.isEmpty { connection?.send(["request": "done", "id": id]) }
            if !answering.isEmpty { pending[id] = answering }
            let grace = message.grace ?? 0
            tell { listener in
                .willLock(
                    LockAnnouncement(
                        observer: answering.contains(listener) ? self : nil, number: id, generation: number,
                        listener: listener, grace: grace))
            }
        case "locked":
            state = .locked
            pending = [:]
            tell { _ in .locked }
        case "sweeping":
            state = .sweeping
            pending = [:]
            tell { _ in .sweeping }
        case "willUnlock": tell { _ in .willUnlock }
        case "unlocked":
            state = .unlocked
            tell { _ in .unlocked }
        case "firstUnlock":
            state = .unlocked
            tell { _ in .firstUnlock }
        default: return
        }
    }

    private func tell(_ event: (UUID) -> ProtectedData.Event) {
        for (id, listener) in listeners where listener.isTold { listener.take(event(id)) }
    }
}
