// A mount that answers: what the control socket, signals and the idle timer can do with it.

import Control
import FuseBridge
import FuseFrontend
import Glibc
import HostSystem
import Keybag
import ProtectedVolume
import SodiumKit
import VolumeFormat

/// The mounted volume with everything around it.
final class RunningMount: Sendable {
    /// How it was asked for.
    let request: MountRequest
    /// The volume's directory and the keybag it was mounted with.
    let access: CheckedVolume
    /// The volume.
    let volume: Volume
    /// The mount.
    let frontend: Frontend
    /// Its log.
    let log: DaemonLog
    let point: MountPoint
    /// Delays after wrong credentials.
    let throttle = UnlockThrottle()
    /// Takes what happens to the mount.
    let events: MountEvents
    /// Departures and damage reported since mounting.
    let damage: DamageCount
    /// The mount's line in the mount table.
    let entry: MountEntry
    /// Whether the session still serves. Whoever locks or unmounts by himself, and is not asked to over the socket, holds
    /// the shared side: the session is not freed under him.
    let serving = RWLock(true)
    /// Held while the keybag and the device key are read.
    private let reading = Lock(())
    /// Whether the mount has been told to end: keys that are wiped stay so.
    let ending = Lock(false)

    /// Mounts, and returns when the mount answers.
    init(
        _ request: MountRequest, _ access: CheckedVolume, _ volume: Volume, _ damage: DamageCount, _ log: DaemonLog,
        _ events: MountEvents
    ) throws(CommandFailure) {
        self.request = request
        self.access = access
        self.volume = volume
        self.log = log
        self.damage = damage
        self.events = events
        // A record that cannot be read is met, and said, at the first use.
        try? volume.readUsualClass()
        point = try MountPoint(request.mountPoint)
        let source: HostPath
        do throws(SystemError) { source = try request.volume.absolute() } catch { throw ErrorMessages.system(error) }
        frontend = Frontend(
            volume: volume, options: request.options, source: MountLookup.simplified(source).description,
            log: { log.write($0) }, trace: request.traces ? TraceOutput().write : nil, events: { events.take($0) })
        // Not the description, which is for people.
        let place = try VolumeAccess.text(point.path)
        let capture = ErrorCapture()
        let failure: SessionError?
        do throws(SessionError) {
            try frontend.mount(at: place)
            failure = nil
        } catch {
            failure = error
        }
        let said = capture.end()
        if let failure { throw Self.explain(failure, said, request) }
        do throws(CommandFailure) {
            guard let entry = try? MountTable.entry(at: point.path), entry.isProtectfs else {
                throw .init(.failure, "\(request.mountPoint): the mount is not there although the system said so")
            }
            self.entry = entry
            var statistics = statvfs()
            guard unsafe point.path.withCString({ unsafe statvfs($0, &statistics) }) == 0 else {
                throw .init(
                    .failure, "\(request.mountPoint): the mount does not answer: \(SystemError.reason(of: errno))")
            }
        } catch {
            Self.abandon(frontend, point)
            throw error
        }
    }

    private static func explain(_ error: SessionError, _ said: String?, _ request: MountRequest) -> CommandFailure {
        switch error {
        case .mountRefused(let code):
            if code == EPERM || code == EACCES {
                return .init(
                    .failure, "\(request.mountPoint): mounting is not permitted here\(said.map { " (\($0))" } ?? "")")
            }
            return .init(.failure, "\(request.mountPoint): cannot mount: \(said ?? SystemError.reason(of: code))")
        case .handshakeFailed:
            return .init(.failure, "\(request.mountPoint): the kernel's FUSE did not answer as expected")
        case .noResources(let code):
            return .init(.failure, "no threads or buffers for the mount: \(SystemError.reason(of: code))")
        }
    }

    /// Takes a mount away that could not be made whole.
    func abandon() { Self.abandon(frontend, point) }

    private static func abandon(_ frontend: Frontend, _ point: MountPoint) {
        // A program may have got in already, and keep what nobody can reach any more.
        _ = frontend.lock()
        detach(point.path)
        frontend.wait()
        frontend.close()
        point.restore()
    }

    /// Serves until the mount has ended, then closes everything in order.
    func serve(_ control: ControlService) -> ExitCode {
        let idleLock = request.options.idleSeconds.flatMap { _ in
            BackgroundThread(name: "idle lock") { [self] in
                events.locksWhenIdle {
                    log.write("idle: locking")
                    _ = lock(grace: nil)
                }
            }
        }
        if request.options.idleSeconds != nil, idleLock == nil {
            log.write("no thread for -o idle: the volume will not lock by itself", .warning)
        }
        frontend.wait()
        serving.withWriteLock { $0 = false }
        // Who waits for his turn after wrong passphrases would hold the end up.
        throttle.close()
        // Commands that wait see the end by the end of the process, so the socket goes first.
        control.stop()
        events.end()
        idleLock?.join()
        frontend.close()
        // An aborted connection leaves the mount in the table, dead; another mount may be there by now.
        if MountLookup.all().contains(where: { $0.device == entry.device && $0.mountPoint == point.path }),
            MountLookup.isDead(entry)
        {
            log.write("the connection was aborted: the mount is taken away", .warning)
            Self.detach(point.path)
        }
        var code = ExitCode.success
        do throws(VolumeError) {
            try volume.close()
        } catch {
            log.write(
                "closing the volume failed: \(ErrorMessages.volume(error, request.volume).message); fsck is needed",
                .error)
            code = .failure
        }
        point.restore()
        return code
    }

    /// Locks after the grace; the caller's thread is blocked meanwhile.
    func lock(grace: Double?) -> LockReport {
        if volume.keys.state == .unlocked { _ = events.hub.announceLock(grace: grace) }
        return frontend.lock()
    }

    /// Tells subscribers that an unlock comes.
    func announceUnlock() { events.hub.publish(.willUnlock) }

    /// Unlocks by a credential, with growing delays after wrong ones.
    func unlock(_ credential: borrowing Credential) throws(CommandFailure) -> UnlockOutcome {
        // Read again: a passphrase may have been changed beside the mount.
        // One at a time, as descriptors are kept for one.
        let current = try reading.withLock { (_) throws(CommandFailure) in try access.readAgain() }
        let deviceKey = try reading.withLock { (_) throws(CommandFailure) in
            try current.found.deviceKey(request.deviceKey)
        }
        let keys = try throttle.attempt(
            countsAsFailure: { (error: CommandFailure) in error.code == .authentication },
            { () throws(CommandFailure) in try current.unlock(credential, deviceKey) })
        ProcessHardening.trimHeap()
        switch consume keys {
        case .none:
            throw throttle.isClosed
                ? Self.isEnding(request.mountPoint)
                : .init(.busy, "too many attempts wait already; try again later")
        case .some(let keys):
            let outcome: UnlockOutcome?
            do throws(KeyError) {
                outcome = try takeIn(keys)
            } catch .lockInProgress {
                throw CommandFailure(.busy, "the volume is just being locked; try again")
            } catch {
                throw CommandFailure(
                    .volume,
                    "\(request.volume): the keybag is not the one of this mount: it is another volume's, or has another public key; unmount and mount again"
                )
            }
            guard let outcome else { throw Self.isEnding(request.mountPoint) }
            if !volume.options.isReadOnly { remember(current) }
            return outcome
        }
    }

    /// What an unlock has verified is pinned, and a change of the keybag that was cut off comes to its end.
    private func remember(_ current: CheckedVolume) {
        reading.withLock { _ in
            do throws(CommandFailure) { try current.pin() } catch {
                log.write("the keybag could not be noted in the state file: \(error.message)", .warning)
            }
            if let text = current.endChange() { log.write(text, .warning) }
        }
    }
}
