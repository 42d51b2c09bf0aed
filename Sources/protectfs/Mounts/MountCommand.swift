// `protectfs mount` and `protectfs unmount`.

import CLibrary
import CommandSupport
import Control
import FuseFrontend
import HostSystem
import Keybag
import MountDaemon
import VolumeAccess

extension Command {
    static let mount = Command(
        "mount", .mounting, [.volume, Operand("MOUNTPOINT", .directory)], "Mounts a volume and unlocks it.",
        details: """
            The command returns when the mount is ready for use. A process in the background serves it.
            """,
        more: """
            A device key that comes from a pipe (--device-key <(COMMAND), /dev/stdin, a FIFO) is read once. It stays in locked
            memory until the mount ends, because each unlock needs it.
            """,
        manualPage: "protectfs-mount",
        options: [
            Option(
                "option", letter: "o", value: Value(name: "LIST", kind: .mountOptions), repeats: true,
                help: "mount options, separated by commas"),
            Option("foreground", letter: "f", help: "stay in the foreground and log to standard error"),
            Option("log-names", help: "with --foreground, log names of files instead of inode numbers only"),
            Option(
                "trace",
                help:
                    "with --foreground, print one line per request to standard error, which must be read; --log-names adds the names"
            ),
            Option(
                "no-unlock", mountWord: .unlocking,
                help: "mount without unlocking; until the first unlock, only files of class none can be opened"),
            Option("read-only", letter: "r", help: "mount read-only, as -o ro does"),
            .deviceKey,
        ] + Option.credentials + [
            .acceptKeybag, .previousKeybag,
            Option(
                "accept-copy", mountWord: .plain,
                help: "mount a copy of a volume for the first time while the other one is mounted"),
            Option("started-by-mount", help: nil),
        ],
        examples: [
            .init("protectfs mount ~/.documents ~/documents", "Mount and unlock; ask for the passphrase."),
            .init(
                "protectfs mount -o idle=10m,nodev ~/.documents ~/documents", "Lock after ten minutes without use."),
        ],
        run: { (arguments) throws(CommandFailure) in
            if arguments.has("started-by-mount") {
                guard DaemonStart.isStarted else {
                    throw .init(.usage, "--started-by-mount is only for the daemon that protectfs mount starts")
                }
                // For example a shell's lock file, which the mount would keep locked.
                ProcessHardening.closeInherited(from: DaemonReport.secretNumber + 1)
            }
            var request = try MountRequest(arguments)
            if request.options.isRemount { return try Remount.run(request) }
            if arguments.has("started-by-mount") {
                let connectionGuard = ConnectionGuard()
                let secrets = StartSecrets()
                if let key = try secrets.deviceKey() { request.take(key) }
                return try Daemon.run(request, try secrets.credential(), connectionGuard, isStarted: true)
            }
            let volume = try request.check()
            let place = try volume.found.place()
            if !request.isReadOnly {
                try refuseBesideOther(volume, place, isAccepted: arguments.has("accept-copy"))
                if let warning = place.warning(volume.path, volume.bag.volumeID) { Output.note(warning) }
            }
            if arguments.has("foreground") {
                let connectionGuard = ConnectionGuard()
                try request.readDeviceKey()
                let credential = try credential(arguments, request, volume.bag)
                return try Daemon.run(request, credential, connectionGuard, isStarted: false)
            }
            try request.readDeviceKey()
            let ready = request
            try CredentialInput.retrying(arguments) { () throws(CommandFailure) in
                try DaemonStart.run(arguments.words, try credential(arguments, ready, volume.bag), ready.deviceKey)
            }
            return .success
        })

    /// Refuses the first writable mount of a copy while another store of the volume is mounted: it is easily a mistake, and
    /// what is then written to one of them is missing in the other.
    private static func refuseBesideOther(
        _ volume: CheckedVolume, _ place: StoreIdentity, isAccepted: Bool
    ) throws(CommandFailure) {
        guard place.isNewCopy, !isAccepted, let other = try MountClaim.otherInUse(volume.found) else { return }
        throw .init(
            .busy,
            "\(volume.path): is a copy of the volume at \(other), which is mounted or being checked right now; to read the copy, use -o ro; to use it as a volume of its own, which will differ from the other one, use --accept-copy once"
        )
    }

    private static func credential(
        _ arguments: Arguments, _ request: MountRequest, _ bag: Keybag
    ) throws(CommandFailure) -> Credential? {
        if request.noUnlock { return nil }
        return try CredentialInput.credential(arguments, prompt: "Passphrase of \(request.volume): ", bag)
    }

    static let unmount = Command(
        "unmount", .mounting, [.onlyMount], "Unmounts a volume.",
        details: """
            The command returns when everything is on disk and the daemon has ended, also straight after umount(8) or
            fusermount3 -u. These do not wait for it, because the kernel does not, and the file system of the volume is in
            use until then. It also removes a mount whose daemon has died. If the volume is also mounted
            elsewhere, such as in a container, the volume is locked at once, the command names the processes, and the mount ends there \(UseElsewhere.grace) s later.

            \(Operand.onlyMountDetails)
            """,
        options: [
            Option(
                "force",
                help:
                    "end the mount at once, even if programs use it here or elsewhere; what they have written is stored as far as possible"
            ),
            Option(
                "grace", value: .seconds,
                help: "lock at once, give programs this time to close their files, then end the mount as --force does"),
        ],
        examples: [
            .init("protectfs unmount ~/documents", "Unmount a volume."),
            .init("protectfs unmount --force ~/documents", "End a mount that programs still use."),
            .init("protectfs unmount --grace 10 ~/documents", "Lock now, and end it at the latest in ten seconds."),
        ], usesKeys: false,
        run: { (arguments) throws(CommandFailure) in
            let grace = try arguments.seconds("grace")
            if grace != nil, arguments.has("force") { throw .init(.usage, "use either --force or --grace") }
            let force = arguments.has("force") ? 0 : grace
            guard let path = arguments.operands.first else {
                let entry = try KnownMount.mounted(atOrOnly: nil)
                return try unmount(entry.mountPoint, entry, grace: force)
            }
            let entry: MountEntry
            do throws(CommandFailure) { entry = try MountLookup.at(path) } catch {
                guard error.code == .notMounted, try EndingMount.wait(forMountAt: path) else { throw error }
                return .success
            }
            return try unmount(path, entry, grace: force)
        })

    /// The failure of an unmount, with the processes that use the mount if they can be seen.
    private static func busy(_ failure: CommandFailure, _ path: HostPath, _ entry: MountEntry) -> CommandFailure {
        // Not if it is another mount over it that must go first.
        guard failure.code == .busy, (try? MountTable.entry(at: entry.mountPoint)) == entry else { return failure }
        // The daemon and this command keep nothing from being unmounted.
        let users = MountUser.all(of: entry).filter { Processes.name(of: $0.process) != "protectfs" }
        guard !users.isEmpty else { return failure }
        let (ancestors, most) = (Processes.ancestors, 8)
        let shell = users.first { $0.hasDirectory && ancestors.contains($0.process) }
        var words = users.filter { $0 != shell }.prefix(most).map { StatusText.process($0.process) }
        if users.count > most + 1 { words.append("\(users.count - most) more") }
        if shell != nil { words.append("your own shell, whose directory is in it (cd out of it)") }
        return .init(
            .busy,
            "\(path): in use by \(words.joined(last: "and")); end that, or only lock the volume: protectfs lock \(path.word)"
        )
    }

    /// Waits until the daemon has ended, and says what it waits for.
    private static func waitForEnd(
        _ watch: borrowing ProcessWatch, _ path: HostPath, _ entry: MountEntry, isForced: Bool
    ) -> Bool {
        if watch.waitForEnd(seconds: 2) { return true }
        let place = UseElsewhere(entry)
        if !isForced, !place.isEmpty {
            Output.note(
                "protectfs: \(path): unmounted here and locked, but still mounted \(place.words); it ends there in \(UseElsewhere.grace) s"
            )
        }
        return watch.waitForEnd(seconds: 600)
    }

    /// Tells the daemon to end: it locks at once, takes no more keys, and unmounts as soon as nothing uses the mount. True if the
    /// mount has ended within the grace.
    private static func endsWithin(
        _ grace: UInt64, _ daemon: Int32, _ client: borrowing ControlClient, _ path: HostPath, _ entry: MountEntry
    ) throws(CommandFailure) -> Bool {
        // The daemon's own number may mean another process here, if it is in another PID namespace, or if the daemon has died. The
        // owner of the mount must be one who could send the signal too.
        guard client.process == daemon, let watch = try? ProcessWatch(daemon),
            let owner = entry.owner, Processes.realUser(of: daemon) == owner, watch.isRunning(),
            (try? watch.send(SIGTERM)) != nil
        else {
            throw .init(
                .failure, "\(path): the daemon (process \(daemon)) cannot be told to end; use unmount without --grace")
        }
        // What is left to write has no part in the grace.
        return watch.waitForEnd(seconds: Int32(min(grace, 1_000_000))) || !MountLookup.all().contains(entry)
    }

    /// Ends a mount that is in use. By a new connection, as the daemon closes one that has asked nothing for the time of a grace.
    private static func endNow(_ path: HostPath, _ entry: MountEntry) throws(CommandFailure) {
        do throws(CommandFailure) {
            let client = try DaemonConnection.connect(entry, path)
            try DaemonConnection.call(path) { () throws(ControlError) in try client.unmount(isForced: true) }
        } catch {
            // It has ended by itself meanwhile.
            guard error.code == .notMounted, !MountLookup.all().contains(entry) else { throw error }
        }
    }

    /// - Parameter grace: the seconds after which the mount ends even if it is in use; nil if it must not.
    private static func unmount(
        _ path: HostPath, _ entry: MountEntry, grace: UInt64?, mayAskAgain: Bool = true
    ) throws(CommandFailure) -> ExitCode {
        var isConnected = false
        do throws(CommandFailure) {
            let client = try DaemonConnection.connect(entry, path)
            isConnected = true
            let process = try DaemonConnection.call(path) { () throws(ControlError) in try client.status() }.processID
            let session = (try? client.info()).map(MountSession.init)
            // Not another process that the daemon names.
            let watch = client.process == process ? try? ProcessWatch(process) : nil
            let isForced: Bool
            if let grace, grace > 0 {
                isForced = try !endsWithin(grace, process, client, path, entry)
                if isForced { try endNow(path, entry) }
            } else {
                isForced = grace != nil
                try DaemonConnection.call(path) { () throws(ControlError) in try client.unmount(isForced: isForced) }
            }
            // When the process has ended, the epoch is closed and everything is on disk.
            let isGone: Bool
            switch consume watch {
            case .some(let watch): isGone = waitForEnd(watch, path, entry, isForced: isForced)
            case .none: isGone = true
            }
            guard isGone else {
                throw .init(.failure, "\(path): unmounted, but the daemon (process \(process)) has not ended yet")
            }
            if let failure = session?.failure(path) { throw failure }
            return .success
        } catch {
            guard error.code == .notMounted else { throw busy(error, path, entry) }
            guard MountLookup.isDeadForSure(entry) else {
                // A daemon that has no room for others ends a connection that has asked nothing for a second.
                guard isConnected, mayAskAgain, MountLookup.all().contains(entry) else { throw error }
                return try unmount(path, entry, grace: grace, mayAskAgain: false)
            }
            RunningMount.detach(entry.mountPoint)
            DaemonConnection.cleanAfterDead(entry)
            if MountLookup.all().contains(entry) {
                throw .init(
                    .failure, "\(path): cannot remove the dead mount; close programs that use it, and try again")
            }
            Output.note(
                "protectfs: \(path): the daemon had died, so its mount was removed; the next mount reports what the crash left"
            )
            return .success
        }
    }
}
