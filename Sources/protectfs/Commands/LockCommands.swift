// `protectfs lock`, `unlock` and `wait`.

import Control
import HostSystem
import Keybag
import VolumeFormat

extension Command {
    static let unlock = Command(
        "unlock", .locking, [.mountPoint], "Unlocks a mounted volume.", options: Option.credentials,
        examples: [.init("protectfs unlock ~/documents", "Unlock; ask for the passphrase.")], usesKeys: false,
        run: { (arguments) throws(CommandFailure) in
            let path = arguments.operands[0]
            let entry = try MountLookup.at(path)
            // Connects before a person types. The connection is not kept, because the daemon does not wait for typing.
            _ = try DaemonConnection.connect(entry, path)
            let outcome = try CredentialInput.retrying(arguments) { () throws(CommandFailure) in
                let credential = try CredentialInput.credential(arguments, prompt: "Passphrase for \(path): ")
                let client = try DaemonConnection.connect(entry, path)
                return try DaemonConnection.call(path) { () throws(ControlError) in try client.unlock(credential) }
            }
            if outcome == .alreadyUnlocked { Output.note("protectfs: \(path) was already unlocked") }
            return .success
        })

    static let lock = Command(
        "lock", .locking, [Operand("MOUNTPOINT", .mountPoint, .optional)],
        "Locks a mounted volume: removes keys and plaintext from memory.",
        details: """
            The keys and the plaintext of classes A and B are removed. Programs that asked for it get the grace time to finish.
            Open files do not keep a volume from locking.

            No write that a program has made is lost. If the kernel writes some of them back after the keys are wiped, protectfs
            stores them encrypted and puts them into the files at the next unlock. If the kernel still holds plaintext when the
            command ends, the exit code is 10; protectfs wait --locked waits until that plaintext is gone.

            With --all, each mount is locked, all at the same time. If one of them cannot be locked, the others are, and the exit
            code is that of the first failure.
            """,
        options: [
            Option(
                "grace", value: .seconds, standard: "5", help: "how long to wait for programs that asked for it"),
            Option("all", help: "lock all of your mounts; as root, those of every user"),
            Option(
                "reason", value: Value(name: "WORD", kind: .words(["command", "sleep"])), standard: "command",
                help: "the reason in the record of the journal"),
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
                grace: try arguments.seconds("grace").map { Double($0) }, isForSleep: reason == "sleep")
            let isJSON = arguments.has("json")
            guard !arguments.has("all") else {
                guard arguments.operands.isEmpty else { throw .init(.usage, "use either --all or a mount point") }
                return lockAll(request, isJSON: isJSON)
            }
            guard let path = arguments.operands.first else {
                throw .init(.usage, "name a mount point, or use --all; protectfs status shows all mounts")
            }
            return tell(try lock(try MountLookup.at(path), path, request), path, isJSON: isJSON)
        })

    private static func lock(
        _ entry: MountEntry, _ path: HostPath, _ request: LockRequest
    ) throws(CommandFailure) -> LockReport {
        let client = try DaemonConnection.connect(entry, path)
        return try DaemonConnection.call(path) { () throws(ControlError) in try client.lock(request) }
    }

    /// Locks all mounts at the same time, because each may wait for its grace.
    private static func lockAll(_ request: LockRequest, isJSON: Bool) -> ExitCode {
        let entries = MountLookup.own()
        // A daemon that does not answer must not hide what the others have done, so each result is printed when it is there.
        let done = Lock((code: ExitCode.success, list: [JSONValue]()))
        let threads = entries.map { entry in
            let work: @Sendable () -> Void = {
                let path = entry.mountPoint
                let result = Result { () throws(CommandFailure) in try lock(entry, path, request) }
                done.withLock { done in
                    switch result {
                    case .success(let report):
                        let said = isJSON ? self.code(of: report) : tell(report, path, isJSON: false)
                        if done.code == .success { done.code = said }
                        done.list.append(
                            .fields([("mountPoint", .path(path)), ("locked", report.json)]))
                    case .failure(let failure):
                        if !isJSON { Output.error(failure.message) }
                        if done.code == .success || done.code == .sweeping { done.code = failure.code }
                        done.list.append(
                            .fields(
                                [("mountPoint", .path(path)), ("error", .string(failure.message))] + failure.fields()))
                    }
                }
            }
            let thread = BackgroundThread(name: "lock", work)
            if thread == nil { work() }
            return thread
        }
        for thread in threads { thread?.join() }
        let (code, list) = done.withLock { $0 }
        return isJSON ? Output.done("the mounts are locked", JSONValue.array(list).line + "\n", code) : code
    }

    private static func code(of report: LockReport) -> ExitCode { report.state == .sweeping ? .sweeping : .success }

    /// Prints what a lock has done.
    private static func tell(_ report: LockReport, _ path: HostPath, isJSON: Bool) -> ExitCode {
        let code = code(of: report)
        let what = "\(path) is \(report.state == .sweeping ? "locked, but the kernel still holds plaintext" : "locked")"
        if isJSON { return Output.done(what, report.json.line + "\n", code) }
        var said = code
        if !report.wasLocked, report.cutOff > 0 {
            let processes =
                report.processes.isEmpty
                ? "" : " (processes \(report.processes.map { "\($0)" }.joined(separator: ", ")))"
            let files =
                report.cutOff == 1
                ? "1 open file of class complete is" : "\(report.cutOff) open files of class complete are"
            said = Output.done(what, "Locked; \(files) closed until unlock\(processes).\n", code)
        }
        if report.state == .sweeping {
            Output.note(
                "protectfs: \(path): the keys are wiped, but \(StatusText.plaintext(report.files)), because the backing store does not answer; protectfs wait --locked waits until it is gone"
            )
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
            var client = try DaemonConnection.connect(try MountLookup.at(path), path)
            var state = try DaemonConnection.call(path) { () throws(ControlError) in try client.subscribe(wait: false) }
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
