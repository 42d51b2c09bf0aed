// docs/tamper-matrix.md as the tamper matrix's outcome makes it.

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

        A class A file `a` in a directory whose default is A, and an empty directory of the same default. The change is made to the file or to the records of both directories; then a program saves a class C file over `a`
        by a rename, or makes a file. `A`: it is of class A. An errno: refused, and nothing was changed. No other class may come of a change, but for two that nobody can notice: while locked, the header of a class B file, which is as closed as A (**X**); and a record that was copied from another
        directory (**X**; no name in the directory verifies under it).
        """

    /// The letters and what the threat model calls them, in the order of the legend.
    static let gaps: [(letter: TamperMatrix.Uncovered, name: String, text: String)] = [
        (.older, "Rollback", "an older version of the same bytes verifies"),
        (.exchanged, "Exchange by renaming", "whole objects change places, or one stands in two"),
        (.removed, "Removed entries", "what is gone leaves no trace"),
        (
            .record, "Directories without a record",
            "the default class is gone and nothing is created there; fsck says so"
        ),
        (.holes, "Zeroed pages in a file with holes", "they are holes"),
        (.size, "The size that `stat` shows", "until the file is opened"),
        (.crash, "After a crash, until `fsck`", "zeros and missing ends are tolerated and reported"),
        (.late, "Late records", "those of a lock, or the last of them, are gone, and the writes with them"),
        (.metadata, "Metadata of the store", "as the store has it"),
        (.trusted, "The state file", "it lies outside of the volume, and is believed"),
    ]

    private static var opening: String {
        let legend = gaps.map {
            "| **\($0.letter.rawValue)** | [\($0.name)](threat-model.md#what-is-not-covered) | \($0.text) |"
        }
        return """
            # The tamper matrix

            What comes of a change below the mount: every field of every stored object, as `Sources/VolumeFormat/FieldTables.swift` lists them, changed in every way. Made by
            `Tests/ProtectedVolumeTests/TamperMatrixTests.swift`, which fails when this file is not what it found; never edit it by hand:

                PROTECTFS_TAMPER=write swift test --disable-xctest --filter TamperMatrix

            | column | the change |
            |---|---|
            | flip | one bit: in the first, a middle and the last byte (in each byte with `PROTECTFS_TAMPER=all`) |
            | zero | zeros in place of the field |
            | cut | the object ends where the field begins; and the field's bytes taken out, the rest moving up |
            | extend | one byte more behind the field, a zero and another one |
            | swap | exchanged with the field of another object of its kind in the same volume; and copied from there |
            | foreign | the field of the same object in another volume, made in the same way |
            | older | the field as the object itself had it before it was changed |

            A cell that names kinds, like `block`, is *detected*: a program gets an error for what was changed (never other bytes), all else reads as before, and `fsck` reports findings of these
            kinds. `refused`: the keybag or state file is not used, and nothing is mounted (`fsck`: exit code 8). `right`: everything reads as before. `·`: the change changes nothing, or cannot
            be made. Several outcomes in a cell are those of several places or ways. In parentheses: what `fsck` reports besides. In late files the words are what a mount reports of them:
            `refused`, `missing` and `not-listed` (nothing of the file is applied), `cut-off` (what stands before the change is applied). The letters are what nobody can notice, each named in the
            [threat model](threat-model.md#what-is-not-covered):

            | letter | named there | |
            |---|---|---|
            \(legend.joined(separator: "\n"))
            """
    }
}
