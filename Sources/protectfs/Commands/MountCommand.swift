// `protectfs mount` and `protectfs unmount`.

import Control
import Glibc
import HostSystem
import Keybag

extension Command {
    static let mount = Command(
        "mount", "VOLUME MOUNTPOINT", "Mounts a volume and unlocks it; returns when the mount answers.",
        details: """
            Mount options: ro, allow_other, default_class=CLASS, shared, strict, recover, no_family_class, idle=DURATION, uid=, gid=,
            umask=, and the kernel's noatime, nodev, nosuid, noexec and their like.
            """,
        options: [
            Option("option", letter: "o", value: "LIST", repeats: true, help: "mount options, separated by commas"),
            Option("foreground", letter: "f", help: "stay in the foreground and log to standard error"),
            Option("log-names", help: "with --foreground: log names of files, else only inode numbers"),
            Option("trace", help: "with --foreground, print one line per request to standard error"),
            Option("no-unlock", help: "mount before first unlock: only class none can be opened"),
            Option("read-only", letter: "r", help: "the same as -o ro"),
            .deviceKey,
        ] + Option.credentials + [.acceptKeybag, .previousKeybag, Option("started-by-mount", help: nil)],
        run: { (arguments) throws(CommandFailure) in
            if arguments.has("started-by-mount") {
                guard DaemonStart.isStarted else {
                    throw .init(.usage, "mount: --started-by-mount is for the daemon that protectfs mount starts")
                }
                // A shell's lock file, say, which the mount would keep locked.
                ProcessHardening.closeInherited(from: DaemonReport.secretNumber + 1)
            }
            let request = try MountRequest(arguments)
            if arguments.has("started-by-mount") {
                let connectionGuard = ConnectionGuard()
                let credential = try DaemonStart.receive()
                return try Daemon.run(request, credential, connectionGuard, isStarted: true)
            }
            let volume = try request.check()
            if let warning = try volume.found.place().warning(volume.path) { Output.note(warning) }
            if arguments.has("foreground") {
                let connectionGuard = ConnectionGuard()
                let credential = try credential(arguments, request)
                return try Daemon.run(request, credential, connectionGuard, isStarted: false)
            }
            try DaemonStart.run(arguments.words, try credential(arguments, request))
            return .success
        })

    private static func credential(
        _ arguments: Arguments, _ request: MountRequest
    ) throws(CommandFailure) -> Credential? {
        if request.noUnlock { return nil }
        return try CredentialInput.credential(arguments, prompt: "Passphrase of \(request.volume): ")
    }

    static let unmount = Command(
        "unmount", "MOUNTPOINT", "Unmounts; returns when everything is on disk and the daemon has ended.",
        details: "A mount whose daemon has died is cleaned away.",
        run: { (arguments) throws(CommandFailure) in
            let path = try arguments.operands("MOUNTPOINT")[0]
            return try unmount(path, try MountLookup.at(path))
        })

    private static func unmount(_ path: HostPath, _ entry: MountEntry) throws(CommandFailure) -> ExitCode {
        do throws(CommandFailure) {
            let client = try DaemonConnection.connect(entry, path)
            let process = try DaemonConnection.call(path) { () throws(ControlError) in try client.status() }.processID
            let watch = try? ProcessWatch(process)
            try DaemonConnection.call(path) { () throws(ControlError) in try client.unmount() }
            // The epoch is closed and everything on disk when the process has ended.
            let isGone: Bool
            switch consume watch {
            case .some(let watch): isGone = watch.waitForEnd(seconds: 600)
            case .none: isGone = true
            }
            guard isGone else {
                throw .init(.failure, "\(path): unmounted, but the daemon (process \(process)) has not ended yet")
            }
            return .success
        } catch {
            guard error.code == .notMounted, MountLookup.isDead(entry) else { throw error }
            RunningMount.detach(entry.mountPoint)
            DaemonConnection.cleanAfterDead(entry)
            if MountLookup.all().contains(entry) {
                throw .init(.failure, "\(path): the dead mount could not be taken away")
            }
            Output.note(
                "protectfs: \(path): the daemon had died; its mount is taken away, and the next mount reports what a crash left"
            )
            return .success
        }
    }
}
