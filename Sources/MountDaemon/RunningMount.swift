// A mount that answers, and its operations for the control socket, signals and the idle lock.

import CLibrary
import CommandSupport
import Control
internal import FileContents
import FuseBridge
import FuseFrontend
import HostSystem
import KeyFiles
import Keybag
import ProtectedVolume
import SodiumKit
import VolumeAccess
import VolumeFormat

/// The mounted volume with its front end, log and events.
package final class RunningMount: Sendable {
    /// The request that made it.
    let request: MountRequest
    /// The volume's directory and the keybag it was mounted with.
    let access: CheckedVolume
    let volume: Volume
    /// It serves the kernel's requests.
    let frontend: Frontend
    let log: DaemonLog
    let point: MountPoint
    /// Delays after wrong credentials.
    let throttle = UnlockThrottle()
    /// Takes the mount's events.
    let events: MountEvents
    /// The damage reported since mounting.
    let damage: DamageCount
    /// The mount's line in the mount table.
    let entry: MountEntry
    /// The absolute path of the volume's directory.
    let source: HostPath
    /// How far its end has come.
    let ending: MountEnding
    /// Held while the keybag and the device key are read.
    private let reading = Lock(())

    /// Mounts. Returns when the mount answers.
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
        // A record that cannot be read is reported when it is first used.
        try? volume.readUsualClass()
        point = try MountPoint(request.mountPoint)
        do throws(SystemError) { source = try request.volume.absolute().simplified } catch {
            throw ErrorMessages.system(error)
        }
        frontend = Frontend(
            volume: volume, options: request.options, source: source,
            log: { log.write($0) }, trace: request.traces ? TraceOutput().write : nil,
            events: { event in
                events.take(event)
                Record.write(event, access.bag.volumeID)
            })
        // Not the description, because that replaces bytes that are not text.
        let place = try FoundVolume.text(point.path)
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
                throw .init(.failure, "\(request.mountPoint): the system reported success, but the mount is missing")
            }
            self.entry = entry
            ending = MountEnding(of: entry)
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
            return .init(.failure, "\(request.mountPoint): \(MountRefusal(code, said: said).text)")
        case .handshakeFailed:
            return .init(.failure, "\(request.mountPoint): the kernel's FUSE did not answer as expected")
        case .noResources(let code):
            return .init(.failure, "cannot make the threads or buffers of the mount: \(SystemError.reason(of: code))")
        }
    }

    /// Removes a mount that could not be completed.
    func abandon() { Self.abandon(frontend, point) }

    /// The same for a mount whose control socket and other threads exist.
    func giveUp(_ control: ControlService) {
        ending.stopServing()
        throttle.close()
        control.stop()
        events.end()
        abandon()
        record(.unmounted, [.result(.failure)])
    }

    private static func abandon(_ frontend: Frontend, _ point: MountPoint) {
        // A program may already have opened files, which would keep an unreachable mount alive.
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
                    _ = lock(.idle)
                }
            }
        }
        if request.options.idleSeconds != nil, idleLock == nil {
            log.write("cannot start the thread for -o idle: the volume will not lock by itself", .warning)
        }
        frontend.wait()
        ServiceManager.notify(.stopping)
        ending.stopServing()
        // Unlock attempts still waiting would delay shutdown.
        throttle.close()
        // Waiting commands take the end of the process for the end of the mount, so the socket is removed first.
        control.stop()
        events.end()
        idleLock?.join()
        frontend.close()
        // An aborted connection leaves dead mounts in the table. Another mount may be at their paths by now.
        for left in MountLookup.all() where left.device == entry.device && MountLookup.isDead(left) {
            log.write("the connection was aborted: removing the mount", .warning)
            Self.detach(left.mountPoint)
        }
        var code = ExitCode.success
        do throws(VolumeError) {
            try volume.close()
        } catch {
            let reason = ErrorMessages.volume(error, request.volume).message
            if case .stateFile = error {
                log.write(
                    "everything is on disk, but the session could not be closed: \(reason). \(MountSession.consequence)",
                    .error)
            } else {
                log.write("closing the volume failed: \(reason). \(MountSession.consequence)", .error)
            }
            code = .failure
        }
        // Somebody has ended it on purpose. A unit ends it at each shutdown, too.
        if ending.askedBy != nil, !request.isOfUnit, !request.isReadOnly {
            MountClaim.forget(point.path, of: access.found)
        }
        record(.unmounted, Record.Detail.by(ending.askedBy) + [.result(code)])
        return code
    }

    /// Locks after the grace, which the configuration may limit. The caller's thread is blocked meanwhile.
    func lock(_ reason: Record.Reason, grace: Double? = nil, by user: UInt32? = nil) -> LockReport {
        let grace = min(grace ?? request.grace.usual, request.grace.longest)
        if volume.keys.state == .unlocked, events.hub.announceLock(grace: grace) == .overtaken {
            return frontend.overtakenLock(countsAlways: reason == .command)
        }
        // A person who locks a volume that is locked already wants it to stay locked.
        let report = frontend.lock(countsAlways: reason == .command)
        if !report.wasLocked {
            let result = report.state == .sweeping ? ExitCode.sweeping : .success
            record(.locked, Record.Detail.by(user) + [.reason(reason), .result(result)])
        }
        return report
    }

    /// Writes an entry of the record about this volume.
    func record(_ event: Record.Event, _ details: [Record.Detail]) {
        Record.write(event, access.bag.volumeID, details)
    }

    /// Announces an unlock to subscribers.
    func announceUnlock() { events.hub.publish(.willUnlock) }

    /// Unlocks by a credential, with growing delays after wrong ones.
    ///
    /// - Parameter condition: when to do it.
    func unlock(
        _ credential: borrowing Credential, when condition: UnlockCondition = .always, by user: UInt32?
    ) throws(CommandFailure) -> UnlockOutcome {
        var read: CheckedVolume?
        let keys = try throttle.attempt(
            countsAsFailure: { (error: CommandFailure) in read != nil && error.code == .authentication },
            { () throws(CommandFailure) in
                // Read again, because a command may have changed a passphrase since, and only when the attempt's turn has come,
                // because that may take long. One at a time, because the descriptors suffice for one.
                let current = try reading.withLock { (_) throws(CommandFailure) in try access.readAgain() }
                let deviceKey = try reading.withLock { (_) throws(CommandFailure) in
                    try current.found.deviceKey(request.deviceKey)
                }
                read = current
                return try current.unlock(credential, deviceKey, by: user)
            })
        ProcessHardening.trimHeap()
        switch consume keys {
        case .none:
            guard !throttle.isClosed else { throw Self.isEnding(point.path) }
            record(.unlockFailed, Record.Detail.by(user) + [.credential(credential.kind), .result(.busy)])
            throw .init(.busy, "too many unlock attempts are already waiting; try again later")
        case .some(let keys):
            guard let current = read else { preconditionFailure("the keys are of a keybag that was read") }
            // A newer program may have added a feature since mounting. The keybag is verified now.
            if !volume.options.isReadOnly {
                do throws(KeybagError) { try current.bag.requireWritable() } catch {
                    let failure = ErrorMessages.keybag(error, request.volume)
                    throw .init(failure.code, "\(failure.message); unmount, and mount read-only")
                }
            }
            let slot = keys.slot
            let outcome: UnlockOutcome?
            do throws(KeyError) {
                outcome = try takeIn(keys, when: condition)
            } catch .locked {
                throw CommandFailure(.locked, "\(request.mountPoint): the volume is not unlocked")
            } catch .lockInProgress {
                throw CommandFailure(.busy, "the volume is being locked; try again")
            } catch .lockedSince {
                throw CommandFailure(.locked, "the volume has been locked again meanwhile, and stays locked")
            } catch {
                throw CommandFailure(
                    .volume,
                    "\(request.volume): the keybag does not match this mount: it belongs to another volume, or has another public key; unmount and mount again"
                )
            }
            guard let outcome else { throw Self.isEnding(point.path) }
            if outcome != .alreadyUnlocked {
                record(.unlocked, Record.Detail.by(user) + current.bag.credential(ofSlot: slot) + [.result(.success)])
            }
            if !volume.options.isReadOnly { remember(current) }
            return outcome
        }
    }

    /// Pins the keybag that the unlock has verified, and completes an interrupted change of it.
    private func remember(_ current: CheckedVolume) {
        reading.withLock { _ in
            do throws(CommandFailure) { try current.pin() } catch {
                log.write("the keybag could not be recorded in the state file: \(error.message)", .warning)
            }
            if let text = current.endChange() { log.write(text, .warning) }
        }
    }
}
