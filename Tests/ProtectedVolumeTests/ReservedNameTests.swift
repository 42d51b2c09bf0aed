// Reserved names that this version does not know: hidden, kept by every operation, and never moved by a repair.

import BackingStore
import HostSystem
@testable import MemoryStore
import KeyFiles
import TestSupport
import Testing
import VolumeFormat

@testable import ProtectedVolume
@testable import VolumeCheck

@Suite struct ReservedNameTests {
    /// Names that no directory of this version holds.
    static let unknown = [
        ".protectfs.", ".protectfs.x", ".protectfs.TMP.x", ".protectfs.dir2", ".protectfs.Dir", ".protectfs.tmp",
        ".protectfs.aside", ".protectfs.late.x", ".protectfs.late.0123456789ABCDEF", ".protectfs.late.ffffffffffffffff",
        ".protectfs.keybag.old2", ".protectfs.keybag.erasing", ".protectfs.\u{7}\n", ".protectfs..n",
        ".protectfs." + String(repeating: "x", count: 244),
    ]
    /// Names that only the root holds.
    static let ofTheRoot = [
        ".protectfs.keybag", ".protectfs.keybag.old", ".protectfs.lost+found", ".protectfs.late.0123456789abcdef",
    ]

    private enum Form: CaseIterable {
        case file, directory, symlink, fifo
    }

    private func name(_ text: String) -> EntryName { BackingName.known(Array(text.utf8)) }

    private func plant(_ text: String, _ form: Form, in directory: BackingDirectory) throws {
        let name = name(text)
        switch form {
        case .file:
            let bytes = Array("kept".utf8)
            try directory.createFile(name, mode: 0o600).write(bytes.span, at: 0)
        case .directory:
            try directory.createDirectory(name, mode: 0o700)
            _ = try directory.openDirectory(name).createFile(self.name("inside"), mode: 0o600)
        case .symlink: try directory.createSymlink(name, target: Array("target".utf8))
        case .fifo: try directory.createSpecial(name, mode: 0o010600, device: 0)
        }
    }

    /// Every backing path below a directory with its inode number.
    private func paths(_ directory: BackingDirectory, _ above: String = "") throws -> Set<String> {
        try directory.entries().reduce(into: []) { found, entry in
            let path = above + "/" + String(decoding: entry.name.bytes, as: UTF8.self)
            let status = try directory.status(of: entry.name)
            found.insert("\(path) \(status.inode)")
            if status.kind == .directory {
                found.formUnion(try paths(directory.openDirectory(entry.name), path))
            }
        }
    }

    /// The kernel may have seen the position of a hidden entry before a name that is gone.
    @Test func positionsAreInFrontOfNamesThatAreListed() throws {
        let holder = try TemporaryDirectory()
        let it = try TestVolume(holder.directory)
        try it.mkdir("d")
        for number in 0..<40 { try it.write("d/\(number)" + String(repeating: "n", count: 5 * number), "") }
        let node = try it.node("d")
        let directory = try it.volume.directory(node)
        var positions: [UInt64] = []
        try it.volume.list(node, from: 0, attributes: .none) { entry in
            positions.append(entry.next)
            return true
        }
        #expect(positions.count == 42)
        for position in positions {
            try directory.list(from: position) { object, _ in
                guard case .entry(let entry) = object else { return false }
                #expect(!ReservedName.kind(of: entry.name.bytes.span).isHidden)
                return false
            }
        }
    }

    @Test(arguments: unknown + ofTheRoot) func keepADirectory(_ text: String) throws {
        for form in Form.allCases {
            let it = try TestVolume()
            try it.mkdir("d")
            try it.mkdir("other")
            try it.write("d/f", "f")
            let d = try it.volume.directory(it.node("d"))
            try plant(text, form, in: d)
            #expect(try it.list("d") == ["f"])
            let plus = try it.list(it.node("d"), attributes: .all)
            #expect(plus == [Array("f".utf8)])
            // The name that an undecryptable entry would have.
            let shown = String(decoding: Volume.nameShown(for: name(text)), as: UTF8.self)
            for hidden in [text, shown] {
                #expect(throws: VolumeError.noEntry) { try it.node("d/\(hidden)") }
                #expect(throws: VolumeError.noEntry) { try it.unlink("d/\(hidden)") }
                #expect(throws: VolumeError.noEntry) { try it.rmdir("d/\(hidden)") }
                #expect(throws: VolumeError.noEntry) { try it.rename("d/\(hidden)", "gone") }
            }
            try it.unlink("d/f")
            let before = try paths(it.directory)
            #expect(throws: VolumeError.notEmpty) { try it.rmdir("d") }
            #expect(throws: VolumeError.notEmpty) { try it.rename("other", "d") }
            #expect(try paths(it.directory) == before)
            // It goes where its directory goes.
            try it.rename("d", "other")
            #expect(throws: VolumeError.notEmpty) { try it.rmdir("other") }
            // A program's own file of that name is another one.
            if text.utf8.count < 200 {
                try it.write("other/\(text)", "mine")
                #expect(try it.read("other/\(text)") == "mine")
            }
        }
    }

    @Test func inADirectoryWithoutARecord() throws {
        let made = try TestVolume()
        try made.mkdir("d")
        try made.write("d/f", "f")
        let d = try made.volume.directory(made.node("d"))
        try d.unlink(BackingName.record)
        for text in Self.unknown { try plant(text, .file, in: d) }
        let it = try made.mountAgain(made.directory)
        let shown = try it.list("d")
        #expect(shown.count == 1 && shown[0].hasSuffix("-f"))
        try it.unlink("d/\(shown[0])")
        #expect(throws: VolumeError.notEmpty) { try it.rmdir("d") }
    }

    @Test(arguments: [false, true]) func areNotedAndNeverMoved(_ quarantines: Bool) throws {
        let it = try TestVolume()
        try it.mkdir("d")
        try it.write("d/f", "f")
        let d = try it.volume.directory(it.node("d"))
        for (index, text) in Self.unknown.enumerated() {
            try plant(text, Form.allCases[index % 4], in: d)
            try plant(text, Form.allCases[(index + 1) % 4], in: it.directory)
        }
        for (index, text) in Self.ofTheRoot.enumerated() { try plant(text, Form.allCases[index % 4], in: d) }
        try it.volume.close()
        let before = try paths(it.directory)
        let found = try it.repair(quarantines: quarantines)
        #expect(found.kinds.allSatisfy { $0 == "reserved-name" })
        #expect(found.summary.notes == 2 * Self.unknown.count + Self.ofTheRoot.count)
        #expect(found.findings.allSatisfy { $0.severity == .note } && found.actions == [])
        #expect(found.summary.files == 1 && found.summary.directories == 2)
        // Notes are no reason to tolerate crash damage.
        #expect(found.summary.isWhole && found.summary.closedEpochs)
        #expect(try paths(it.directory) == before)
        #expect(try it.mountAgain(it.directory).list("") == ["d"])
    }

    @Test func foreignNamesAreNotReserved() throws {
        let it = try TestVolume()
        for text in [".protectfs", ".protectfs-x", "protectfs.x", ".Protectfs.x"] {
            try plant(text, .file, in: it.directory)
        }
        #expect(try it.list("").filter { $0.hasPrefix(".undecryptable-") }.count == 4)
        try it.volume.close()
        let found = try it.repair(quarantines: true)
        #expect(found.kinds == ["foreign", "foreign", "foreign", "foreign"])
        #expect(found.summary.repaired == 4)
    }
}
