// Checks and repairs of volumes that a newer version has changed: everything newer is reported, and nothing of it is touched.

import BackingStore
import HostSystem
import KeyFiles
import Keybag
@testable import MemoryStore
import Testing
import VolumeFormat

@testable import ProtectedVolume
@testable import VolumeCheck

@Suite struct NewerCheckTests {
    /// Everything below a directory: kind, contents and attributes by path, without what a repair adds.
    private func snapshot(_ directory: BackingDirectory, _ above: String = "") throws -> [String: [[UInt8]]] {
        var found: [String: [[UInt8]]] = [:]
        for entry in try directory.entries() where entry.name != BackingName.lostAndFound {
            let path = above + "/" + String(decoding: entry.name.bytes, as: UTF8.self)
            let status = try directory.status(of: entry.name)
            switch status.kind {
            case .directory:
                let child = try directory.openDirectory(entry.name)
                found[path] = try child.attributeNames().map { try child.attribute($0) }
                found.merge(try snapshot(child, path)) { one, _ in one }
            case .symlink: found[path] = [try directory.readSymlink(entry.name)]
            default:
                let file = try directory.openFile(entry.name, .readOnly)
                var bytes = [UInt8](repeating: 0, count: Int(status.size))
                var raw = bytes.mutableSpan
                _ = try file.read(into: &raw, at: 0)
                found[path] = [bytes] + (try file.attributeNames().map { try file.attribute($0) })
            }
        }
        return found
    }

    private let long = String(repeating: "text ", count: 4000)

    /// Checks with every option, and expects that only what is newer was found, and that no byte was changed.
    private func expectUntouched(_ it: TestVolume, _ objects: [Damage], _ comment: Comment) throws {
        try it.volume.close()
        let before = try snapshot(it.directory)
        let open = StateFileStore(directory: it.states.root, volumeID: it.volume.keys.volumeID)
        try open.update { $0?.layout.openEpochs.append(77) }
        for quarantines in [false, true] {
            let found = try it.repair(quarantines: quarantines)
            #expect(found.kinds == objects.map { _ in "newer" }, comment)
            #expect(found.findings.compactMap(\.object) == objects, comment)
            #expect(found.summary.newer == objects.count && found.actions == [], comment)
            #expect(!found.summary.isWhole && !found.summary.closedEpochs && found.summary.errors == 0, comment)
            #expect(try snapshot(it.directory) == before, comment)
        }
        #expect(try open.load()?.layout.openEpochs.contains(77) == true, comment)
    }

    @Test func headers() throws {
        let changes: [(Int, UInt8)] = [(3, 3), (4, 6), (4, 200), (5, 3), (6, 13), (7, 1), (8, 0x80), (10, 9), (12, 1)]
        for (offset, value) in changes {
            let it = try TestVolume()
            try it.write("f", long)
            try it.write("g", "g")
            try it.signHeader("f") { $0[offset] = value }
            try expectUntouched(it, [.header], "byte \(offset)")
        }
    }

    @Test func readableOnlyFlags() throws {
        for flags: UInt16 in [0x100, 0x800, 0xF00] {
            let it = try TestVolume()
            try it.write("f", long)
            try it.volume.setXattr(it.node("f"), Array("user.x".utf8), value: [1], mode: .set)
            try it.setFlags("f", flags)
            try expectUntouched(it, [.header], "flags \(flags)")
            // It is verified.
            #expect(try it.repair().summary.bytes == UInt64(long.utf8.count))
            try it.damage("f", at: 6000)
            let before = try snapshot(it.directory)
            let found = try it.repair(quarantines: true)
            #expect(found.kinds == ["block", "newer"] && found.actions == [])
            #expect(try snapshot(it.directory) == before)
        }
        let it = try TestVolume()
        try it.write("f", long)
        try it.setFlags("f", 0xF000)
        try it.volume.close()
        #expect(try it.repair().summary.isWhole, "flags that are kept and ignored")
    }

    @Test(arguments: [0, 1, 2, 4] as [UInt64]) func blocks(_ index: UInt64) throws {
        let it = try TestVolume()
        try it.write("f", long)
        try it.signBlock("f", index) { $0[2] |= 0x80 }
        try expectUntouched(it, [.block], "block \(index)")
        // Damage beside it is reported too, and the file is left alone.
        let damaged: UInt64 = index == 2 ? 1 : 2
        try it.damage("f", at: damaged * 4096 + 2000)
        let before = try snapshot(it.directory)
        let found = try it.repair(quarantines: true)
        // If the file cannot be opened, its other blocks are not read.
        #expect(Set(found.kinds).isSubset(of: ["block", "newer"]) && found.kinds.contains("newer"))
        if (1...3).contains(index) { #expect(found.kinds == ["block", "newer"]) }
        #expect(found.actions == [] && found.summary.remaining == found.summary.errors)
        #expect(try snapshot(it.directory) == before)
    }

    /// Block 0 is damaged, so a newer block is found by the salvage alone.
    @Test func aSalvageThatMeetsANewerBlock() throws {
        let it = try TestVolume()
        try it.write("f", long)
        try it.signBlock("f", 2) { $0[2] |= 0x80 }
        try it.damage("f", at: 2000)
        try it.volume.close()
        let before = try snapshot(it.directory)
        let found = try it.repair(quarantines: true)
        #expect(found.kinds == ["block", "newer"] && found.actions == [] && found.summary.errors == 1)
        #expect(try snapshot(it.directory) == before)
    }

    @Test func manyNewerBlocksAreOneFinding() throws {
        let it = try TestVolume()
        try it.write("f", long)
        for index: UInt64 in 1...3 { try it.signBlock("f", index) { $0[2] |= 0x80 } }
        try expectUntouched(it, [.block], "three blocks")
    }

    @Test func aCrashInAFileWithANewerBlock() throws {
        let it = try TestVolume()
        try it.write("f", long)
        try it.volume.synchronize(it.node("f"), dataOnly: false)
        try it.signBlock("f", 1) { $0[2] |= 0x80 }
        // No clean end: a zeroed page is what a crash leaves.
        try it.damage("f", at: 2 * 4096, [UInt8](repeating: 0, count: 4096))
        let before = try snapshot(it.directory)
        let found = try it.repair(quarantines: true)
        #expect(found.kinds == ["newer"] && found.summary.mended == 0 && !found.summary.closedEpochs)
        #expect(try snapshot(it.directory) == before)
    }

    @Test func linksAndAttributes() throws {
        let it = try TestVolume()
        try it.write("f", "f")
        try it.mkdir("d")
        for path in ["f", "d"] {
            try it.volume.setXattr(it.node(path), Array("user.kept".utf8), value: [1], mode: .set)
            try it.signAttribute(path, "user.new", "value")
        }
        _ = try it.volume.symlink(Array("l".utf8), in: it.volume.root, target: [65], caller: TestVolume.caller)
        try it.signLink("l", "target")
        try it.volume.close()
        let before = try snapshot(it.directory)
        let found = try it.repair(quarantines: true)
        #expect(found.findings.compactMap(\.object?.rawValue).sorted() == ["attribute", "attribute", "symlink"])
        #expect(found.actions == [] && found.summary.errors == 0)
        #expect(try snapshot(it.directory) == before)
    }

    @Test(arguments: ["d", ""]) func records(_ path: String) throws {
        for (offset, value, more) in [(3, 9, 0), (4, 6, 0), (4, 99, 0), (5, 1, 0), (6, 1, 0), (8, 1, 0), (3, 3, 9)] {
            let it = try TestVolume()
            try it.mkdir("d")
            try it.setClass(path, "A")
            try it.write("d/f", "f")
            try it.mkdir("d/sub")
            try it.write("d/sub/g", "g")
            try it.signRecord(path) {
                $0[offset] = UInt8(value)
                $0 += [UInt8](repeating: 5, count: more)
            }
            try expectUntouched(it, [.record], "byte \(offset)")
            let found = try it.repair()
            #expect(found.summary.files == 2 && found.summary.directories == 3)
        }
    }

    /// Names, leftovers, damage and empty files in a directory with a newer record stay; those below it are repaired.
    @Test func nothingInADirectoryWithANewerRecordIsChanged() throws {
        let it = try TestVolume()
        for path in ["d", "d/sub", "d/recordless", "d/.protectfs-staging-7"] { try it.mkdir(path) }
        for path in ["d/f", "d/renamed", "d/empty", "d/sub/f", "d/recordless/f", "other"] { try it.write(path, long) }
        for path in ["d/f", "d/sub/f"] { try it.damage(path, at: 6000) }
        try it.scramble("d/renamed")
        let (empty, entry) = try it.backing("d/empty")
        try empty.openFile(entry, .readWrite).truncate(to: 0)
        let d = try it.volume.directory(it.node("d"))
        try d.createSymlink(BackingName.temporary(), target: [65])
        try d.createSymlink(BackingName.known(Array("~\(String(repeating: "x", count: 43)).n".utf8)), target: [65])
        _ = try d.createFile(BackingName.known(Array("foreign".utf8)), mode: 0o600)
        try it.volume.directory(it.node("d/recordless")).unlink(BackingName.record)
        try it.signRecord("d") { $0[3] = 9 }
        try it.volume.close()
        let before = try snapshot(it.directory)
        let found = try it.repair(quarantines: true)
        #expect(found.actions == ["moved", "rebuilt", "renamed", "salvaged"], "only in d/sub and d/recordless")
        #expect(
            found.repairs.allSatisfy {
                $0.path.starts(with: Array("d/sub/".utf8)) || $0.path.starts(with: Array("d/recordless".utf8))
            })
        // The class of the directory above is not known.
        #expect(found.repairs.first { $0.action == .rebuilt }?.protectionClass == .complete)
        let after = try snapshot(it.directory)
        let (_, name) = try it.backing("d")
        let inside = "/" + String(decoding: name.bytes, as: UTF8.self) + "/"
        for (path, content) in before where path.hasPrefix(inside) && !path.dropFirst(inside.count).contains("/") {
            #expect(after[path] == content, "\(path)")
        }
    }

    @Test func anAsideWithANewerRecordIsKept() throws {
        let it = try TestVolume()
        try it.write("f")
        let stale = it.volume.names.asideName(
            parent: it.volume.keys.metadata.rootID, directory: NameCipher.randomID(), name: BackingName.temporary())
        let record = it.volume.names.recordTarget(VerifiedRecord(directoryID: NameCipher.randomID(), defaultClass: nil))
        try it.directory.createSymlink(stale, target: it.signed(record: record) { $0[3] = 9 })
        try expectUntouched(it, [.record], "aside")
    }

    /// A class that is not known counts as the strongest.
    @Test func aRebuiltRecordTakesTheStrongestClassOfNewerObjects() throws {
        for label in ["file", "directory", "parent", "claim"] {
            let it = try TestVolume()
            try it.mkdir("above")
            try it.mkdir("above/d")
            for path in ["above", "above/d"] { try it.setClass(path, "D") }
            try it.write("above/d/f")
            try it.mkdir("above/d/sub")
            switch label {
            case "file": try it.signHeader("above/d/f") { $0[4] = 6 }
            case "directory": try it.signRecord("above/d/sub") { $0[4] = 6 }
            case "parent": try it.signRecord("above") { $0[4] = 6 }
            default: try it.damageRecord("above/d", byte: 4, with: 2)
            }
            if label == "claim" {
                try it.damageRecord("above/d", byte: 43)
            } else {
                try it.volume.directory(it.node("above/d")).unlink(BackingName.record)
            }
            try it.volume.close()
            let found = try it.repair()
            #expect(found.repairs.first { $0.action == .rebuilt }?.protectionClass == .complete, "\(label)")
        }
    }

    /// Their names do not verify, or their directory's do not. They are reported, and stay where they are. The name of a
    /// directory that is not newer itself is an error.
    @Test func namesOfNewerObjectsAreNotRepaired() throws {
        let it = try TestVolume()
        for path in ["d", "deep", "deep/er", "recordless", "staging", ".protectfs-staging-1"] { try it.mkdir(path) }
        for path in ["f", "deep/er/f", "recordless/f", ".protectfs-staging-1/f"] { try it.write(path, long) }
        _ = try it.volume.symlink(Array("l".utf8), in: it.volume.root, target: [65], caller: TestVolume.caller)
        for path in ["f", "deep/er/f", "recordless/f", ".protectfs-staging-1/f"] {
            try it.signHeader(path) { $0[3] = 9 }
        }
        try it.signLink("l", "target")
        try it.signRecord("d") { $0[3] = 9 }
        for path in ["f", "l", "d", "deep"] { try it.scramble(path) }
        let recordless = try it.volume.directory(it.node("recordless"))
        try recordless.unlink(BackingName.record)
        try it.volume.close()
        let before = try snapshot(it.directory)
        for _ in 0..<2 {
            let found = try it.repair(quarantines: true)
            #expect(found.actions.allSatisfy { $0 == "rebuilt" })
            #expect(found.summary.newer == 6 && found.summary.remaining == 1)
            let after = try snapshot(it.directory)
            for (path, content) in before { #expect(after[path] == content, "\(path)") }
        }
    }

    /// A record made anew has another ID, so the names of newer objects, which no repair renames, never verify again. That
    /// is no error at each check; a rename in a mount settles it.
    @Test func newerObjectsBelowARebuiltRecord() throws {
        let it = try TestVolume()
        for path in ["d", "d/sub"] { try it.mkdir(path) }
        for path in ["d/f", "d/g"] { try it.write(path, long) }
        _ = try it.volume.symlink(Array("l".utf8), in: it.node("d"), target: [65], caller: TestVolume.caller)
        try it.signHeader("d/f") { $0[3] = 9 }
        try it.signLink("d/l", "target")
        try it.signRecord("d/sub") { $0[3] = 9 }
        let names = try ["f", "l", "sub"].map { try it.backing("d/" + $0).1 }
        try it.volume.directory(it.node("d")).unlink(BackingName.record)
        try it.volume.close()
        #expect(try it.repair().actions == ["rebuilt", "renamed"])
        let before = try snapshot(it.directory)
        for quarantines in [false, true] {
            let found = try it.repair(quarantines: quarantines)
            #expect(found.summary.errors == 0 && found.summary.newer == 3 && found.summary.remaining == 0)
            #expect(found.summary.unverified == 4 && found.actions == [])
            #expect(try snapshot(it.directory) == before)
        }
        let again = try it.mountAgain(it.directory)
        for name in names {
            let shown = "d/" + String(decoding: Volume.nameShown(for: name), as: UTF8.self)
            try again.rename(shown, "d/named " + shown.suffix(4))
        }
        try again.volume.close()
        let found = try again.repair()
        #expect(found.summary.errors == 0 && found.summary.newer == 3 && found.summary.unverified == 1)
    }

    /// An ID that a newer version uses twice is no copy for this one.
    @Test func duplicatesOfNewerObjectsAreNotReported() throws {
        let it = try TestVolume()
        try it.write("f", long)
        let (directory, entry) = try it.backing("f")
        var bytes = [UInt8](repeating: 0, count: Int(try directory.status(of: entry).size))
        var raw = bytes.mutableSpan
        _ = try directory.openFile(entry, .readOnly).read(into: &raw, at: 0)
        let copy = try it.volume.names.encode(Array("copy".utf8), in: it.volume.keys.metadata.rootID).entry
        try directory.createFile(copy, mode: 0o600).write(bytes.span, at: 0)
        try it.setFlags("copy", 0x100)
        try expectUntouched(it, [.header], "copy")
    }
}
