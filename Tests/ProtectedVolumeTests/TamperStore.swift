// The store's own metadata of an object in the tamper matrix. Nothing authenticates it; only the named effects are
// allowed.

import BackingStore
import HostSystem
import KeyFiles
import Testing
import VolumeFormat

@testable import ProtectedVolume
@testable import VolumeCheck

struct TamperStore {
    private typealias Act = @Sendable (TestVolume) throws -> Void

    /// Changes of entries and attributes as the store has them.
    static func rows() throws -> [TamperRow] {
        let build: Act = { it in
            try it.write("f", "content")
            try it.write("g", "another")
            try it.mkdir("d")
            try it.link("link", "target")
            try it.attribute("f", "user.one", "value")
            _ = try it.volume.mknod(
                Array("device".utf8), in: it.volume.root, mode: 0o020600, device: 0x103,
                caller: TestVolume.caller)
        }
        let flips: [(String, Act)] = [
            ("mode", { it in try it.onNode("f") { try $0.node($1).setMode(0o777) } }),
            ("owner and group", { it in try it.onNode("f") { try $0.node($1).setOwner(1, group: 1) } }),
            (
                "device number",
                { it in
                    try it.onNode("device") {
                        try $0.unlink($1)
                        try $0.createSpecial($1, mode: 0o020600, device: 0x104)
                    }
                }
            ),
            (
                "link count",
                { it in try it.onNode("f") { try $0.link($1, to: $0, BackingName.temporary()) } }
            ),
        ]
        let cuts: [(String, Act)] = [
            ("a file's entry", { it in try it.onNode("f") { try $0.unlink($1) } }),
            (
                "a directory's entry",
                { it in
                    try it.onNode("d") {
                        try $0.openDirectory($1).unlink(BackingName.record)
                        try $0.removeDirectory($1)
                    }
                }
            ),
            ("a symlink's entry", { it in try it.onNode("link") { try $0.unlink($1) } }),
            (
                "an attribute",
                { it in
                    let name = try it.attributeBackingName("f", "user.one")
                    try it.onNode("f") { try $0.node($1).removeAttribute(name) }
                }
            ),
        ]
        let kinds: [(String, Act)] = [
            (
                "a file's kind",
                { it in
                    try it.onNode("f") {
                        try $0.unlink($1)
                        try $0.createSymlink($1, target: Array("/etc/passwd".utf8))
                    }
                }
            ),
            (
                "a symlink's kind",
                { it in
                    try it.onNode("link") {
                        try $0.unlink($1)
                        _ = try $0.createFile($1, mode: 0o600)
                    }
                }
            ),
        ]
        return try flips.map { try row($0, .flip, build, $1) } + cuts.map { try row($0, .cut, build, $1) }
            + kinds.map { try row($0, .flip, build, $1) }
    }

    private static func row(_ name: String, _ column: Tampering, _ build: Act, _ act: Act) throws -> TamperRow {
        let it = try TestVolume()
        try build(it)
        try it.volume.close()
        let before = try TamperReading(it.mountAgain(it.directory))
        #expect(!before.hasErrors)
        try act(it)
        let now = try TamperReading(it.mountAgain(it.directory))
        let found = try TamperMatrix.check(it.keys, it.directory, it.states)
        let (detected, changes) = now.compare(with: before)
        var text = "? \(changes)"
        let kinds = found.sorted().joined(separator: " ")
        if detected, !found.isEmpty, changes.allSatisfy({ $0.aspect != "content" || $0.value == nil }) {
            // An entry's kind is in the clear; what it held does not pass for something else.
            text = "**M** (\(kinds))"
        } else if column == .cut, changes.allSatisfy({ $0.value == nil }), !changes.isEmpty {
            text = "**D**"
        } else if column == .flip, changes.allSatisfy({ $0.aspect == "status" }), !changes.isEmpty {
            text = "**M**"
        }
        var cells = Array(repeating: TamperCell(), count: Tampering.allCases.count)
        for (number, tampering) in Tampering.allCases.enumerated() where tampering == column {
            cells[number].changes = 1
            cells[number].texts = [text]
            if text.contains("?") { cells[number].failures = ["\(name): \(text)"] }
        }
        return TamperRow(kind: "What the store keeps", field: name, length: 0, cells: cells)
    }
}

extension TestVolume {
    fileprivate func onNode(_ path: String, _ act: (BackingDirectory, EntryName) throws -> Void) throws {
        let (directory, entry) = try backing(path)
        try act(directory, entry)
    }
}
