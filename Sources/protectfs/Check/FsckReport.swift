// The output of `fsck`: findings as they come, progress with an estimate on a terminal, and a summary, or all of it as JSON.

import CLibrary
import CommandSupport
import Control
internal import FileContents
import HostSystem
import KeyFiles
import ProtectedVolume
import SodiumKit
import VolumeCheck
import VolumeFormat

/// The report of one check. Its functions are called from any thread, findings and repairs one at a time.
final class FsckReport: Sendable {
    private let volume: HostPath
    private let isJSON: Bool
    private let repairs: Bool
    /// The command that continues this check.
    private let continuation: String
    let progress = Progress()
    private let work = Estimate()
    private let tolerance = Lock(Tolerance.epochs)
    private let start = Lock<Result<Int64, CheckRestart>?>(nil)
    private let kept = Lock<(findings: [Finding], repairs: [Repair])>(([], []))
    /// The error of standard output. Nothing is written after it, but the check continues.
    private let failure = Lock<SystemError?>(nil)

    /// Where this machine tolerates crash damage. `--json` prints the raw values.
    enum Tolerance: String {
        /// Where an epoch ended badly.
        case epochs
        /// Everywhere, as there is no state file.
        case noState = "no-state"
        /// Everywhere, until the first complete check.
        case unchecked

        /// Why it is tolerated everywhere; nil if it is not.
        var fact: String? {
            switch self {
            case .epochs: nil
            case .noState: "this machine has no state for this volume"
            case .unchecked: "this machine has not checked this volume completely before"
            }
        }
    }

    init(_ arguments: Arguments) {
        volume = arguments.operands[0]
        isJSON = arguments.has("json")
        repairs = arguments.has("repair")
        continuation = FsckResumption.command(arguments)
    }

    /// Says what a check that was asked to continue an earlier one does.
    func begin(_ start: Result<Int64, CheckRestart>) {
        self.start.withLock { $0 = start }
        if !isJSON { write(FsckResumption.text(start)) }
    }

    /// Says that this machine tolerates crash damage in every file.
    func tolerates(_ tolerance: Tolerance) {
        self.tolerance.withLock { $0 = tolerance }
        guard !isJSON, let fact = tolerance.fact else { return }
        write("\(fact): crash damage is tolerated in every file until a check has read all of them\n")
    }

    /// Says what a quick check reads, if not only the files on its lists.
    func reaches(_ reach: QuickReach) {
        guard !isJSON else { return }
        switch reach {
        case .nothing: write("no session of this volume has ended with a crash: there is nothing to check quickly\n")
        case .listed: break
        case .ends:
            write(
                "there is no complete list of the files that were changed: every file is opened, and read if its ends show a change\n"
            )
        case .everything: write("everything is read\n")
        }
    }

    /// Takes a finding.
    func take(_ finding: Finding) {
        if isJSON { return kept.withLock { $0.findings.append(finding) } }
        progress.end()
        write(Self.describe(finding) + "\n")
    }

    /// Takes a repair.
    func take(_ repair: Repair) {
        if isJSON { return kept.withLock { $0.repairs.append(repair) } }
        progress.end()
        write(Self.describe(repair) + "\n")
    }

    /// Shows how far the check is.
    func show(_ step: CheckProgress) {
        progress.show(estimate(step))
    }

    /// Ends the report. False if standard output did not take all of it; the error is then on standard error.
    func end(_ summary: CheckSummary) -> Bool {
        progress.end()
        if isJSON {
            let (findings, repairs) = kept.withLock { ($0.findings, $0.repairs) }
            write(json(summary, findings, repairs, tolerance.withLock { $0 }, start.withLock { $0 }).line + "\n")
        } else {
            write(text(summary))
        }
        guard let error = failure.withLock({ $0 }) else { return true }
        let done = repairs ? "\(summary.repaired) repaired, \(summary.salvaged) salvaged, " : ""
        Output.error(
            "checked: \(counted(summary.errors, "error")), \(done)\(summary.remaining) left; standard output cannot be written: \(error.reason)"
        )
        return false
    }

    /// The check neither ends nor skips a repair because its output fails.
    private func write(_ text: String) {
        failure.withLock { failure in
            guard failure == nil else { return }
            do throws(SystemError) { try Output.write(text) } catch { failure = error }
        }
    }

    // MARK: text

    private func estimate(_ step: CheckProgress) -> String {
        guard let total = step.total, total.work > 0 else {
            return "\(counted(step.objects, "object")), \(step.bytes >> 20) MiB"
        }
        // Files that appear during the check can raise the counts above the totals.
        var text = "\(step.objects) of \(max(total.objects, step.objects)) objects, "
        text += "\(step.bytes >> 20) of \(max(total.bytes, step.bytes) >> 20) MiB, "
        return text + work.text(step.done, of: total.work)
    }

    private static func describe(_ finding: Finding) -> String {
        var line = "\(finding.severity.rawValue): /\(HostPath(bytes: finding.path)): \(finding.kind.rawValue)"
        if let object = finding.object { line += " (\(object.rawValue))" }
        if let evidence = finding.crashEvidence { line += " (\(evidence.rawValue))" }
        if let page = finding.page { line += ", page \(page)" }
        if let code = finding.errno { line += ", \(SystemError.reason(of: code))" }
        if finding.kind == .conflict {
            line +=
                " (a sync or copy program has put another version of this file beside it, under a name of its own: fsck --repair gives "
                + "it a name in the mount, to compare both; or remove it, or rename it over the original's encrypted file)"
        }
        return Output.oneLine(line + " [\(HostPath(bytes: finding.backingPath))]")
    }

    private static func describe(_ repair: Repair) -> String {
        var line = "repair: /\(HostPath(bytes: repair.path)): "
        let target = HostPath(bytes: repair.target ?? [])
        switch repair.action {
        case .mended: line += "completed after a crash"
        case .rebuilt:
            line += "made a new record; new files in this directory get class "
            line += repair.protectionClass?.canonicalName ?? "of the volume"
        case .header: line += "is now an empty file"
        case .renamed: line += "renamed to /\(target)"
        case .moved: line += "moved to \(target) in the volume's directory"
        case .salvaged:
            line += repair.isOld ? "was already salvaged, as /\(target)" : "copied what is readable to /\(target)"
            let shown = repair.unreadable.prefix(8).map { "\($0.lowerBound)-\($0.upperBound - 1)" }
            if !shown.isEmpty { line += ", without the bytes \(shown.joined(separator: ", "))" }
            if repair.unreadable.count > 8 {
                line += " and \(repair.unreadable.count - 8) more ranges (--json shows all)"
            }
        }
        return Output.oneLine(line + " [\(HostPath(bytes: repair.backingPath))]")
    }

    private func text(_ summary: CheckSummary) -> String {
        if summary.quick == .nothing { return "" }
        var text =
            "\(counted(summary.directories, "directory", "directories")), \(counted(summary.files, "file")), "
        text +=
            "\(counted(summary.symlinks, "symbolic link")), \(counted(summary.others, "other")); "
        text += "\(summary.bytes >> 20) MiB verified.\n"
        if summary.filesReadBefore > 0 {
            text += "\(counted(summary.filesReadBefore, "file")), \(summary.bytesReadBefore >> 20) MiB "
            text += "\(summary.filesReadBefore == 1 ? "was" : "were") verified before the interruption.\n"
        }
        text +=
            "\(counted(summary.errors, "error")), \(counted(summary.crashes, "place")) of crash damage, "
        text += "\(counted(summary.mended, "unfinished file")) repaired.\n"
        if repairs {
            text += "\(counted(summary.repaired, "error")) repaired, \(counted(summary.salvaged, "file")) salvaged, "
            text += "\(counted(summary.tidied, "leftover")) moved; \(counted(summary.remaining, "error")) left.\n"
        }
        if summary.unverified > 0 {
            text +=
                "\(counted(summary.unverified, "name is", "names are")) not verified, and marked. Rename files that you recognise in the mount, "
            text += "or confirm names with --repair and --accept-name, --accept-names-from or --accept-names.\n"
        }
        for (protectionClass, count) in summary.unchecked.sorted(by: { $0.key.isStronger(than: $1.key) }) {
            text +=
                "\(counted(count, "file")) of class \(protectionClass.canonicalName) \(count == 1 ? "was" : "were") not checked, because the class was closed.\n"
        }
        if summary.newer > 0 {
            text +=
                "\(counted(summary.newer, "object was", "objects were")) made by a newer version of protectfs, not damaged, and not changed "
            text += "by fsck. Crash damage stays tolerated until that version has checked the volume.\n"
        }
        if summary.isInterrupted {
            text += "Interrupted before everything was checked. Finished repairs are complete.\n"
            text += FsckResumption.text(summary.unrecorded, continuation)
        }
        if summary.remaining > 0 {
            text +=
                repairs
                ? "Damaged files stay beside their copies; fsck --repair --quarantine moves them to \(ReservedName.lostAndFound).\n"
                : "protectfs fsck --repair repairs what it can, and copies what is readable of damaged files.\n"
        }
        if let quick = summary.quick, quick == .listed || quick == .ends {
            text +=
                "Of \(counted(summary.files, "file")) \(summary.opened) \(summary.opened == 1 ? "was" : "were") opened, and \(summary.read) read. "
            text += "The others were not being changed; protectfs fsck without --quick reads all.\n"
        }
        if summary.closedEpochs {
            let isQuick = summary.read < summary.files && summary.quick != nil
            text += isQuick ? "What was being changed is undamaged. " : "The volume is undamaged. "
            text += "From now on, crash damage from before this check is reported as an error.\n"
        }
        return text
    }

    // MARK: JSON

    private func json(
        _ summary: CheckSummary, _ findings: [Finding], _ repairs: [Repair], _ tolerance: Tolerance,
        _ start: Result<Int64, CheckRestart>?
    ) -> JSONValue {
        func number(_ value: Int) -> JSONValue { .integer(Int64(value)) }
        return .fields([
            ("volume", .location(volume)), ("directories", number(summary.directories)),
            ("files", number(summary.files)),
            ("symlinks", number(summary.symlinks)), ("others", number(summary.others)),
            ("bytes", .unsigned(summary.bytes)), ("errors", number(summary.errors)),
            ("crashes", number(summary.crashes)), ("notes", number(summary.notes)),
            ("newer", number(summary.newer)), ("mended", number(summary.mended)),
            ("repaired", number(summary.repaired)),
            ("salvaged", number(summary.salvaged)), ("tidied", number(summary.tidied)),
            ("remaining", number(summary.remaining)), ("complete", .bool(summary.isComplete)),
            ("interrupted", .bool(summary.isInterrupted)),
            ("resumable", .bool(summary.isInterrupted && summary.unrecorded == nil)),
            ("notResumable", .optional(summary.unrecorded.map(FsckResumption.word))),
            ("resumed", .bool((try? start?.get()) != nil)), ("restarted", .optional(FsckResumption.word(start))),
            ("filesReadBefore", number(summary.filesReadBefore)),
            ("bytesReadBefore", .unsigned(summary.bytesReadBefore)), ("closedEpochs", .bool(summary.closedEpochs)),
            ("quick", .optional(summary.quick?.rawValue)), ("filesOpened", number(summary.opened)),
            ("filesRead", number(summary.read)),
            ("tolerance", .string(tolerance.rawValue)),
            ("unchecked", .fields(summary.unchecked.map { ($0.key.canonicalName, number($0.value)) })),
            ("findings", .array(findings.map(Self.json))), ("repairs", .array(repairs.map(Self.json))),
        ])
    }

    private static func json(_ finding: Finding) -> JSONValue {
        .fields([
            ("severity", .string(finding.severity.rawValue)), ("kind", .string(finding.kind.rawValue)),
            ("path", .path(HostPath(bytes: finding.path))),
            ("backingPath", .path(HostPath(bytes: finding.backingPath))),
            ("page", finding.page.map { .unsigned($0) } ?? .null),
            ("departure", .optional(finding.crashEvidence?.rawValue)),
            ("object", .optional(finding.object?.rawValue)),
            ("errno", finding.errno.map { .integer(Int64($0)) } ?? .null),
        ])
    }

    private static func json(_ repair: Repair) -> JSONValue {
        .fields([
            ("action", .string(repair.action.rawValue)),
            ("path", .path(HostPath(bytes: repair.path))), ("backingPath", .path(HostPath(bytes: repair.backingPath))),
            ("target", repair.target.map { .path(HostPath(bytes: $0)) } ?? .null),
            ("class", .optional(repair.protectionClass?.canonicalName)),
            (
                "unreadable",
                .array(repair.unreadable.map { .array([.unsigned($0.lowerBound), .unsigned($0.upperBound)]) })
            ),
        ])
    }
}
