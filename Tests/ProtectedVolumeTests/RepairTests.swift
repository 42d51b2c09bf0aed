// Repair: what rules decide is mended, damaged files are salvaged, nothing is lost, and it may be interrupted anywhere.

import BackingStore
@testable import MemoryStore
import KeyFiles
import Keybag
import HostSystem
import TestSupport
import Testing
import VolumeFormat

@testable import ProtectedVolume
@testable import VolumeCheck

@Suite struct RepairTests {
    static let long = String(repeating: "n", count: 200)
    /// Too long to decrypt to text by chance once they are scrambled.
    static let named = ["file", "tree", "link"].map { "named/\($0) with a longer name" }
    /// The path that a person confirms.
    static let confirmed = ["gone/f", "gone/\(long)", "gone/sub"]
    static let attribute = Array("user.x".utf8)

    /// A volume in whose names, records and leftovers everything is damaged that rules can decide.
    private func damaged(
        _ store: MemoryStore = MemoryStore(), _ before: (TestVolume) throws -> Void = { _ in }
    ) throws -> TestVolume {
        let it = try TestVolume(store.root)
        try before(it)
        for path in [
            "gone", "gone/sub", "bad", "empty", "named", Self.named[1], "plain",
            "plain/.protectfs-staging-1000",
            "plain/.protectfs-staging-1000/one",
        ] { try it.mkdir(path) }
        try it.setClass("gone", "A")
        try it.setClass("plain/.protectfs-staging-1000/one", "A")
        try it.write("plain/.protectfs-staging-1000/one/content", "never renamed")
        for path in [
            "gone/f", "gone/\(Self.long)", "gone/sub/g", "bad/f", Self.named[0], "named/\(Self.long)",
            "\(Self.named[1])/f",
        ] {
            try it.write(path, path)
        }
        _ = try it.volume.symlink(
            Array(Self.named[2].utf8.dropFirst(6)), in: it.node("named"), target: Array("to".utf8),
            caller: TestVolume.caller)
        try it.volume.setXattr(it.node("bad"), Self.attribute, value: [1], mode: .set)
        try it.volume.close()
        try it.volume.directory(it.node("gone")).unlink(BackingName.record)
        try it.damageRecord("bad", byte: 4)
        try it.damageRecord("empty", byte: 20)
        for path in Self.named { try it.scramble(path) }
        let (directory, entry) = try it.backing("named/\(Self.long)")
        try directory.unlink(try #require(Volume.companionName(of: entry)))
        try it.directory.unlink(BackingName.record)
        let root = it.volume.keys.metadata.rootID
        let empty = try it.volume.names.encode(Array("header".utf8), in: root).entry
        try it.directory.createFile(empty, mode: 0o600).truncate(to: 4096)
        let orphan = try #require(it.volume.names.encode(Array(Self.long.utf8), in: root).companion)
        try it.directory.createSymlink(orphan.name, target: orphan.target)
        try it.directory.createDirectory(BackingName.temporary(), mode: 0o700)
        store.makeDurable()
        return it
    }

    /// The files that must be readable in a repaired volume.
    private func expectAllReadable(_ it: TestVolume) throws {
        for path in ["gone/f", "gone/\(Self.long)", "gone/sub/g", "bad/f"] {
            #expect(try it.read(path) == path)
        }
        #expect(try it.volume.getXattr(it.node("bad"), Self.attribute) == [1])
        #expect(try it.read("header") == "")
        #expect(try it.list("plain") == [])
        let recovered = try it.list("named").map { "named/\($0)" }
        #expect(recovered.count == 4 && recovered.allSatisfy { $0.hasPrefix("named/recovered-") })
        var texts: [String] = []
        for path in recovered {
            switch try it.node(path).kind {
            case .symlink: texts.append(String(decoding: try it.volume.readlink(it.node(path)), as: UTF8.self))
            case .directory: texts.append(try it.read("\(path)/f"))
            default: texts.append(try it.read(path))
            }
        }
        #expect(texts.sorted() == [Self.named[0], "named/\(Self.long)", "\(Self.named[1])/f", "to"])
        for path in ["", "gone", "bad", "empty", "named"] { try it.write("\(path)/new", "new") }
        // Of `bad` its damaged record claims class A; of `empty` nothing is known; of `gone` a file inside tells.
        for path in ["bad", "empty", "gone"] { #expect(try it.getClass("\(path)/new") == "complete") }
    }

    @Test func rulesDecideAndNothingIsLost() throws {
        let it = try damaged()
        let before = try everything(below: it.directory)
        let found = try it.repair(threads: 3, confirmed: Self.confirmed)
        #expect(
            found.actions == [
                "header", "moved", "moved", "moved", "rebuilt", "rebuilt", "rebuilt", "rebuilt", "renamed", "renamed",
                "renamed", "renamed", "renamed", "renamed", "renamed",
            ])
        #expect(found.summary.remaining == 0)
        #expect(found.summary.tidied == 3)
        let after = try everything(below: it.directory)
        for (bytes, count) in before where !bytes.allSatisfy({ $0 == 0 }) {
            #expect(after[bytes, default: 0] >= count, "lost: \(bytes.count) bytes")
        }
        let again = try it.repair(confirmed: Self.confirmed)
        #expect(again.kinds == [] && again.actions == [])
        try expectAllReadable(try it.mountAgain(it.directory))
    }

    @Test func withoutRepairNothingChanges() throws {
        let it = try damaged()
        let before = try everything(below: it.directory)
        let ring = try it.keys.ring()
        try it.keys.unlock(ring)
        let errors = Lock(0)
        let summary = try Check.run(
            directory: it.directory.reopen(), keys: ring,
            states: StateFileStore(directory: it.states.root, volumeID: ring.volumeID)
        ) { finding in if finding.severity == .error { errors.withLock { $0 += 1 } } }
        #expect(errors.withLock { $0 } == 9)
        #expect(summary.remaining == 9)
        #expect(try everything(below: it.directory) == before)
    }

    @Test func anInterruptedRepairIsFinishedByTheNextOne() throws {
        for stop in stride(from: 0, to: 120, by: 7) {
            let it = try damaged()
            let asked = Lock(0)
            let first = try it.repair(confirmed: Self.confirmed) {
                asked.withLock { asked in
                    asked += 1
                    return asked <= stop
                }
            }
            if first.summary.isInterrupted { #expect(!first.summary.closedEpochs) }
            if stop < 20 { #expect(first.summary.isInterrupted && first.summary.repaired < 9) }
            _ = try it.repair(confirmed: Self.confirmed)
            #expect(try it.repair().kinds == [])
            try expectAllReadable(try it.mountAgain(it.directory))
            if !first.summary.isInterrupted { return }
        }
        Issue.record("the repair never ran to its end")
    }

    @Test func thePowerMayFailAnywhereInARepair() throws {
        var states = 0
        for cut in 0..<200 {
            let store = MemoryStore()
            let it = try damaged(store)
            store.cutPower(after: cut)
            let isWhole = ((try? it.repair(confirmed: Self.confirmed))?.summary.errors).map { $0 >= 9 } ?? false
            store.clearFaults()
            for crashed in store.crashes(atMost: 4 * repairEffort, seed: UInt64(cut)) {
                states += 1
                _ = try it.repair(in: crashed.root, confirmed: Self.confirmed)
                let clean = try it.repair(in: crashed.root)
                #expect(clean.kinds == [], "cut \(cut)")
                try expectAllReadable(try it.mountAgain(crashed.root))
            }
            if isWhole { return print("power cuts in a repair: \(cut) places, \(states) states") }
        }
        Issue.record("the repair never ran to its end")
    }

    @Test func aFailureAnywhereIsReportedAndLosesNothing() throws {
        for error in [Errno.ENOSPC, .EIO] {
            var count = 1
            var calls = Int.max
            while count <= calls {
                let store = MemoryStore()
                let it = try damaged(store) { try $0.write("salvage", String(repeating: "text ", count: 3000)) }
                try it.damage("salvage", at: 5000)
                let before = try everything(below: store.root)
                store.clearRecords()
                if calls < Int.max { store.fail(nil, at: count, with: error) }
                _ = try? it.repair(quarantines: true, confirmed: Self.confirmed)
                if calls == Int.max { calls = store.records.count }
                store.clearFaults()
                _ = try it.repair(quarantines: true, confirmed: Self.confirmed)
                let clean = try it.repair(quarantines: true)
                #expect(clean.kinds == [], "\(error) at call \(count)")
                let after = try everything(below: store.root)
                for (bytes, many) in before where !bytes.allSatisfy({ $0 == 0 }) {
                    #expect(after[bytes, default: 0] >= many, "\(error) at call \(count): lost")
                }
                let again = try it.mountAgain(store.root)
                #expect(throws: Never.self, "\(error) at call \(count)") { try expectAllReadable(again) }
                // A copy with more holes comes first where the disk could not be read then.
                #expect(try again.list("").contains { $0.hasPrefix("salvage.salvaged") })
                count += repairEffort > 1 ? 1 : 11
            }
            print("\(error) at \(calls) calls of a repair")
        }
    }

    @Test func somethingElseInARecordsPlaceIsMovedAway() throws {
        let it = try TestVolume()
        for path in ["file", "directory", "fifo"] {
            try it.mkdir(path)
            try it.write("\(path)/f", path)
        }
        try it.volume.close()
        for path in ["file", "directory", "fifo"] {
            let directory = try it.volume.directory(it.node(path))
            try directory.unlink(BackingName.record)
            switch path {
            case "file": try directory.createFile(BackingName.record, mode: 0o600).write([1].span, at: 0)
            case "fifo": try directory.createSpecial(BackingName.record, mode: 0o010600, device: 0)
            default:
                try directory.createDirectory(BackingName.record, mode: 0o700)
                let inner = try directory.openDirectory(BackingName.record)
                try inner.createFile(BackingName.temporary(), mode: 0o600).write([2].span, at: 0)
            }
        }
        let found = try it.repair(confirmed: ["file/f", "directory/f", "fifo/f"])
        #expect(found.actions == ["rebuilt", "rebuilt", "rebuilt", "renamed", "renamed", "renamed"])
        #expect(found.summary.remaining == 0)
        #expect(try it.repair().kinds == [])
        let again = try it.mountAgain(it.directory)
        for path in ["file", "directory", "fifo"] { #expect(try again.read("\(path)/f") == path) }
        let kept = try it.directory.openDirectory(BackingName.lostAndFound).entries()
        #expect(kept.count == 4)
    }

    /// A name that nothing proves gets no MAC before a person has confirmed it; nothing is lost meanwhile.
    @Test func aChosenNameIsSignedForAPersonAlone() throws {
        let it = try TestVolume()
        try it.mkdir("ssh")
        for name in ["visitors_address", "known", Self.long] { try it.write("ssh/\(name)", name) }
        try it.volume.close()
        let (directory, entry) = try it.backing("ssh/visitors_address")
        try directory.rename(
            entry, to: directory, HostileTests.chosen(entry, "visitors_address", "authorized_keys2"))
        try directory.unlink(BackingName.record)
        let before = try it.mountAgain(it.directory).list("ssh").sorted()
        let found = try it.repair()
        #expect(found.summary.remaining == 0 && found.summary.unverified == 3)
        #expect(found.kinds == ["missing-record", "unverified-name", "unverified-name", "unverified-name"])
        var again = try it.mountAgain(it.directory)
        let marked = try again.list("ssh").sorted()
        #expect(marked == before && marked.allSatisfy { $0.hasPrefix(".unverified-") })
        #expect(throws: VolumeError.noEntry) { try again.node("ssh/authorized_keys2") }
        #expect(try Set(marked.map { try again.read("ssh/\($0)") }) == ["visitors_address", "known", Self.long])
        try again.write("ssh/new", "new")
        try again.volume.close()
        // Another run keeps telling, and signs what was confirmed, whatever else is there.
        let later = try it.repair(confirmed: ["ssh/known"])
        #expect(later.summary.unverified == 2 && later.actions == ["renamed"] && later.summary.errors == 0)
        again = try it.mountAgain(it.directory)
        #expect(try again.read("ssh/known") == "known")
        let chosen = try #require(try again.list("ssh").first { $0.hasSuffix("-authorized_keys2") })
        // The mount is a place to confirm a name as well.
        try again.rename("ssh/\(chosen)", "ssh/address")
        #expect(try again.read("ssh/address") == "visitors_address")
    }

    /// No class that a directory can have had is stronger than the one it gets; and no byte counts that is not proven.
    @Test func aNewRecordHasTheStrongestClass() throws {
        let it = try TestVolume()
        for (path, letter) in [
            ("parent", "B"), ("parent/child", "B"), ("empty", "C"), ("files", "C"), ("overlaid", "D"), ("tree", "C"),
            ("tree/of", "A"), ("claims", "B"), ("claims less", "A"), ("weak", "C"),
        ] {
            try it.mkdir(path)
            try it.setClass(path, letter)
        }
        for (path, letter) in [("files/a", "A"), ("files/c", "C"), ("overlaid/a", "A"), ("weak/c", "C"), ("d", "D")] {
            try it.write(path, String(repeating: path, count: 900))
            try it.setClass(path, letter)
        }
        for path in ["claims/c", "claims less/c"] {
            try it.write(path, "c")
            try it.setClass(path, "C")
        }
        try it.unlink("claims less/c")
        try it.volume.close()
        try it.layHeader(of: "d", over: "overlaid/a")
        try it.damageRecord("claims", byte: 40)
        // D in the place of A.
        try it.damageRecord("claims less", byte: 4, with: 1 ^ 4)
        for path in ["parent/child", "empty", "files", "overlaid", "tree", "weak"] {
            try it.volume.directory(it.node(path)).unlink(BackingName.record)
        }
        let found = try it.repair()
        #expect(found.repairs.filter { $0.action == .rebuilt }.count == 8)
        let again = try it.mountAgain(it.directory)
        for (path, letter) in [
            ("parent/child", "B"), ("empty", "A"), ("files", "A"), ("overlaid", "A"), ("tree", "A"), ("weak", "C"),
            ("claims", "B"), ("claims less", "A"),
        ] {
            let found = try again.getClass(path)
            #expect(ProtectionClass(name: found) == ProtectionClass(name: letter), "\(path): \(found)")
        }
    }

    @Test func whatCannotBeDecryptedIsMovedWhereThatIsAskedFor() throws {
        let it = try TestVolume()
        for path in ["header", "wrap", "attribute", "zeros", "kept"] {
            try it.write(path, String(repeating: path, count: 900))
        }
        try it.volume.setXattr(it.node("attribute"), Self.attribute, value: [1, 2, 3], mode: .set)
        _ = try it.volume.symlink(Array("link".utf8), in: it.volume.root, target: [65], caller: TestVolume.caller)
        try it.volume.close()
        try it.damage("header", at: 120)
        try it.damage("zeros", at: 0, [UInt8](repeating: 0, count: 4096))
        let (root, link) = try it.backing("link")
        try root.unlink(link)
        try root.createSymlink(link, target: Array("AAAA".utf8))
        let stray = try root.createFile(BackingName.known(Array("stray file".utf8)), mode: 0o600)
        try stray.write([1, 2, 3].span, at: 0)
        try root.createSymlink(BackingName.known(Array(".protectfs.aside.x".utf8)), target: [66, 66])
        let object = try root.node(it.backing("attribute").1)
        let name = try #require(object.attributeNames().first)
        let value = try object.attribute(name)
        try object.setAttribute(name, Array(value.dropLast()) + [value[value.count - 1] ^ 1])
        let before = try everything(below: it.directory)
        let left = try it.repair()
        // The stray file has no header either.
        #expect(left.summary.remaining == 7 && left.actions == [])
        let found = try it.repair(quarantines: true)
        #expect(found.actions == ["moved", "moved", "moved", "moved", "moved", "moved"])
        #expect(found.summary.remaining == 0 && found.summary.closedEpochs)
        #expect(try it.repair().kinds == [])
        let after = try everything(below: it.directory)
        for (bytes, count) in before { #expect(after[bytes, default: 0] >= count) }
        #expect(after[name + [0] + value.dropLast() + [value[value.count - 1] ^ 1]] == 1)
        let log = try it.directory.openDirectory(BackingName.lostAndFound)
            .openFile(BackingName.known(Array("log".utf8)), .readOnly)
        var text = [UInt8](repeating: 0, count: Int(try log.status().size))
        var raw = text.mutableSpan
        _ = try log.read(into: &raw, at: 0)
        let lines = String(decoding: text, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.count == 7 && lines.last == "")
        #expect(lines.contains { $0.hasPrefix("moved\tstray file\t.protectfs.lost+found/") })
        let again = try it.mountAgain(it.directory)
        #expect(try again.list("") == ["attribute", "kept", "wrap"])
        #expect(try again.read("kept") == String(repeating: "kept", count: 900))
    }
}
