// Runs programs on a changed volume: the change must not decide about a class or a name.

import BackingStore
import KeyFiles
import Testing
import VolumeFormat

@testable import ProtectedVolume
@testable import VolumeCheck

/// The last table of the tamper matrix: a change, and what comes of it when files are made.
struct TamperDecisions {
    /// One change below a volume, made where nothing is mounted.
    struct Change: Sendable {
        let name: String
        var isCopy = false
        let apply: @Sendable (TestVolume) throws -> Void
    }

    /// One thing that a program does next; gives the path whose class it decides.
    struct Step: Sendable {
        let name: String
        var isLocked = false
        var repairsFirst = false
        let run: @Sendable (TestVolume) throws -> String
    }

    struct Row {
        let name: String
        var texts: [String] = []
        var failures: [String] = []
    }

    static let steps = [
        Step(name: "a save by rename") { it in
            try it.write("new", "new")
            try it.rename("new", "d/a")
            return "d/a"
        },
        Step(name: "the same, locked", isLocked: true) { it in
            try it.write("new", "new")
            try it.rename("new", "d/a")
            return "d/a"
        },
        Step(name: "a new file") { it in
            try it.write("d/new", "new")
            return "d/new"
        },
        Step(name: "a new file in an empty directory") { it in
            try it.write("empty/new", "new")
            return "empty/new"
        },
        Step(name: "the same after `fsck --repair`", repairsFirst: true) { it in
            try it.write("empty/new", "new")
            return "empty/new"
        },
        Step(name: "a new file after `fsck --repair`", repairsFirst: true) { it in
            try it.write("d/new", "new")
            return "d/new"
        },
    ]

    static let changes: [Change] =
        [Change(name: "none") { _ in }]
        + ["B", "C", "D"].map { letter in
            Change(name: "header of a class \(letter) file over the class A file") { it in
                try it.layHeader(of: letter, over: "d/a")
            }
        } + [
            Change(name: "record removed") { it in try records(it) { directory, _ in try directory.unlink(record) } },
            Change(name: "record's MAC changed") { it in try records(it) { try flip($0, $1, 43) } },
            Change(name: "record's class changed to D") { it in try records(it) { try flip($0, $1, 4, with: 1 ^ 4) } },
            Change(name: "record of class D, of another directory", isCopy: true) { it in
                let weak = try it.volume.directory(it.node("weak")).readSymlink(record)
                try records(it) { directory, _ in try replace(directory, weak) }
            },
        ]

    private static var record: EntryName { BackingName.record }

    private static func records(
        _ it: TestVolume, _ change: (BackingDirectory, [UInt8]) throws -> Void
    ) throws {
        for path in ["d", "empty"] {
            let directory = try it.volume.directory(it.node(path))
            try change(directory, directory.readSymlink(record))
        }
    }

    private static func replace(_ directory: BackingDirectory, _ target: [UInt8]) throws {
        try directory.unlink(record)
        try directory.createSymlink(record, target: target)
    }

    private static func flip(
        _ directory: BackingDirectory, _ target: [UInt8], _ index: Int, with bits: UInt8 = 1
    ) throws {
        let decoded = Base64URL.decode(target.span)
        var bytes = try #require(decoded)
        bytes[index] ^= bits
        try replace(directory, Base64URL.encode(bytes.span))
    }

    /// A class A file in a directory of that default, an empty one, and weaker files to take headers from.
    private static func volume() throws -> TestVolume {
        let it = try TestVolume()
        for (path, letter) in [("d", "A"), ("empty", "A"), ("weak", "D")] {
            try it.mkdir(path)
            try it.setClass(path, letter)
        }
        try it.write("d/a", "secret")
        for letter in ["B", "C", "D"] {
            try it.write(letter, letter)
            try it.setClass(letter, letter)
        }
        try it.volume.close()
        return it
    }

    static func rows() throws -> [Row] {
        try changes.map { change in
            var row = Row(name: change.name)
            for step in steps {
                let made = try volume()
                try change.apply(made)
                if step.repairsFirst { _ = try made.repair() }
                let it = try made.mountAgain(made.directory)
                if step.isLocked { it.lock() }
                var text = outcome(step, it)
                if text != "A", !text.hasPrefix("`") {
                    // A record of the same volume verifies in another directory as well. While locked nothing proves a
                    // closed class, and class B is as closed as A.
                    if change.isCopy || (step.isLocked && text == "B") {
                        text = "**X** (\(text))"
                    } else {
                        row.failures.append("\(change.name), \(step.name): \(text)")
                    }
                }
                row.texts.append(text)
            }
            return row
        }
    }

    /// `A`: the file is of class A, as it was asked for; the errno of a refusal; else the weaker class.
    private static func outcome(_ step: Step, _ it: TestVolume) -> String {
        do {
            let found = try it.getClass(step.run(it))
            return ProtectionClass(name: found).map { "\($0.letter)" } ?? "?"
        } catch {
            return (error as? VolumeError).map { "`\(name(of: $0))`" } ?? "?"
        }
    }

    private static func name(of error: VolumeError) -> String {
        switch error {
        case .locked: "EACCES"
        case .damaged: "EIO"
        case .newer: "EOPNOTSUPP"
        case .stateFile: "the state file"
        case .noEntry: "ENOENT"
        case .store(let errno), .refused(let errno): "\(errno)"
        }
    }
}
