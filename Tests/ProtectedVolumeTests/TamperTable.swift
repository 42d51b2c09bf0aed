// docs/judge/tamper-matrix.md as the tamper matrix's outcome makes it.

import Testing

@testable import ProtectedVolume

enum TamperTable {
    /// The whole document.
    static func document(_ rows: [TamperRow], _ decisions: [TamperDecisions.Row]) -> String {
        var lines = [opening]
        var kind = ""
        for row in rows {
            if row.kind != kind {
                kind = row.kind
                lines += [
                    "", "### \(kind)", "",
                    "| field | bytes | flip | zero | cut | extend | swap | foreign | older |",
                    "|---|---|---|---|---|---|---|---|---|",
                ]
            }
            let length = row.length == 0 ? "" : "\(row.length)"
            lines.append("| \(row.field) | \(length) | \(row.cells.map(\.text).joined(separator: " | ")) |")
        }
        lines += ["", decided, "", "| change | \(TamperDecisions.steps.map(\.name).joined(separator: " | ")) |"]
        lines.append("|---|" + TamperDecisions.steps.map { _ in "---|" }.joined())
        for row in decisions { lines.append("| \(row.name) | \(row.texts.joined(separator: " | ")) |") }
        return lines.joined(separator: "\n") + "\n"
    }

    private static let decided = """
        ### What programs make next

        A class A file `a` is in a directory whose default is A, beside an empty directory with the same default.
        The file, or the records of both directories, are changed. Then a program saves a class C file over `a` by a rename, or makes a file.
        `A` means that the result is of class A. An errno means that the program was refused and nothing was changed.
        A change leads to no other class, except in two cases that nobody can notice (**X**):

        - while locked, the header of a class B file, which is as closed as A;
        - a record that was copied from another directory; no name in the directory verifies under it.
        """

    /// The letters and what the threat model calls them, in the order of the legend.
    static let gaps: [(letter: TamperMatrix.Uncovered, name: String, text: String)] = [
        (
            .older, "Rollback",
            "an older version of the same bytes verifies; it is noticed where the cell says `older-than-seen`"
        ),
        (.exchanged, "Exchange by renaming", "whole objects change places, or one is in two places"),
        (.removed, "Removed entries", "a removed entry leaves no trace"),
        (
            .record, "Directories without a record",
            "the default class is gone, nothing is created there, and fsck says so"
        ),
        (.holes, "Zeroed pages in a file with holes", "they read as holes"),
        (.size, "The size that `stat` shows", "it is wrong until the file is opened"),
        (.crash, "After a crash, until `fsck`", "zeros and missing ends are tolerated and reported"),
        (.late, "Late records", "those of a lock, or the last of them, are gone with their writes"),
        (.metadata, "Metadata of the store", "it is as the store has it"),
        (.trusted, "The state file", "it is outside of the volume and is believed"),
    ]

    private static var opening: String {
        let legend = gaps.map {
            "| **\($0.letter.rawValue)** | [\($0.name)](threat-model.md#what-is-not-covered) | \($0.text) |"
        }
        return """
            # The tamper matrix

            This table shows the result of every change below the mount. Each field of each stored object, as `Tests/TestSupport/FieldTables.swift` lists them, is changed in every way.
            `Tests/ProtectedVolumeTests/TamperMatrixTests.swift` makes the table and fails if this file differs from its result. Never edit it by hand:

                PROTECTFS_TAMPER=write swift test --disable-xctest --filter TamperMatrix

            | column | change |
            |---|---|
            | flip | one bit, in the first, a middle and the last byte (in each byte with `PROTECTFS_TAMPER=all`) |
            | zero | zeros replace the field |
            | cut | the object ends at the start of the field; also, the field's bytes are removed and the rest moves up |
            | extend | one more byte after the field, a zero or another one |
            | swap | exchanged with the field of another object of its kind in the same volume, or copied from there |
            | foreign | the field of the same object in another volume, made in the same way |
            | older | the field as the object itself had it before a change |

            | cell | result |
            |---|---|
            | a kind, like `block` | *detected*: a program gets an error for what was changed and never other bytes; everything else reads as before; `fsck` reports findings of these kinds |
            | `refused` | the keybag or state file is not used, and nothing is mounted (`fsck`: exit code 8) |
            | `right` | everything reads as before |
            | `·` | the change changes nothing, or cannot be made |
            | `missing`, `not-listed` (late files) | as `refused` there: a mount applies nothing of the file |
            | `cut-off` (late files) | a mount applies what is before the change |
            | a letter | a change that does not fail to verify; the [threat model](threat-model.md#what-is-not-covered) names each |

            A cell with several results has those of several places or ways. In parentheses is what `fsck` reports in addition.
            With `older-than-seen` the file is also counted when it is opened, and with `-o fresh` it is an error.

            | letter | in the threat model | what happens |
            |---|---|---|
            \(legend.joined(separator: "\n"))
            """
    }
}
