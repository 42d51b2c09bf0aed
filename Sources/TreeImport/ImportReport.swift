// What an import has done and found, for a person and for programs.

import BackingStore
import CLibrary
package import CommandSupport
import Control
package import HostSystem

/// Counts and findings of one import. For one thread.
package final class ImportReport {
    /// An object of the source, and what is to be said of it.
    private struct Finding: Hashable {
        let path: HostPath
        let text: String
    }

    /// The findings of one kind that a person sees. JSON has all.
    private static let mostShown = 50

    /// The line on a terminal that says how far the import is.
    package let progress = Progress()
    /// The failures that `--replace` mends.
    private var replaceable = 0
    /// The source as the user has named it.
    private let source: HostPath
    private let isCopying: Bool
    private var failures: [Finding] = []
    private var differences: [Finding] = []
    private var skipped: [Finding] = []
    private var kept: [Finding] = []
    private var unkept: [String: Int] = [:]
    /// The private mount, if it has not ended.
    private var remains: Finding?
    /// The second pass meets again what the first has met.
    private var known: Set<Finding> = []

    /// Objects that were copied in this run.
    var copied = 0
    /// Objects that were there already, from an earlier run.
    var present = 0
    /// Objects that were copied again, because they were found incomplete.
    var again = 0
    /// Objects that were compared, and equal.
    var verified = 0
    /// Objects that were removed from the source, directories not counted. Nil if none is to be removed.
    package var removed: Int?
    /// Bytes that were compared, and equal.
    var bytes: UInt64 = 0

    /// A report on an import from `source`, or on a comparison alone.
    package init(_ source: HostPath, isCopying: Bool) { (self.source, self.isCopying) = (source, isCopying) }

    /// Whether something is not in the volume as it is in the source.
    package var isIncomplete: Bool { !failures.isEmpty || !differences.isEmpty || !skipped.isEmpty || remains != nil }

    /// An object could not be copied or compared.
    func fail(_ path: [EntryName], _ text: String) { add(path, text, to: &failures) }

    /// A file is in the volume already, and differs. `--replace` replaces it.
    func failReplaceably(_ path: [EntryName]) {
        let before = failures.count
        fail(path, "is in the volume already, and differs; --replace replaces it")
        replaceable += failures.count - before
    }

    /// The private mount at this place has not ended.
    package func fail(_ place: HostPath, _ text: String) { remains = Finding(path: place, text: text) }

    /// An object was copied or was there, and differs.
    func differ(_ path: [EntryName], _ text: String) { add(path, text, to: &differences) }

    /// An object is left out on purpose.
    func skip(_ path: [EntryName], _ text: String) { add(path, text, to: &skipped) }

    /// An object stays in the source, although it was to be removed.
    func keep(_ path: [EntryName], _ text: String) { add(path, text, to: &kept) }

    private func add(_ path: [EntryName], _ text: String, to list: inout [Finding]) {
        let finding = Finding(path: path.reduce(source) { $0.appending(bytes: Array($1.bytes)) }, text: text)
        if known.insert(finding).inserted { list.append(finding) }
    }

    /// Something that this user or the volume cannot keep, such as owners.
    func lose(_ what: String) { unkept[what, default: 0] += 1 }

    /// Prints everything, and returns the exit code.
    package func tell(_ volume: HostPath, isJSON: Bool) -> ExitCode {
        let code = isIncomplete || !kept.isEmpty ? ExitCode.failure : .success
        if isJSON { return Output.done("the import has ended", json(volume).line + "\n", code) }
        show(failures, "not copied")
        show(differences, "differs")
        show(skipped, "left out")
        show(kept, "not removed")
        if let remains { Output.error("\(remains.path): \(remains.text)") }
        for (what, count) in unkept.sorted(by: { $0.key < $1.key }) {
            Output.note("protectfs: not kept: \(what) (\(counted(count, "object")))")
        }
        var text = ""
        if isCopying {
            text += "\(counted(copied, "object")) copied, \(present) \(present == 1 ? "was" : "were") there already"
            if again > 0 { text += ", \(again) copied again" }
            text += "; "
        }
        text += "\(verified) compared and equal, \(counted(bytes, "byte")).\n"
        if isIncomplete {
            text += "\(incompleteness): see the messages above\(remedy).\n"
            if removed != nil { text += "Nothing was removed from \(source).\n" }
        } else if let removed {
            text += """
                Everything in \(source) is in the volume; \(counted(removed, "object was", "objects were")) removed from there. Their contents can stay readable
                on the disk, in free space, in snapshots and in backups.

                """
        } else {
            text += """
                Everything in \(source) is in the volume. To get rid of the source, delete it: for an encrypted one unmount it and
                delete its store. Plain files can stay readable on the disk after they are deleted, in free space, in
                snapshots and in backups; fstrim(8) or overwriting free space helps on some disks, and only erasing the whole
                disk on all.

                """
        }
        return Output.done("the import has ended", text, code)
    }

    private var incompleteness: String {
        if !failures.isEmpty || remains != nil { return "The \(isCopying ? "import" : "comparison") is incomplete" }
        if !differences.isEmpty { return "The volume differs from the source" }
        return "Everything but what was left out is in the volume"
    }

    private var remedy: String {
        let replacing = "--replace replaces the files that differ"
        if !failures.isEmpty || remains != nil {
            if replaceable == failures.count, remains == nil { return ". \(replacing)" }
            return ". Mend what they name, then give the same command again\(replaceable > 0 ? "; \(replacing)" : "")"
        }
        if differences.isEmpty { return "" }
        return isCopying ? ". \(replacing)" : ". Without --verify-only the command copies what is missing; \(replacing)"
    }

    private func show(_ findings: [Finding], _ what: String) {
        for finding in findings.prefix(Self.mostShown) { Output.error("\(finding.path): \(what): \(finding.text)") }
        let more = findings.count - Self.mostShown
        if more > 0 { Output.note("protectfs: and \(more) more (\(what)); --json names all") }
    }

    private func json(_ volume: HostPath) -> JSONValue {
        func list(_ findings: [Finding]) -> JSONValue {
            .array(findings.map { .fields([("path", .location($0.path)), ("reason", .string($0.text))]) })
        }
        return .fields([
            ("source", .location(source)), ("volume", .location(volume)), ("complete", .bool(!isIncomplete)),
            ("copied", .integer(Int64(copied))), ("present", .integer(Int64(present))),
            ("copiedAgain", .integer(Int64(again))), ("verified", .integer(Int64(verified))),
            ("verifiedBytes", .unsigned(bytes)), ("failures", list(failures + [remains].compactMap { $0 })),
            ("differences", list(differences)), ("skipped", list(skipped)),
            ("removed", removed.map { .integer(Int64($0)) } ?? .null), ("kept", list(kept)),
            (
                "notKept",
                .array(
                    unkept.sorted { $0.key < $1.key }.map {
                        .fields([("what", .string($0.key)), ("objects", .integer(Int64($0.value)))])
                    })
            ),
        ])
    }
}
