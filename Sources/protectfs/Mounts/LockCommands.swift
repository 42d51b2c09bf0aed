// `protectfs lock`, `unlock` and `wait`.

import CommandSupport
import Control
import FuseFrontend
import HostSystem
import Keybag
import VolumeAccess
import VolumeFormat

extension Command {
    static let unlock = Command(
        "unlock", .locking, [.onlyMount], "Unlocks a mounted volume.",
        details: Operand.onlyMountDetails,
        options: Option.credentials + [Option("if-lock", value: Value(name: "NUMBER", kind: .text), help: nil)],
        examples: [.init("protectfs unlock ~/documents", "Unlock; ask for the passphrase.")], usesKeys: false,
        run: { (arguments) throws(CommandFailure) in
            let entry = try KnownMount.mounted(atOrOnly: arguments.operands.first)
            let path = arguments.operands.first ?? entry.mountPoint
            let number = try arguments.text("if-lock").flatMap { Int64($0) }
            let condition = number.map { UnlockCondition.ifLock($0) } ?? .always
            // Connects before a person types. The connection is not kept, because the daemon does not wait for typing.
            _ = try DaemonConnection.connectProven(entry, path)
            let outcome = try CredentialInput.retrying(arguments) { () throws(CommandFailure) in
                let credential = try CredentialInput.credential(
                    arguments, prompt: "Passphrase for \(path): ", try FoundVolume(entry.source).bag)
                let client = try DaemonConnection.connectProven(entry, path)
                return try DaemonConnection.call(path) { () throws(ControlError) in
                    try client.unlock(credential, when: condition)
                }
            }
            if outcome == .alreadyUnlocked { Output.note("protectfs: \(path) was already unlocked") }
            return .success
        })

    static let lock = Command(
        "lock", .locking, [.onlyMount],
        "Locks a mounted volume: removes keys and plaintext from memory.",
        details: """
            The keys and the plaintext of classes A and B are removed. Programs that asked for it get the grace time to finish.
            Open files do not keep a volume from locking.

            No write that a program has made is lost. If the kernel writes some of them back after the keys are wiped, protectfs
            stores them encrypted and puts them into the files at the next unlock. If the kernel still holds plaintext when the
            command ends, the exit code is 10; protectfs wait --locked waits until that plaintext is gone.

            With --all, each mount is locked, all at the same time. If one of them cannot be locked, or does not answer within
            \(LockSequence.longest / 1_000_000_000) s after the grace (without --grace, five minutes), the others are, and the exit code is that
            of the first failure. For root, a mount of another user counts as failed after 6 s if its daemon does not even
            tell its state.

            \(Operand.onlyMountDetails)
            """,
        options: [
            Option(
                "grace", value: .seconds, standard: "5", help: "how long to wait for programs that asked for it"),
            Option("all", help: "lock all of your mounts; as root, those of every user"),
            Option(
                "reason", value: Value(name: "WORD", kind: .words(["command", "sleep"])), standard: "command",
                help: "the reason in the record of the journal: command or sleep"),
            .json,
        ],
        examples: [
            .init("protectfs lock ~/documents", "Lock a volume."),
            .init("protectfs lock --grace 0 ~/documents", "Lock at once."),
            .init("protectfs lock --all", "Lock all of your volumes."),
        ], usesKeys: false,
        run: { (arguments) throws(CommandFailure) in
            let reason = try arguments.text("reason") ?? "command"
            guard ["command", "sleep"].contains(reason) else {
                throw .init(.usage, "--reason: \"\(HostPath(reason))\" is neither command nor sleep")
            }
            let request = LockRequest(
                grace: try arguments.seconds("grace").map { Double($0) }, reason: reason == "sleep" ? .sleep : .command)
            let isJSON = arguments.has("json")
            guard !arguments.has("all") else {
                guard arguments.operands.isEmpty else { throw .init(.usage, "use either --all or a mount point") }
                return try lockAll(request, isJSON: isJSON)
            }
            let entry = try KnownMount.mounted(atOrOnly: arguments.operands.first)
            let path = arguments.operands.first ?? entry.mountPoint
            return tell(try lock(entry, path, request), path, entry, isJSON: isJSON)
        })

    private static func lock(
        _ entry: MountEntry, _ path: HostPath, _ request: LockRequest
    ) throws(CommandFailure) -> LockReport {
        try DaemonConnection.ask(entry, path) { (client) throws(ControlError) in try client.lock(request) }
    }

    /// What a lock of all mounts has done so far.
    private struct AllLocks {
        let isJSON: Bool
        var code = ExitCode.success
        var list: [JSONValue] = []
        var locked = 0
        var hasFailed = false

        /// Takes in what the lock of a mount has done, and prints it.
        mutating func take(_ result: Result<LockReport, CommandFailure>, _ entry: MountEntry) {
            let path = entry.mountPoint
            switch result {
            case .success(let report):
                let said = isJSON ? Command.code(of: report) : tell(report, path, entry, isJSON: false)
                locked += 1
                if code == .success { code = said }
                list.append(.fields([("mountPoint", .path(path)), ("locked", report.json)]))
            case .failure(let failure):
                if !isJSON { Output.error(failure.message) }
                if !hasFailed { code = failure.code }
                hasFailed = true
                list.append(
                    .fields([("mountPoint", .path(path)), ("error", .string(failure.message))] + failure.fields()))
            }
        }
    }

    /// When daemons of other users that have not answered are asked whether they answer at all, in nanoseconds.
    private static let shortLock: UInt64 = 1_000_000_000

    /// Locks all mounts at the same time, because each may wait for its grace.
    private static func lockAll(_ request: LockRequest, isJSON: Bool) throws(CommandFailure) -> ExitCode {
        let entries = try MountLookup.knownOwn()
        // Without a grace, each mount has its own.
        let grace = min(request.grace ?? .infinity, ControlLimits.standard.longestGrace)
        let start = monotonicNanoseconds()
        let deadline = start + UInt64(grace * 1e9) + LockSequence.longest
        let round = DaemonRound("lock", entries) { (entry) throws(CommandFailure) in
            try lock(entry, entry.mountPoint, request)
        }
        // A daemon that does not answer must not hide what the others have done, so each result is printed when it is there.
        var done = AllLocks(isJSON: isJSON)
        func take(until deadline: UInt64) {
            while let (index, result) = round.next(until: deadline) { done.take(result, entries[index]) }
        }
        take(until: min(start + shortLock, deadline))
        // A daemon tells its state at any time. One that does not is waited for no longer, unless it is the caller's own.
        let others = round.open.filter { !StoreProof.isCertain(entries[$0]) }
        let states = askAll(others.map { entries[$0] })
        round.giveUp(zip(others, states).filter { if case .failure = $1 { true } else { false } }.map(\.0))
        take(until: deadline)
        round.giveUp(round.open)
        take(until: deadline)
        guard isJSON else { return done.code }
        return Output.done(
            "\(done.locked) of \(entries.count) mounts are locked", JSONValue.array(done.list).line + "\n", done.code)
    }

    private static func code(of report: LockReport) -> ExitCode { report.state == .sweeping ? .sweeping : .success }

    /// Prints what a lock has done.
    private static func tell(
        _ report: LockReport, _ path: HostPath, _ entry: MountEntry, isJSON: Bool
    ) -> ExitCode {
        let code = code(of: report)
        let what = "\(path) is \(report.state == .sweeping ? "locked, but the kernel still holds plaintext" : "locked")"
        if isJSON { return Output.done(what, report.json.line + "\n", code) }
        var said = code
        if !report.wasLocked, report.cutOff > 0 {
            let processes =
                report.processes.isEmpty
                ? "" : " (\(report.processes.map(StatusText.process).joined(last: "and")))"
            let files = counted(
                report.cutOff, "open file of class complete is", "open files of class complete are")
            said = Output.done(what, "Locked; \(files) closed until unlock\(processes).\n", code)
        }
        if report.state == .sweeping {
            Output.note(
                "protectfs: \(path): the keys are wiped, but \(StatusText.plaintext(report.files)), because the backing store does not answer; protectfs wait --locked waits until it is gone"
            )
        }
        for loop in LoopDevice.over(entry.mountPoint) where report.state != .unlocked {
            Output.note(
                "protectfs: \(path): \(loop.device) is over \(loop.file), and the kernel keeps what was read of it; detach it (losetup -d \(loop.device))"
            )
        }
        if report.state == .unlocked {
            Output.note("protectfs: \(path): another command has locked it meanwhile, and it has been unlocked since")
        }
        FreedMemory.noteOnce()
        return said
    }

    static let wait = Command(
        "wait", .locking, [.mountPoint], "Waits until a volume is unlocked or locked.",
        requires: "--unlocked|--locked|--first-unlock",
        details: "The exit code is 124 if the time is up first.",
        options: [
            Option("unlocked", help: "wait until the volume is unlocked"),
            Option("locked", help: "wait until the volume is locked; before the first unlock it counts as locked"),
            Option("first-unlock", help: "wait until the volume has been unlocked once since mounting"),
            Option("timeout", value: .seconds, standard: "never", help: "give up after this time"),
        ],
        examples: [
            .init("protectfs wait --unlocked --timeout 60 ~/documents", "Wait at most one minute for an unlock.")
        ], usesKeys: false,
        run: { (arguments) throws(CommandFailure) in
            let path = arguments.operands[0]
            let wanted = ["unlocked", "locked", "first-unlock"].filter { arguments.has($0) }
            guard wanted.count == 1 else { throw .init(.usage, "use one of --unlocked, --locked and --first-unlock") }
            let timeout = try arguments.seconds("timeout")
            let deadline = timeout.map { monotonicNanoseconds() + $0 * 1_000_000_000 }
            var client = try DaemonConnection.connect(try KnownMount.mounted(at: path), path)
            // A daemon that says nothing uses up the time. It has a second even if that is 0.
            let patience = min(max(timeout.map { Double($0) } ?? 30, 1), 30)
            var state: VolumeState
            do throws(ControlError) { state = try client.subscribe(wait: false, timeout: patience) } catch {
                guard error == .timedOut, patience < 30 else { throw DaemonConnection.explain(error, path) }
                throw .init(.timeout, "\(path): not \(wanted[0]) after \(timeout ?? 0) s")
            }
            while !isReached(wanted[0], state) {
                let now = monotonicNanoseconds()
                if let deadline, now >= deadline {
                    throw .init(.timeout, "\(path): not \(wanted[0]) after \(timeout ?? 0) s")
                }
                // At most an hour, so that the clock is checked again.
                let left = min(deadline.map { Double($0 - now) / 1e9 } ?? 3600, 3600)
                do throws(ControlError) {
                    switch try client.nextEvent(timeout: left) {
                    case .locked: state = .locked
                    case .sweeping: state = .sweeping
                    case .unlocked, .firstUnlock: state = .unlocked
                    default: break
                    }
                } catch .timedOut {
                    continue
                } catch {
                    throw DaemonConnection.explain(error, path)
                }
            }
            return .success
        })

    private static func isReached(_ wanted: String, _ state: VolumeState) -> Bool {
        switch wanted {
        case "unlocked": state == .unlocked
        case "locked": state == .locked || state == .beforeFirstUnlock
        default: state != .beforeFirstUnlock
        }
    }
}
