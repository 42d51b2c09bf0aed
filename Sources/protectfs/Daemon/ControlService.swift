// The control socket of one mount, and the requests that it answers.

import Control
import FuseFrontend
import Glibc
import HostSystem
import Keybag
import ProtectedVolume
import VolumeFormat

/// The control socket from its creation to its removal.
final class ControlService: Sendable {
    private let server: ControlServer
    private let socket: HostPath

    /// Binds the socket that is named by the mount's device numbers, and begins to answer.
    init(_ mount: RunningMount, _ events: EventHub, modeBefore: mode_t) throws(CommandFailure) {
        try Self.checkPlace()
        do throws(SystemError) {
            socket = SystemPaths.controlSocket(of: mount.entry)
            // The kernel reuses device numbers, so a socket that is already there belongs to a mount that is gone.
            _ = unsafe socket.withCString { unsafe unlink($0) }
            let record = Self.modeRecord(socket)
            try Descriptor(opening: record, O_WRONLY | O_CREAT | O_TRUNC, mode: 0o600).write(
                String(modeBefore, radix: 8))
            server = try ControlServer(
                socket: socket, handler: MountHandler(mount), events: events, limits: Self.limits)
            try server.start()
        } catch {
            throw .init(.failure, "the control socket cannot be made: \(error)")
        }
    }

    /// Makes the directory of control sockets, or throws the reason why this user cannot have one there.
    static func checkPlace() throws(CommandFailure) {
        do throws(RuntimeDirectoryError) { _ = try SystemPaths.makeRuntime() } catch {
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

    /// The file that keeps the mode of the bare mount point in case the daemon dies.
    static func modeRecord(_ socket: HostPath) -> HostPath { socket.parent.appending("mode-\(socket.lastComponent)") }

    /// Ends all connections and removes the socket.
    func stop() {
        server.stop()
        let record = Self.modeRecord(socket)
        _ = unsafe record.withCString { unsafe unlink($0) }
    }
}

/// Answers the requests of other programs.
private final class MountHandler: ControlHandler {
    private let mount: RunningMount

    init(_ mount: RunningMount) { self.mount = mount }

    func status() -> StatusReport { mount.status() }

    func lock(grace: Double?) throws(ControlFailure) -> LockReport { mount.lock(grace: grace) }

    func unlock(_ credential: consuming Credential) throws(ControlFailure) -> UnlockOutcome {
        do throws(CommandFailure) { return try mount.unlock(credential) } catch { throw Self.failure(error) }
    }

    func unmount(isForced: Bool) throws(ControlFailure) {
        do throws(CommandFailure) { try mount.unmount(isForced: isForced) } catch { throw Self.failure(error) }
    }

    func changeClass(_ request: ClassRequest, progress: (ClassProgress) -> Bool) throws(ControlFailure) {
        do throws(CommandFailure) { try mount.changeClass(request, progress: progress) } catch {
            throw Self.failure(error)
        }
    }

    func info() throws(ControlFailure) -> JSONValue { mount.info() }

    func path(_ request: PathRequest) throws(ControlFailure) -> PathReport {
        do throws(CommandFailure) { return try mount.path(request) } catch { throw Self.failure(error) }
    }

    /// The command gets the exit code and the message unchanged.
    private static func failure(_ failure: CommandFailure) -> ControlFailure {
        ControlFailure(code: failure.code.word, message: failure.message, details: .null)
    }
}
