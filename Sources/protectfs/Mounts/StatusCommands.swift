// `protectfs status` and `protectfs watch`.

import CLibrary
import CommandSupport
import Control
import HostSystem
import Keybag
import VolumeAccess
import VolumeFormat

extension Command {
    static let status = Command(
        "status", .mounting, [Operand("MOUNTPOINT", .mountPoint, .optional)],
        "Shows one or all of your mounts: state, open files by class, idle timer.",
        details: """
            If a daemon does not answer, or has died, the other mounts are shown nevertheless, and the exit code is that of the
            first failure.
            """,
        options: [
            Option("all", help: "show all of your mounts, as without a mount point; as root, those of every user"),
            // For this program alone: the exit code says whether the daemon has died (`MountLookup.isDeadForSure`).
            Option("is-dead", help: nil),
            .json,
        ],
        examples: [.init("protectfs status", "Show all of your mounts.")], usesKeys: false,
        run: { (arguments) throws(CommandFailure) in
            guard arguments.operands.isEmpty || !arguments.has("all") else {
                throw .init(.usage, "use either --all or a mount point")
            }
            let entries: [MountEntry]
            let answers: [Result<StatusReport, CommandFailure>]
            if let path = arguments.operands.first {
                entries = [try KnownMount.mounted(at: path)]
                if arguments.has("is-dead") {
                    // The kernel tells others than the owner nothing, root included, unless the mount is open to all.
                    if let owner = entries[0].owner, let group = entries[0].number(of: "group_id"), Credentials.isRoot {
                        guard setgroups(0, nil) == 0, setgid(group) == 0, setuid(owner) == 0 else { return .failure }
                    }
                    return MountLookup.isDead(entries[0]) ? .success : .failure
                }
                answers = [.success(try ask(entries[0]))]
            } else {
                entries = try MountLookup.knownOwn()
                answers = askAll(entries)
            }
            var lines: [JSONValue] = []
            var isFirst = true
            var code = ExitCode.success
            for (entry, answer) in zip(entries, answers) {
                switch answer {
                case .success(let report):
                    lines.append(report.json)
                    if !arguments.has("json") { Output.print((isFirst ? "" : "\n") + StatusText.table(report, entry)) }
                case .failure(let error):
                    if code == .success { code = error.code }
                    lines.append(
                        .fields(
                            [
                                ("mountPoint", .path(entry.mountPoint)), ("error", .string(error.message)),
                            ] + error.fields()))
                    if !arguments.has("json") {
                        if !isFirst { Output.line() }
                        Output.line(Output.oneLine(error.message))
                    }
                }
                isFirst = false
            }
            if arguments.has("json") {
                Output.line(arguments.operands.isEmpty ? JSONValue.array(lines).line : lines[0].line)
            } else if arguments.operands.isEmpty {
                let known = KnownMount.all()
                if entries.isEmpty, known.isEmpty { Output.line("No volume is mounted.") }
                if !entries.isEmpty, !known.isEmpty { Output.line() }
                for mount in known { Output.line(Output.oneLine("\(mount.mountPoint): not mounted; \(mount.command)")) }
            }
            return code
        })

    private static func ask(_ entry: MountEntry) throws(CommandFailure) -> StatusReport {
        try DaemonConnection.ask(entry, entry.mountPoint) { (client) throws(ControlError) in try client.status() }
    }

    /// How long all daemons together may take, in nanoseconds. One may be a program of any user.
    private static let patience: UInt64 = 5_000_000_000

    /// Asks all daemons at the same time.
    static func askAll(_ entries: [MountEntry]) -> [Result<StatusReport, CommandFailure>] {
        let deadline = monotonicNanoseconds() + patience
        let round = DaemonRound("status", entries) { (entry) throws(CommandFailure) in try ask(entry) }
        var answers: [Int: Result<StatusReport, CommandFailure>] = [:]
        while let (index, answer) = round.next(until: deadline) { answers[index] = answer }
        round.giveUp(round.open)
        while let (index, answer) = round.next(until: deadline) { answers[index] = answer }
        return entries.indices.compactMap { answers[$0] }
    }

    static let watch = Command(
        "watch", .locking, [.mountPoint], "Shows locks and unlocks as they happen, until the volume is unmounted.",
        details: """
            It prints a line for the current state, and one for each event. With --json each line is an object; the events are
            willLock (with grace), sweeping (with files), locked, inactive (with files), willUnlock, unlocked and firstUnlock.
            """,
        options: [.json],
        examples: [.init("protectfs watch --json ~/documents", "Print events as JSON, for a script.")],
        usesKeys: false,
        run: { (arguments) throws(CommandFailure) in
            let path = arguments.operands[0]
            var client = try DaemonConnection.connect(try KnownMount.mounted(at: path), path)
            let state = try DaemonConnection.call(path) { () throws(ControlError) in try client.subscribe(wait: false) }
            let isJSON = arguments.has("json")
            Output.line(
                isJSON
                    ? JSONValue.fields([("state", .string("\(state.attributeValue)"))]).line
                    : "\(now()) \(state.attributeValue)")
            while true {
                do throws(ControlError) {
                    let event = try client.nextEvent()
                    Output.line(isJSON ? event.json.line : "\(now()) \(StatusText.describe(event))")
                } catch .closed {
                    return .success
                } catch {
                    throw DaemonConnection.explain(error, path)
                }
            }
        })

    private static func now() -> String { WallClock.local(WallClock.seconds) }
}

/// Reports of daemons for people.
enum StatusText {
    /// One mount as a table.
    static func table(_ report: StatusReport, _ entry: MountEntry) -> String {
        var table = Table("", "")
        table.add("Mount point", report.mountPoint.description)
        table.add("Volume", report.volume.description)
        table.add("State", "\(stateName(report.state)) since \(WallClock.local(report.since))")
        if report.state == .sweeping { table.add("Page cache", plaintext(report.sweepingFiles)) }
        table.add("Default class", report.defaultClass.canonicalName)
        table.add("Open handles", handles(report.openHandles))
        if let limit = report.idleLimit {
            table.add("Idle timer", "locks after \(limit) s, idle for \(report.idleFor ?? 0) s")
        } else {
            table.add("Idle timer", "off")
        }
        table.add("When inactive", inactive(report))
        if report.isReadOnly { table.add("Access", "read-only") }
        if report.damage > 0 {
            table.add(
                "Crash damage",
                "\(counted(report.damage, "place")) tolerated since mounting; see the log, and run protectfs fsck --quick when it is unmounted"
            )
        }
        if report.older > 0 {
            table.add(
                "Older files",
                "\(report.older) of those opened since mounting are older than this machine has seen them; see the log, and accept them with protectfs trust"
            )
        }
        if report.unlockFailures > 0 {
            table.add(
                "Wrong attempts",
                "\(report.unlockFailures), next attempt possible in \(Int(report.retryAfter.rounded(.up))) s")
        }
        table.add("Transport", report.transport == "io_uring" ? "io_uring" : "/dev/fuse")
        table.add("Daemon", "process \(report.processID)")
        return table.text
    }

    /// A process by its name and number.
    static func process(_ number: Int32) -> String {
        Processes.name(of: number).map { "\($0) (\(number))" } ?? "process \(number)"
    }

    /// A state in words.
    static func stateName(_ state: VolumeState) -> String {
        switch state {
        case .beforeFirstUnlock: "before first unlock"
        case .unlocked: "unlocked"
        case .locking: "locking"
        case .locked: "locked"
        case .sweeping: "sweeping"
        }
    }

    /// The meaning of `sweeping` for a person.
    static func plaintext(_ files: Int) -> String {
        "the kernel still holds plaintext of \(counted(files, "file"))"
    }

    /// The state of class 7 for a person.
    private static func inactive(_ report: StatusReport) -> String {
        if let left = report.inactiveIn { return "class 7 is open for another \(left) s" }
        return switch report.inactiveState {
        case .locking, .sweeping, .locked: "class 7 is closed"
        case .beforeFirstUnlock, .unlocked:
            "class 7 closes " + (report.inactiveLimit == 0 ? "at a lock" : "\(report.inactiveLimit) s after a lock")
        }
    }

    private static func handles(_ counts: [ProtectionClass: Int]) -> String {
        let known = counts.filter { $0.value > 0 }.sorted { $0.key.rawValue < $1.key.rawValue }
        return known.isEmpty ? "none" : known.map { "\($0.value) \($0.key.canonicalName)" }.joined(separator: ", ")
    }

    /// An event in words.
    static func describe(_ event: ControlEvent) -> String {
        switch event {
        case .willLock(_, let grace): "will lock within \(Int(grace.rounded(.up))) s"
        case .locked: "locked"
        case .sweeping(let files): "locked; \(StatusText.plaintext(files))"
        case .inactive(let files):
            "class completeWhenUserInactive is closed" + (files > 0 ? "; \(StatusText.plaintext(files))" : "")
        case .willUnlock: "will unlock"
        case .unlocked: "unlocked"
        case .firstUnlock: "unlocked for the first time"
        }
    }
}
