// The daemon opens the volume, mounts it, serves it until it is unmounted, and cleans up.

import BackingStore
import CLibrary
package import CommandSupport
internal import FileContents
import FuseBridge
import FuseFrontend
import HostSystem
import KeyFiles
package import Keybag
package import ProtectedVolume
import SodiumKit
package import VolumeAccess
import VolumeFormat

/// One mount from its beginning to its end.
package enum Daemon {
    /// Mounts and serves. Returns when the mount has ended.
    ///
    /// - Parameters:
    ///   - connectionGuard: forked before the credential was read.
    ///   - isStarted: true in the background, with a starter that waits for the report.
    package static func run(
        _ request: MountRequest, _ credential: consuming Credential?, _ connectionGuard: consuming ConnectionGuard?,
        isStarted: Bool
    ) throws(CommandFailure) -> ExitCode {
        // Before the first thread, because threads inherit the mask.
        let signals = SignalSet(blocking: [SIGTERM, SIGINT, SIGHUP] + (isStarted ? [SIGQUIT] : []))
        // Until it leaves the terminal: it must not stop, or be killed, with a mount that nobody serves.
        if isStarted { _ = SignalSet(blocking: [SIGTSTP, SIGTTIN, SIGTTOU]) }
        umask(0)
        ProcessHardening.raiseOpenFiles()
        let limits = ProcessHardening.liftLimits()
        let report = DaemonReport(isStarted: isStarted)
        let log = DaemonLog(request.volume.description)
        for limit in limits {
            log.write("a limit of this session holds for the mount, and so for all programs: \(limit)", .warning)
        }
        let mount: RunningMount
        let control: ControlService
        do throws(CommandFailure) {
            (mount, control) = try start(request, credential, log)
        } catch {
            report.failed(error)
            return error.code
        }
        let watcher = BackgroundThread(name: "signals") { [mount] in
            while let signal = signals.wait() {
                log.write("signal \(signal): locking and unmounting")
                mount.end { _ = signals.wait(timeout: $0) }
            }
        }
        // Not kept, because it ends with the process.
        _ = BackgroundThread(name: "mount table") { [mount] in mount.watchMountTable() }
        // Without one of its threads a mount might neither lock nor end.
        guard watcher != nil, BackgroundThread.failureCount == 0 else {
            mount.giveUp(control)
            let failure = tooFewThreads
            report.failed(failure)
            return failure.code
        }
        let isGuarded = connectionGuard?.watch(mount.entry) ?? false
        // Not before it has mounted: an automount lets only the process group that mount(8) was started in use the mount point
        // (autofs(5), "oz mode"); every other process waits for the end of the mount.
        if isStarted { setsid() }
        let isWanted = report.ready()
        // The unit that has started a mount in the background is not the mount.
        if !isStarted { ServiceManager.notify(.ready) }
        if isStarted { detach(log) }
        if !isWanted {
            log.write("the mount command was interrupted: unmounting")
            kill(getpid(), SIGTERM)
        }
        if !isGuarded {
            log.write("the guard process is missing: programs on the mount may hang if this daemon is killed", .warning)
        }
        let code = mount.serve(control)
        // Not earlier, because the guard takes the end of the pipe for the end of the daemon.
        connectionGuard.take()?.release()
        return code
    }

    private static func start(
        _ request: MountRequest, _ credential: consuming Credential?, _ log: DaemonLog
    ) throws(CommandFailure) -> (RunningMount, ControlService) {
        try checkLockedMemory()
        try checkDescriptors()
        guard BackgroundThread.canStart(leastThreads) else { throw tooFewThreads }
        var access = try request.check()
        var request = request
        let obstacle = request.isReadOnly ? nil : try access.obstacle()
        if obstacle != nil { request = request.readOnly }
        let options = request.options.volume
        if !options.isReadOnly {
            try checkWritable(access)
            if let text = StoreWarning.smallBlocks(below: access.directory, request.volume) {
                log.write(text, .warning)
            }
        }
        var (ring, isUnlocked, slot) = try openKeys(access, request.deviceKey, credential)
        if let slot = access.bag.newerDeviceSlot {
            log.write(ErrorMessages.newerDeviceSlot(slot, request.volume), .warning)
        }
        // Not before the keybag is verified, which may be the obstacle.
        if let obstacle { log.write("\(obstacle.message); the volume is mounted read-only", .warning) }
        let state = try stateStore(access, request)
        let damage = DamageCount()
        var opened: Volume?
        // The keybag was read before the claim. A rotation may have ended since, and nothing would open what is written with its
        // former keys.
        for _ in 0..<readings where opened == nil {
            if !isCurrent(access) {
                access = try access.readAgain()
                (ring, isUnlocked, slot) = try openKeys(access, request.deviceKey, credential)
            }
            if isUnlocked, !options.isReadOnly {
                if state != nil { try access.pin() }
                if let text = access.endChange() { log.write(text, .warning) }
            }
            let volume = try open(access, request, ring, state, damage, log)
            if isCurrent(access) { opened = volume } else { try? volume.close() }
        }
        _ = consume credential
        guard let volume = opened else {
            throw .init(.busy, "\(request.volume): its keys were changed while it was being mounted; mount it again")
        }
        let events = MountEvents()
        let mount = try RunningMount(request, access, volume, damage, log, events)
        do throws(CommandFailure) {
            let control = try ControlService(mount, events.hub)
            if mount.point.close() {
                log.write(
                    "\(mount.point.path): from now on nothing can be saved there while the volume is not mounted")
            }
            mount.record(.mounted, [.ownUser, .result(.success)])
            if isUnlocked {
                mount.record(.unlocked, [.ownUser] + access.bag.credential(ofSlot: slot) + [.result(.success)])
            }
            return (mount, control)
        } catch {
            mount.abandon()
            throw error
        }
    }

    /// How often the keybag is read if a command changes it meanwhile.
    private static let readings = 5

    /// Whether the volume has this keybag still.
    private static func isCurrent(_ access: CheckedVolume) -> Bool {
        access.isPrevious || (try? KeybagFile.read(in: access.directory)) == access.bag.bytes
    }

    /// Claims the volume and opens it. Waits for a command that changes the keys.
    private static func open(
        _ access: CheckedVolume, _ request: MountRequest, _ ring: KeyRing, _ state: StateFileStore?,
        _ damage: DamageCount, _ log: DaemonLog
    ) throws(CommandFailure) -> Volume {
        let plan = DescriptorPlan.ofThisProcess
        let directory: HostDirectory
        do throws(Errno) {
            let quota = DescriptorQuota(files: plan.files, all: plan.store, reserve: DescriptorPlan.late)
            directory = try access.directory.limited(by: quota)
        } catch {
            throw ErrorMessages.store(error, access.path)
        }
        let withNames = request.options.logsNames
        let options = request.options.volume
        return try EndingMount.waiting(for: request.volume, changing: access.bag.volumeID) {
            () throws(CommandFailure) in
            do throws(VolumeError) {
                return try Volume.open(directory: directory, keys: ring, state: state, options: options) {
                    notice in
                    if !isHarmless(notice) { damage.add() }
                    Record.write(notice, access.bag.volumeID)
                    log.write(describe(notice, withNames: withNames), .warning)
                }
            } catch .refused(.EBUSY) {
                throw EndingMount.inUse(request.volume)
            } catch {
                throw ErrorMessages.volume(error, request.volume)
            }
        }
    }

    /// Checked now, so that programs do not run out of memory in the middle of their work.
    private static func checkLockedMemory() throws(CommandFailure) {
        let (least, limit) = (WorkerLimits.leastLockedMemory, lockableMemory())
        guard limit < least else { return }
        throw .init(
            .failure,
            "the limit of locked memory, \(limit / 1024) KiB, is too low: a mount needs at least \(least / 1024) KiB to keep keys and contents out of swap; raise it (ulimit -l, or LimitMEMLOCK= in systemd)"
        )
    }

    /// Checked now, so that the mount can be reached while programs have files open.
    private static func checkDescriptors() throws(CommandFailure) {
        let limit = DescriptorPlan.ofThisProcess.limit
        guard limit < DescriptorPlan.least else { return }
        throw .init(
            .failure,
            "the limit of open files, \(limit), is too low: a mount needs at least \(DescriptorPlan.least); raise it (ulimit -Hn, or LimitNOFILE= in systemd)"
        )
    }

    /// The threads of the mount itself; of the control socket and its watch, for signals and for the mount table; for a lock that
    /// flushes files; and for a few connections. Checked before mounting, so that nothing was mounted yet.
    private static let leastThreads = WorkerLimits.threads + 7 + 2 + 4

    private static var tooFewThreads: CommandFailure {
        .init(
            .failure,
            "the limit of processes and threads is too low: a mount needs \(leastThreads) more threads to serve, lock and end; raise it (ulimit -u, pids.max of the control group, or TasksMax= in systemd)"
        )
    }

    /// Checks now, and not at the first save, whether a writable mount can write.
    private static func checkWritable(_ access: CheckedVolume) throws(CommandFailure) {
        do throws(VolumeError) {
            try NewVolume.tryStore(access.directory)
        } catch .store(.EROFS) {
            throw .init(.failure, "\(access.path): the backing file system is read-only; mount with -o ro")
        } catch .store(.EACCES) {
            throw .init(
                .failure,
                "\(access.path): permission denied to write to the volume; mount with -o ro, or change its permissions")
        } catch .store(.ENOSPC), .store(.EDQUOT) {
            // A full volume can still be read and cleaned up.
        } catch {
            throw ErrorMessages.volume(error, access.path)
        }
    }

    /// Opens the class keys: with the device key alone those of before first unlock, with a credential all of them.
    package static func openKeys(
        _ access: CheckedVolume, _ choice: FoundVolume.DeviceKeyChoice, _ credential: borrowing Credential?
    ) throws(CommandFailure) -> (KeyRing, isUnlocked: Bool, slot: UInt32?) {
        let deviceKey = try access.found.deviceKey(choice)
        let keys: VolumeKeys
        switch credential {
        case .none:
            if let failure = deviceKey.missing("so the volume cannot be mounted without unlocking it") { throw failure }
            guard let ring = try deviceRing(access, deviceKey.key) else { preconditionFailure("it is here") }
            return (ring, false, nil)
        case .some(let credential): keys = try access.unlock(credential, deviceKey)
        }
        let slot = keys.slot
        guard access.bag.opensWithDeviceKey, let ring = try deviceRing(access, deviceKey.key) else {
            do throws(SodiumError) { return (try KeyRing(access.bag, keys: keys), true, slot) } catch {
                throw ErrorMessages.memory(error)
            }
        }
        do throws(KeyError) {
            _ = try ring.unlock(with: keys)
        } catch {
            throw ErrorMessages.keybag(.bundleMismatch, access.path)
        }
        return (ring, true, slot)
    }

    /// The keys of before first unlock. Nil without a device key.
    private static func deviceRing(
        _ access: CheckedVolume, _ key: borrowing SecretKey?
    ) throws(CommandFailure) -> KeyRing? {
        let device: DeviceKeys
        do throws(KeybagError) {
            switch key {
            case .some(let key): device = try access.bag.open(deviceKey: key)
            case .none: return nil
            }
        } catch {
            throw ErrorMessages.keybag(error, access.path)
        }
        do throws(SodiumError) {
            return try KeyRing(access.bag, device: device, isPublicKeyProven: access.isPublicKeyPinned)
        } catch {
            throw ErrorMessages.memory(error)
        }
    }

    /// The state file, which keeps the open epochs. A writable mount must be able to write it, unless it uses `-o recover`.
    private static func stateStore(
        _ access: CheckedVolume, _ request: MountRequest
    ) throws(CommandFailure) -> StateFileStore? {
        if request.isReadOnly {
            // A read-only mount must not make the directory.
            return try LocalState.load(access.found) == nil ? nil : LocalState.store(access.found)
        }
        do throws(CommandFailure) {
            try EndingMount.waiting(for: request.volume, changing: access.bag.volumeID) {
                () throws(CommandFailure) in
                try MountClaim.take(
                    access.found, isShared: request.options.volume.isShared, mountPoint: request.mountPoint,
                    // Without a device key nothing can mount it without unlocking.
                    options: request.isOfUnit || !access.bag.hasDeviceKey ? nil : request.optionWords)
            }
            try LocalState.touch(access.found)
            return try LocalState.store(access.found)
        } catch {
            if error.code == .busy { throw error }
            if request.options.volume.recovers { return nil }
            throw .init(
                error.code,
                "\(error.message); without the state file, a crash cannot be distinguished from tampering (-o recover mounts without it)"
            )
        }
    }

    /// Leaves the terminal, and the current directory, which could not be unmounted while we are in it.
    private static func detach(_ log: DaemonLog) {
        log.moveToSystem()
        // A program that waits for the end of our output must not wait for the end of the mount.
        let file = HostPath("/dev/null")
        if let null = (try? Descriptor(opening: file, O_RDWR)) ?? (try? Descriptor(opening: file, O_RDONLY)) {
            for stream in Int32(0)...2 { dup2(null.number, stream) }
        }
        _ = unsafe chdir("/")
    }

    /// Whether a notice reports no damage.
    private static func isHarmless(_ notice: VolumeNotice) -> Bool {
        switch notice {
        case .unprovenPublicKey, .newer, .older, .seenTable: true
        default: false
        }
    }

    /// A notice for the log.
    package static func describe(_ notice: VolumeNotice, withNames: Bool) -> String {
        switch notice {
        case .crashEvidence(let evidence):
            "crash damage tolerated in backing inode \(evidence.inode), page \(evidence.page): \(evidence.kind.rawValue)"
        case .undecryptable(let inode, let name):
            // It may be the name of a file that someone has put into the volume's directory by mistake.
            "an entry of backing directory \(inode) does not decrypt\(withNames ? ": \(HostPath(bytes: name))" : "")"
        case .missingRecord(let inode):
            "backing directory \(inode) has no record: nothing can be created in it; protectfs fsck --repair makes one"
        case .restoredRecord(let inode): "the record of backing directory \(inode) was restored after a crash"
        case .late(let number, let notice): "\(LateFileName.text(of: number)), writes after a lock: \(describe(notice))"
        case .unprovenPublicKey:
            "files of class completeUnlessOpen are refused until the first unlock: this machine has not verified the volume's public key yet"
        case .older(let inode):
            "backing inode \(inode) is older than this machine has seen it: someone has put an older version back; "
                + "protectfs trust accepts it"
        case .seenTable(.missing):
            "this machine has no table of the versions of files: from now on it notices versions older than those that are there now"
        case .seenTable(let fault):
            "the table of the versions of files \(describe(fault)): older versions than it knew are not noticed"
        case .damaged(let damage, let inode): "damage in backing inode \(inode): \(damage.rawValue)"
        case .newer(let object, let inode):
            "backing inode \(inode) was made by a newer version of protectfs (\(object.rawValue)). It is not damaged. Programs that "
                + "need what is new in it get \"Operation not supported\""
        }
    }

    private static func describe(_ fault: SeenTableFault) -> String {
        switch fault {
        case .missing: "is missing"
        case .damaged: "is damaged, and is begun anew"
        case .failed(let error): "cannot be used (\(SystemError.reason(of: error.rawValue)))"
        }
    }

    private static func describe(_ notice: LateNotice) -> String {
        switch notice {
        case .waits: "the next writable mount will apply them to their files"
        case .missing: "the file is missing, so these writes are lost"
        case .refused: "the file was not made by a lock of this volume, or was changed; none of it is applied"
        case .notListed: "the file was used before, or belongs to another machine; none of it is applied"
        case .cutOff: "the file is cut off or changed; the records before the damage are applied"
        case .newer:
            "a newer version of protectfs made the file; it is kept, and files of class complete are refused until that version has applied it"
        case .applied(let count): "\(count) applied to their files"
        case .failed(let error): "they could not be applied to a file, which stays closed: \(error)"
        }
    }
}
