// `protectfs fsck`: checks and repairs a volume that is not mounted, with the exit codes of fsck(8).

import BackingStore
import CLibrary
import CommandSupport
import Control
internal import FileContents
import HostSystem
import KeyFiles
import Keybag
import MountDaemon
import ProtectedVolume
import SodiumKit
import VolumeAccess
import VolumeCheck
import VolumeFormat

extension Command {
    static let check = Command(
        "fsck", .maintenance, [.volume], "Checks a volume that is not mounted, and repairs it.",
        details: "Completes what a crash has left unfinished, and deletes nothing.",
        more: """
            With a passphrase or the recovery code, fsck checks every class. Files that a crash has left unfinished are
            completed, as mounting would do; files that verify are not written. After a complete check crash damage is no
            longer tolerated. With --no-unlock, fsck checks what the device key opens, and says what it could not check.

            After a crash --quick is enough: it checks all names, and reads only the files that were being changed when the
            volume was last mounted, or were made then. Then crash damage is no longer tolerated, as after a complete
            check. It says how many files it has read. If this machine has no list of these files, it opens every file and
            reads those whose first and last page show that they were changed; if this machine has not checked the volume
            before, it reads everything. Damage of other files is found when they are read, or by a complete check.

            --repair makes new records for directories whose record is missing or damaged, with the strongest default class
            that the directory can have had. It gives a header of class complete to empty files that have none. It
            moves leftovers to \(ReservedName.lostAndFound) in the volume. It copies everything readable of a damaged file to
            NAME.salvaged beside it. With --quarantine, it also moves damaged originals and everything that cannot be decrypted
            to \(ReservedName.lostAndFound); the file log there says where each came from. Nothing is deleted.

            If a directory's record is missing, nothing proves the names in the directory: someone who can change the volume
            may have chosen them. Such names are shown as .unverified-HASH-NAME, and --repair keeps them so. Rename such a file
            in the mount, or confirm its name with --accept-name or --accept-names-from, which take the paths that fsck
            prints, or with --accept-names, which asks.

            If the state file, which holds what this machine knows of the volume, is empty, damaged, or of a newer version,
            commands refuse it. --forget-state sets it aside as UUID.state.forgotten-1, and checks the volume as one that
            this machine has not seen before. Until the volume is unlocked, an older or exchanged keybag is not noticed
            then, and crash damage is tolerated in every file until a complete check.

            What a newer version of protectfs made is reported as newer. It is not damaged: no check or repair changes it, and
            nothing is repaired in the entries of a directory whose record is newer. Objects below such a directory are
            checked. Use that version to repair the volume.

            You can interrupt fsck at any time and run it again. --resume continues a check that was interrupted, also by a crash
            of the machine or of fsck. It walks all names again, but does not read the content of files that the
            interrupted check has read without a finding and that have not changed since. What was found is reported again. If the
            volume was mounted and written meanwhile, if the options or the open classes differ, or if the clock went back, it says
            so and reads everything. Every few seconds fsck records how far it is, in UUID.check beside the state file; -n does so
            too. Only local stores whose type keeps reliable times of change can be continued.

            If a sync client copies the volume, let it finish
            first: files that it has not copied yet look damaged.

            The exit code is a sum: 0 nothing wrong, 1 something was repaired, 4 errors left, 8 the check could not be done or
            its report could not be written, 16 wrong command line, 32 interrupted, 64 a newer version made something.
            """,
        manualPage: "protectfs-fsck",
        options: [
            .json, Option("no-unlock", help: "check only names, headers and files of class none"),
            Option("read-only", letter: "n", help: "change nothing"),
            Option("quick", help: "after a crash, read only files that were changed"),
            Option("repair", help: "repair what can be repaired, and copy what is readable of damaged files"),
            Option("quarantine", help: "with --repair, move what cannot be decrypted to \(ReservedName.lostAndFound)"),
            Option("resume", help: "continue the check that was interrupted"),
            Option("forget-state", help: "set aside a state file of this machine that cannot be used"),
            .deviceKey,
        ] + ConfirmedNames.options + Option.credentials + [.acceptKeybag, .previousKeybag],
        examples: [
            .init("protectfs fsck ~/.documents", "Check everything; ask for the passphrase."),
            .init("protectfs fsck --quick ~/.documents", "After a crash: check what was being changed."),
            .init("protectfs fsck --repair ~/.documents", "Check and repair."),
        ], run: Fsck.run)
}

/// The work of `fsck`.
enum Fsck {
    static func run(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let path = arguments.operands[0]
        if arguments.has("quarantine"), !arguments.has("repair") {
            throw .init(.usage, "--quarantine needs --repair")
        }
        if arguments.has("quick"), arguments.has("resume") {
            throw .init(.usage, "--quick and --resume cannot be used together; a quick check is begun again")
        }
        if arguments.has("read-only"), arguments.has("repair") {
            throw .init(.usage, "--read-only and --repair cannot be used together")
        }
        if arguments.has("read-only"), arguments.has("forget-state") {
            throw .init(.usage, "--read-only and --forget-state cannot be used together")
        }
        return try check(path, arguments)
    }

    private static func check(_ path: HostPath, _ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        var isReadOnly = arguments.has("read-only")
        let report = FsckReport(arguments)
        let confirmed = try ConfirmedNames(arguments, progress: report.progress)
        let terms = CheckedVolume.Terms(arguments)
        let found = try FoundVolume(path, usePrevious: terms.usePrevious)
        // This comes before the passphrase prompt. The claim is held from here on.
        try claim(found, isReadOnly)
        if arguments.has("forget-state") { try forgetState(of: found) }
        let access = try CheckedVolume(found, terms)
        if !isReadOnly, let obstacle = try access.obstacle() {
            if arguments.has("repair") { throw obstacle }
            Output.error("\(obstacle.message); nothing is changed")
            isReadOnly = true
        }
        // It may wait for a pipe, and nobody should wait for that.
        let deviceKey = try FoundVolume.DeviceKeyChoice(arguments)
        if !isReadOnly {
            try EndingMount.waiting(for: path) { () throws(CommandFailure) in try MountClaim.take(access.found) }
        }
        let known = try LocalState.load(access.found)?.layout
        let (ring, isUnlocked, _) = try CredentialInput.retrying(arguments) { () throws(CommandFailure) in
            try Daemon.openKeys(access, deviceKey, try credential(arguments, access, deviceKey))
        }
        if isUnlocked, !isReadOnly {
            try access.pin()
            if let text = access.endChange() { Output.error(text) }
        }
        report.tolerates(known.map { $0.toleratesEverything ? .unchecked : .epochs } ?? .noState)
        // An unlock has made the file, unless nothing may be written.
        let isKnown = try LocalState.load(access.found) != nil
        let states = isReadOnly && !isKnown ? nil : try LocalState.store(access.found)
        let interrupted = Interruption(exit: 32)
        var options = CheckOptions()
        options.mends = !isReadOnly
        options.repairs = arguments.has("repair")
        options.quarantines = arguments.has("quarantine")
        options.isQuick = arguments.has("quick")
        options.resumes = arguments.has("resume")
        options.begins = report.begin
        options.storeIdentity = access.found.store.identityBytes
        options.isConfirmed = confirmed.isConfirmed
        options.threads = threads
        options.measures = Terminal.isTerminal(2) && !arguments.has("json")
        // On a disk, because /tmp often is memory.
        options.scratch = try? HostDirectory.open(path: "/var/tmp")
        options.mayGoOn = { !interrupted.isAsked }
        options.decided = report.reaches
        let summary: CheckSummary
        do throws(VolumeError) {
            summary = try Check.run(
                directory: access.directory, keys: ring, states: states, options: options,
                progress: report.show, repaired: report.take, report: report.take)
        } catch .refused(.EBUSY) {
            throw busy(path)
        } catch {
            throw ErrorMessages.volume(error, path)
        }
        let isSaid = report.end(summary)
        return .check(
            hasRepaired: summary.repaired + summary.tidied + summary.salvaged > 0, hasErrors: summary.remaining > 0,
            hasNewer: summary.newer > 0, isInterrupted: summary.isInterrupted, isSaid: isSaid)
    }

    /// As many as there are processors, within the limit of locked memory: each holds a large buffer, and some hold a second
    /// one.
    private static var threads: Int {
        let processors = max(sysconf(Int32(_SC_NPROCESSORS_ONLN)), 1)
        return max(1, min(processors, BufferPool.shared.largeCount / 2, 16))
    }

    private static func forgetState(of found: FoundVolume) throws(CommandFailure) {
        let moved = try LocalState.forget(found.bag.volumeID)
        guard !moved.isEmpty else {
            throw .init(
                .usage,
                "\(found.path): --forget-state: every state file of the volume on this machine can be used; nothing was set aside"
            )
        }
        for file in moved { Output.error("\(file.from): set aside as \(file.to)") }
        Output.error(
            "this machine has forgotten what it knew of the volume: until the next unlock an older or exchanged keybag is not noticed, and crash damage is tolerated in every file until a complete fsck"
        )
    }

    /// Claims the volume's directory until `access` is gone. Of no effect if it has claimed it.
    static func claim(_ access: FoundVolume, _ isReadOnly: Bool) throws(CommandFailure) {
        var options = VolumeOptions()
        options.isReadOnly = isReadOnly
        try EndingMount.waiting(for: access.path) { () throws(CommandFailure) in
            do throws(VolumeError) {
                try Volume.claim(access.directory, options)
            } catch .refused(.EBUSY) {
                throw busy(access.path)
            } catch {
                throw ErrorMessages.volume(error, access.path)
            }
        }
    }

    /// The failure of a command that needs a volume which is mounted.
    static func busy(_ path: HostPath) -> CommandFailure {
        guard let mount = MountLookup.of(volume: path).first else { return EndingMount.inUse(path) }
        return .init(
            .busy,
            "\(path): the volume is mounted at \(mount.mountPoint); unmount it first (protectfs unmount \(mount.mountPoint.word))"
        )
    }

    private static func credential(
        _ arguments: Arguments, _ access: CheckedVolume, _ choice: FoundVolume.DeviceKeyChoice
    ) throws(CommandFailure) -> Credential? {
        try CredentialInput.refuseUnused(arguments)
        guard arguments.has("no-unlock") else {
            return try CredentialInput.credential(
                arguments, prompt: "Passphrase of \(access.path): ", access.bag)
        }
        let deviceKey = try access.found.deviceKey(choice)
        if let failure = deviceKey.missing("so nothing can be checked without unlocking") { throw failure }
        return nil
    }
}
