// The client's end of the control socket, which the command line and programs use.

import CLibrary
import CLinuxShim
package import HostSystem
package import Keybag
import SodiumKit
package import VolumeFormat

/// Why a request over the socket failed.
package enum ControlError: Error, Equatable, Sendable {
    /// No daemon listens on the socket.
    case unreachable(SystemError)
    /// The daemon refused.
    case refused(ControlFailure)
    /// The reply is not an answer to the request.
    case protocolViolation
    /// The answer did not come in time.
    case timedOut
    /// The daemon closed the connection.
    case closed
    /// A system call failed.
    case system(SystemError)
    /// The passphrase or code is empty or too long.
    case unusableSecret
    /// The daemon is not certain to be the volume's own.
    case unproven(StoreDoubt)
}

/// A connection to the daemon of a mount.
package struct ControlClient: ~Copyable {
    private let channel: Channel

    /// Connects to a daemon of this user, of root or of `owner`. A daemon of another user could collect secrets.
    package init(connecting path: HostPath, owner: UInt32? = nil) throws(ControlError) {
        let socket = Descriptor(taking: pfs_unix_socket())
        guard socket.number >= 0 else { throw .system(.last("socket")) }
        let directory: Descriptor
        do throws(SystemError) {
            directory = try Descriptor(opening: path.parent, pfs_O_PATH | pfs_O_DIRECTORY | pfs_O_NOFOLLOW)
        } catch {
            throw .unreachable(error)
        }
        // In /tmp any user can make such a directory and put a link to another mount's socket into it.
        let trusted = Set([geteuid(), 0, owner ?? geteuid()])
        guard SystemPaths.isSafe(directory, owners: trusted) else {
            throw .unreachable(SystemError(code: ECONNREFUSED, call: "connect", subject: path.description))
        }
        let short = HostPath("/proc/self/fd/\(directory.number)").appending(bytes: path.lastComponent.bytes)
        guard unsafe short.withCString({ unsafe pfs_unix_connect(socket.number, $0) }) == 0 else {
            throw .unreachable(.last("connect", path.description))
        }
        let channel = Channel(socket)
        guard let user = channel.peer?.user, trusted.contains(user) else {
            throw .unreachable(SystemError(code: ECONNREFUSED, call: "connect", subject: path.description))
        }
        self.channel = channel
    }

    /// Connects to the daemon of a mount, whichever of its sockets is there. Root also reaches the mounts of other users, through
    /// the user in the mount table.
    package init(to mount: MountEntry) throws(ControlError) {
        var reason = SystemError(code: ENOENT, call: "connect", subject: mount.mountPoint.description)
        for socket in SystemPaths.controlSockets(of: mount) {
            do throws(ControlError) {
                let client = try ControlClient(connecting: socket, owner: Credentials.isRoot ? mount.owner : nil)
                // In a directory of their own, a user can put a link to the socket of somebody else's mount there.
                guard mount.owner == nil || client.peer?.user == mount.owner else {
                    throw .unreachable(SystemError(code: ECONNREFUSED, call: "connect", subject: socket.description))
                }
                self = client
                return
            } catch .unreachable(let error) {
                reason = error
                if error.code == EACCES || error.code == EPERM { break }
            }
        }
        throw .unreachable(reason)
    }

    /// The process at the other end, if the kernel says which one it is.
    package var process: Int32? { channel.peer.flatMap { $0.process > 0 ? $0.process : nil } }

    /// Who listens at the other end.
    var peer: LockTable.Holder? { channel.peer.map { LockTable.Holder(process: $0.process, user: $0.user) } }

    /// What to wait for with poll(2) before `nextEvent`, which then finds an event or the end of the mount.
    package var pollEntry: PollEntry { PollEntry(channel.number) }

    /// The state of the mount.
    package func status() throws(ControlError) -> StatusReport {
        guard let report = StatusReport(try ask(["request": "status"], seconds: 30)) else { throw .protocolViolation }
        return report
    }

    /// The daemon's answer to a challenge.
    func prove(_ challenge: MountChallenge) throws(ControlError) -> [UInt8] {
        let answer = try ask(["request": "prove", "challenge": .string(challenge.text)], seconds: 30)
        guard let proof = answer["proof"]?.text.flatMap({ Hexadecimal.decode($0.utf8) }) else {
            throw .protocolViolation
        }
        return proof
    }

    /// Facts about the volume beyond its state.
    package func info() throws(ControlError) -> JSONValue {
        try ask(["request": "info"], seconds: 30)
    }

    /// Locks the volume. Returns when it is locked.
    package func lock(_ request: LockRequest = LockRequest()) throws(ControlError) -> LockReport {
        var members = [JSONMember("request", "lock")]
        if let grace = request.grace { members.append(JSONMember("grace", .number(grace))) }
        if request.reason != .command { members.append(JSONMember("reason", .string(request.reason.rawValue))) }
        guard let report = LockReport(try ask(.object(members), seconds: nil)) else { throw .protocolViolation }
        return report
    }

    /// Unlocks the volume. Waits for the delay that earlier wrong passphrases cause.
    ///
    /// - Parameter condition: when to do it. The daemon refuses otherwise.
    package func unlock(
        _ credential: borrowing Credential, when condition: UnlockCondition = .always
    ) throws(ControlError) -> UnlockOutcome {
        let form = credential.form
        let answer = try credential.withSecret { secret throws(ControlError) in try unlock(form, secret, condition) }
        guard let outcome = UnlockOutcome(word: answer["outcome"]?.text) else { throw .protocolViolation }
        return outcome
    }

    private func unlock(
        _ form: Credential.Form, _ secret: borrowing SecretBytes, _ condition: UnlockCondition
    ) throws(ControlError) -> JSONValue {
        guard secret.byteCount > 0, secret.byteCount <= Credential.maximumLength else { throw .unusableSecret }
        let members = [
            JSONMember("request", "unlock"), JSONMember("kind", .string(form.rawValue)),
            JSONMember("length", .integer(Int64(secret.byteCount))),
        ]
        let request = JSONValue.object(members + condition.members)
        return try secret.withBytes { bytes throws(ControlError) in
            try ask(request, secret: bytes, seconds: nil)
        }
    }

    /// Begins to unmount. If forced, programs that use the mount do not hinder it.
    package func unmount(isForced: Bool = false) throws(ControlError) {
        _ = try ask(["request": "unmount", "force": .bool(isForced)], seconds: 60)
    }

    /// Changes a file's class. Calls `progress` while the change runs.
    package func changeClass(
        _ request: ClassRequest, progress: (ClassProgress) -> Void
    ) throws(ControlError) {
        try send([
            "request": "class", "path": .string(Hexadecimal.text(request.path)),
            "class": .string(request.protectionClass.canonicalName), "mode": .string(request.mode.rawValue),
        ])
        _ = try answer { step in
            progress(step)
            return true
        }
    }

    /// Sends a request whose answer comes after reports of progress. If `progress` returns false, the connection ends, which makes
    /// the daemon give up.
    func ask(
        _ request: JSONValue, progress: (ClassProgress) -> Bool
    ) throws(ControlError) -> JSONValue {
        try send(request)
        return try answer(progress)
    }

    private func answer(_ progress: (ClassProgress) -> Bool) throws(ControlError) -> JSONValue {
        while true {
            let message = try receive(seconds: nil)
            guard let step = message["progress"] else { return try Self.success(message) }
            guard let done = step["done"]?.integer, let total = step["total"]?.integer else { continue }
            guard progress(ClassProgress(done: UInt64(clamping: done), total: UInt64(clamping: total))) else {
                channel.shutDown()
                throw .closed
            }
        }
    }

    /// Subscribes to events.
    ///
    /// - Parameters:
    ///   - wait: whether a lock waits for this connection's `done`, up to its grace.
    ///   - timeout: how long the daemon may take, in seconds.
    /// - Returns: the state. No event after it is missed.
    package func subscribe(wait: Bool, timeout: Double = 30) throws(ControlError) -> VolumeState {
        let answer = try ask(["request": "subscribe", "wait": .bool(wait)], seconds: timeout)
        guard let state = VolumeState(answer["state"]) else { throw .protocolViolation }
        return state
    }

    /// The next event.
    ///
    /// - Parameter timeout: in seconds; nil waits for ever.
    /// - Throws: `ControlError.timedOut`, or `.closed` when the mount has ended.
    package func nextEvent(timeout: Double? = nil) throws(ControlError) -> ControlEvent {
        while true {
            if let event = ControlEvent(try receive(seconds: timeout)) { return event }
        }
    }

    /// Tells the daemon that the lock announced by `willLock` need not wait for this connection.
    package func done(_ id: Int64) throws(ControlError) {
        try send(["request": "done", "id": .integer(id)])
    }

    func ask(
        _ request: JSONValue, secret: Span<UInt8> = Span(), seconds: Double?
    ) throws(ControlError) -> JSONValue {
        try send(request, secret: secret)
        return try Self.success(try receive(seconds: seconds))
    }

    private func send(_ value: JSONValue, secret: Span<UInt8> = Span()) throws(ControlError) {
        do throws(ChannelError) {
            try channel.send(value, secret: secret, deadline: monotonicNanoseconds() + 30_000_000_000)
        } catch .closed {
            // The daemon may have sent the reason before it closed the connection.
            return
        } catch {
            throw Self.error(error)
        }
    }

    private func receive(seconds: Double?) throws(ControlError) -> JSONValue {
        do throws(ChannelError) {
            let start = seconds.map { monotonicNanoseconds() + UInt64(max($0, 0) * 1e9) }
            let frame = try channel.receive(start: start, duration: 30_000_000_000)
            guard let value = try? JSONValue(parsing: frame) else { throw ChannelError.tooLarge }
            return value
        } catch {
            throw Self.error(error)
        }
    }

    private static func error(_ error: ChannelError) -> ControlError {
        switch error {
        case .closed: .closed
        case .timedOut: .timedOut
        case .tooLarge: .protocolViolation
        case .system(let error): .system(error)
        }
    }

    private static func success(_ answer: JSONValue) throws(ControlError) -> JSONValue {
        switch answer["ok"]?.bool {
        case true?: return answer
        case false?:
            throw .refused(
                ControlFailure(
                    code: answer["error"]?.text ?? "unknown", message: answer["message"]?.text ?? "",
                    details: answer["details"] ?? .null))
        case nil: throw .protocolViolation
        }
    }
}
