// The control socket of one mount, and the requests that it answers.

import CLibrary
import CommandSupport
import Control
import FuseFrontend
import HostSystem
import Keybag
import ProtectedVolume
import VolumeAccess
import VolumeFormat

/// The control socket from its creation to its removal.
///
/// The last logout removes `/run/user/UID` with all sockets in it. The mount may stay, so it then gets another socket, where all
/// programs look for it.
final class ControlService: Sendable {
    private struct State: Sendable {
        /// The first one, and those that were made after a socket had vanished.
        var servers: [ControlServer] = []
        var socket = HostPath("")
        var isEnding = false
    }
    /// How long the mount may be without a socket, in nanoseconds.
    private static let patience: UInt64 = 2_000_000_000

    private let device: String
    private let mountPoint: HostPath
    private let handler: MountHandler
    private let events: EventHub
    private let log: DaemonLog
    private let state = Lock(State())
    private let ended = Condition()
    private let watcher = Lock<BackgroundThread?>(nil)

    /// Binds the socket that is named by the mount's device numbers, and begins to answer.
    init(_ mount: RunningMount, _ events: EventHub) throws(CommandFailure) {
        device = mount.entry.device
        mountPoint = mount.point.path
        self.events = events
        log = mount.log
        handler = MountHandler(mount)
        try serve()
        let thread = BackgroundThread(name: "pfs-socket") { [self] in watch() }
        watcher.withLock { $0 = thread }
    }

    private func serve() throws(CommandFailure) {
        let socket = try Self.checkPlace(mountPoint).appending(device)
        do throws(SystemError) {
            let server = try ControlServer(socket: socket, handler: handler, events: events, limits: Self.limits)
            try server.start()
            state.withLock { state in
                state.servers.append(server)
                state.socket = socket
            }
        } catch {
            throw .init(.failure, "the control socket cannot be made: \(error)")
        }
    }

    /// Makes the socket again if it has vanished.
    private func watch() {
        while true {
            let isEnding = state.wait(on: ended, until: monotonicNanoseconds() + Self.patience) { state in
                state.isEnding ? true : nil
            }
            if isEnding == true { return }
            let socket = state.withLock { $0.socket }
            do throws(SystemError) { _ = try FileStatus.read(socket) } catch {
                guard error.code == ENOENT, (try? serve()) != nil else { continue }
                log.write("the control socket \(socket) was removed; there is a new one")
            }
        }
    }

    /// Makes the directory of control sockets, or throws the reason why this user cannot have one there.
    @discardableResult
    static func checkPlace(_ mountPoint: HostPath) throws(CommandFailure) -> HostPath {
        do throws(RuntimeDirectoryError) { return try SystemPaths.makeRuntime(outside: mountPoint) } catch {
            throw ErrorMessages.runtime(error)
        }
    }

    /// The limits of the protocol, reduced to the available descriptors.
    private static var limits: ControlLimits {
        let plan = DescriptorPlan.ofThisProcess
        var limits = ControlLimits.standard
        limits.connections = plan.connections
        limits.subscribers = plan.connections / 2
        limits.pending = plan.connections
        limits.queued = plan.queued
        return limits
    }

    /// Ends all connections and removes the socket.
    func stop() {
        state.withLock { $0.isEnding = true }
        ended.broadcast()
        watcher.withLock { $0.take() }?.join()
        for server in state.withLock({ $0.servers }) { server.stop() }
    }
}

/// Answers the requests of other programs.
private final class MountHandler: ControlHandler {
    private let mount: RunningMount

    init(_ mount: RunningMount) { self.mount = mount }

    func status() -> StatusReport { mount.status() }

    func lock(_ request: LockRequest, by user: UInt32?) throws(ControlFailure) -> LockReport {
        mount.lock(Self.reason(request.reason), grace: request.grace, by: user)
    }

    private static func reason(_ reason: LockRequest.Reason) -> Record.Reason {
        switch reason {
        case .command: .command
        case .sleep: .sleep
        case .agent: .agent
        }
    }

    func unlock(
        _ credential: consuming Credential, when condition: UnlockCondition, by user: UInt32?
    ) throws(ControlFailure) -> UnlockOutcome {
        do throws(CommandFailure) { return try mount.unlock(credential, when: condition, by: user) } catch {
            throw Self.failure(error)
        }
    }

    func renewKey(
        _ request: RenewalRequest, progress: (ClassProgress) -> Bool
    ) throws(ControlFailure) -> RenewalReport {
        do throws(CommandFailure) { return try mount.renewKey(request, progress: progress) } catch {
            throw Self.failure(error)
        }
    }

    func formerKeys() throws(ControlFailure) -> FormerKeysReport {
        do throws(CommandFailure) { return try mount.formerKeys() } catch { throw Self.failure(error) }
    }

    func unmount(isForced: Bool, by user: UInt32?) throws(ControlFailure) {
        do throws(CommandFailure) { try mount.unmount(isForced: isForced, by: user) } catch {
            throw Self.failure(error)
        }
    }

    func changeClass(
        _ request: ClassRequest, by user: UInt32?, progress: (ClassProgress) -> Bool
    ) throws(ControlFailure) {
        do throws(CommandFailure) { try mount.changeClass(request, by: user, progress: progress) } catch {
            throw Self.failure(error)
        }
    }

    func info() throws(ControlFailure) -> JSONValue { mount.info() }

    func prove(_ challenge: MountChallenge) -> [UInt8] {
        challenge.answer(mount.volume.keys.metadata, major: mount.entry.major, minor: mount.entry.minor)
    }

    func path(_ request: PathRequest) throws(ControlFailure) -> PathReport {
        do throws(CommandFailure) { return try mount.path(request) } catch { throw Self.failure(error) }
    }

    func trust(_ request: TrustRequest) throws(ControlFailure) {
        do throws(CommandFailure) { try mount.trust(request) } catch { throw Self.failure(error) }
    }

    /// The command gets the exit code and the message unchanged.
    private static func failure(_ failure: CommandFailure) -> ControlFailure {
        ControlFailure(code: failure.code.word, message: failure.message, details: .null)
    }
}
