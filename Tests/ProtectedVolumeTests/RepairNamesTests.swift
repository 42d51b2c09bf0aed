// Repairs of objects with several names, with names that prove nothing, and beside attributes that are not listed.

import BackingStore
@testable import MemoryStore
import KeyFiles
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume
@testable import VolumeCheck

struct RepairNamesTests {
    /// A file is in the tree as long as one of its names is.
    @Test(arguments: [120, 4096 + 100]) func everyNameOfADamagedFileIsMovedAway(_ offset: UInt64) throws {
        let it = try TestVolume()
        for path in ["d", "e"] { try it.mkdir(path) }
        try it.write("d/one", String(repeating: "text", count: 4000))
        let node = try it.node("d/one")
        for (name, directory) in [("two", "e"), ("three", "")] {
            let parent = directory.isEmpty ? it.volume.root : try it.node(directory)
            _ = try it.volume.link(node, Array(name.utf8), in: parent)
        }
        try it.volume.close()
        try it.damage("d/one", at: offset)
        let found = try it.repair(quarantines: true)
        #expect(found.actions.filter { $0 == "moved" }.count == 3)
        #expect(found.summary.remaining == 0 && found.summary.closedEpochs)
        #expect(try it.repair(quarantines: true).kinds == [])
    }

    /// While one worker reads a long file under one name, another one passes its other names over.
    @Test func everyNameOfALongFileIsMovedAway() throws {
        let long = String(repeating: "long", count: 60)
        for round in 0..<5 {
            let it = try TestVolume()
            for path in ["d", "e"] { try it.mkdir(path) }
            let made = try it.volume.create(Array(long.utf8), in: it.node("d"), mode: 0o644, caller: TestVolume.caller)
            let piece = [UInt8](repeating: 7, count: 1 << 20)
            for number in 0..<6 { try made.content.write(piece.span, at: UInt64(number) << 20) }
            it.volume.release(made.entry.node, writable: true)
            for (name, directory) in [("two", "e"), ("three", ""), (long, ""), ("four", "d"), (long, "e")] {
                let parent = directory.isEmpty ? it.volume.root : try it.node(directory)
                _ = try it.volume.link(it.node("d/\(long)"), Array(name.utf8), in: parent)
            }
            try it.volume.close()
            try it.damage("d/\(long)", at: 5 << 20)
            let found = try it.repair(quarantines: true, threads: 4)
            #expect(found.repairs.filter { $0.action == .moved }.count == 6, "round \(round)")
            #expect(found.summary.remaining == 0 && found.summary.closedEpochs, "round \(round)")
            #expect(try it.repair(quarantines: true).kinds == [], "round \(round)")
        }
    }

    /// A check that has moved one of the names away is not the last one.
    @Test func aNameThatIsLeftIsMovedByTheNextCheck() throws {
        let it = try TestVolume()
        try it.write("one", String(repeating: "text", count: 4000))
        _ = try it.volume.link(try it.node("one"), Array("two".utf8), in: it.volume.root)
        try it.volume.close()
        try it.damage("one", at: 4096 + 100)
        let (root, name) = try it.backing("one")
        let (_, other) = try it.backing("two")
        try root.createDirectory(BackingName.lostAndFound, mode: 0o700)
        try root.rename(name, to: root.openDirectory(BackingName.lostAndFound), other)
        let found = try it.repair(quarantines: true)
        #expect(found.actions.filter { $0 == "moved" }.count == 1 && found.summary.remaining == 0)
        #expect(try it.repair(quarantines: true).kinds == [])
    }

    /// The name of a FIFO proves nothing, and a FIFO has no content that would.
    @Test func aRepairTellsTheNamesThatItCannotSettle() throws {
        let it = try TestVolume()
        let directory = try it.mkdir("d")
        _ = try it.volume.mknod([0xff, 0xfe], in: directory, mode: 0o010600, device: 0, caller: TestVolume.caller)
        try it.volume.close()
        let (above, name) = try it.backing("d")
        try above.openDirectory(name).unlink(BackingName.record)
        let found = try it.repair()
        let again = try it.repair()
        #expect(found.summary.remaining == again.summary.remaining)
    }

    /// Where `trusted.*` is not listed, an overflow object can be in use by what nobody sees.
    @Test func noOrphansWhereAttributesAreHidden() throws {
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        let link = try it.volume.symlink(
            Array("link".utf8), in: it.volume.root, target: [65], caller: TestVolume.caller)
        let name = Array("trusted.big".utf8)
        let value = [UInt8](repeating: 1, count: 3000)
        try it.volume.setXattr(link.node, name, value: value, mode: .set)
        try it.volume.close()
        store.hideTrustedAttributes()
        let found = try it.repair()
        #expect(!found.kinds.contains("orphan-overflow") && found.actions == [])
    }
}
