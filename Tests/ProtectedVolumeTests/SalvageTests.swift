// Tests salvage: everything readable of a damaged file is in a new file beside it, and the original stays.

import BackingStore
@testable import MemoryStore
import HostSystem
import TestSupport
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume
@testable import VolumeCheck

@Suite struct SalvageTests {
    private static func text(_ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: $0 / 7 &* 31) | 1 }
    }

    private func write(_ it: TestVolume, _ path: String, _ bytes: [UInt8], at offset: UInt64 = 0) throws {
        let (parent, name) = try it.parent(path)
        let (entry, content) = try it.volume.create(name, in: parent, mode: 0o640, caller: TestVolume.caller)
        defer { it.volume.release(entry.node, writable: true) }
        try content.write(bytes.span, at: offset)
    }

    private func read(_ it: TestVolume, _ path: String) throws -> [UInt8] {
        let node = try it.node(path)
        let content = try it.volume.open(node, writable: false)
        defer { it.volume.release(node, writable: false) }
        var result: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: FileContent.bufferLength(count: 1 << 16))
        while UInt64(result.count) < content.size {
            var raw = buffer.mutableSpan
            let part = try content.read(into: &raw, at: UInt64(result.count), count: 1 << 16)
            result += raw.span.extracting(part.range).copiedBytes()
            part.finish()
        }
        return result
    }

    /// `whole` with some ranges replaced by zeros.
    private func without(_ stretches: [Range<UInt64>], _ whole: [UInt8]) -> [UInt8] {
        var whole = whole
        for stretch in stretches { for index in stretch { whole[Int(index)] = 0 } }
        return whole
    }

    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// Pages whose bytes are changed.
        var flipped: [UInt64] = []
        /// Pages that are zeroed.
        var zeroed: [UInt64] = []
        /// Pages that are left; nil: all.
        var kept: UInt64?
        /// Stretches of blocks that cannot be read.
        let lost: [Range<UInt64>]
        /// Where the copy ends, in blocks; nil: where the file ended.
        var end: UInt64?
    }

    static let cases: [Case] = [
        Case(testDescription: "a block", flipped: [3], lost: [3..<4]),
        Case(testDescription: "the first block", flipped: [0], lost: [0..<1]),
        Case(testDescription: "the last block", flipped: [100], lost: [100..<101]),
        Case(
            testDescription: "blocks here and there", flipped: [1, 63, 64, 65, 99], zeroed: [7],
            lost: [1..<2, 7..<8, 63..<66, 99..<100]),
        Case(testDescription: "zeroed pages", zeroed: [0], lost: []),
        Case(testDescription: "more than are reported", flipped: Array(1...90), lost: [1..<91]),
        Case(testDescription: "the end cut off", kept: 50, lost: [], end: 50),
        Case(testDescription: "the end cut off, and a block", flipped: [49], kept: 50, lost: [49..<50], end: 50),
    ]

    @Test(arguments: cases, ["A", "B"]) func everythingReadableIsCopied(_ tested: Case, _ letter: String)
        throws
    {
        let it = try TestVolume()
        let whole = Self.text(3932 + 99 * 4060 + 1234)
        try it.mkdir("d")
        try it.setClass("d", letter)
        try write(it, "d/file", whole)
        try it.volume.setXattr(it.node("d/file"), Array("user.x".utf8), value: [9], mode: .set)
        try it.volume.close()
        let (directory, entry) = try it.backing("d/file")
        let file = try directory.openFile(entry, .readWrite)
        for page in tested.flipped { try file.write([1, 2, 3].span, at: page * 4096 + 1000) }
        let zeros = [UInt8](repeating: 0, count: 4096)
        for page in tested.zeroed { try file.write(zeros.span, at: page * 4096) }
        if let kept = tested.kept { try file.truncate(to: kept * 4096) }
        let before = try everything(below: it.directory)
        let found = try it.repair()
        #expect(found.summary.remaining > 0)
        let after = try everything(below: it.directory)
        for (bytes, count) in before { #expect(after[bytes, default: 0] >= count) }
        let again = try it.mountAgain(it.directory)
        if tested.zeroed == [0] {
            // Without its header, and so its key, nothing can be had of a file.
            #expect(found.actions == [] && found.kinds == ["missing-header"])
            return
        }
        let geometry = again.volume.content.geometry
        let end = tested.end.map { geometry.start(ofBlock: $0) } ?? UInt64(whole.count)
        let lost = tested.lost.map { blocks in
            geometry.start(ofBlock: blocks.lowerBound)..<min(geometry.start(ofBlock: blocks.upperBound), end)
        }
        let repair = try #require(found.repairs.first)
        #expect(found.actions == ["salvaged"])
        #expect(repair.unreadable == lost)
        #expect(repair.target.map { String(decoding: $0, as: UTF8.self) } == "d/file.salvaged")
        let grown = whole + [UInt8](repeating: 0, count: max(0, Int(end) - whole.count))
        let copy = try read(again, "d/file.salvaged")
        let expected = without(lost, Array(grown.prefix(Int(end))))
        #expect(copy.count == expected.count)
        #expect((copy == expected) as Bool)
        let node = try again.node("d/file.salvaged")
        // Without block 0 nothing proves which class it was.
        let isProven = lost.first?.lowerBound != 0
        #expect(try again.getClass("d/file.salvaged") == (isProven ? again.getClass("d") : "complete"))
        #expect(try again.volume.getXattr(node, Array("user.x".utf8)) == [9])
        #expect(try again.volume.attributes(of: node).mode & 0o777 == 0o640)
        let label = try String(decoding: again.volume.getXattr(node, Array("user.salvaged".utf8)), as: UTF8.self)
        #expect(label.contains(lost.first.map { "\($0.lowerBound)-\($0.upperBound - 1)" } ?? "none known"))
    }

    @Test func aSecondRunMakesNoSecondCopyAndQuarantineEndsIt() throws {
        let it = try TestVolume()
        for path in ["f", "f.salvaged"] { try write(it, path, Self.text(30_000)) }
        try it.volume.close()
        try it.damage("f", at: 5000)
        let first = try it.repair()
        #expect(first.summary.salvaged == 1)
        // The name of somebody else's file is not taken.
        #expect(first.repairs.first?.target.map { String(decoding: $0, as: UTF8.self) } == "f.salvaged.2")
        let second = try it.repair()
        #expect(second.summary.salvaged == 0 && second.repairs.first?.isOld == true)
        // Further damage makes a further copy.
        try it.damage("f", at: 9000)
        #expect(try it.repair().repairs.first?.target.map { String(decoding: $0, as: UTF8.self) } == "f.salvaged.3")
        let moved = try it.repair(quarantines: true)
        #expect(moved.actions == ["moved", "salvaged"])
        #expect(moved.summary.remaining == 0 && moved.summary.closedEpochs)
        let clean = try it.repair()
        #expect(clean.kinds == [] && clean.actions == [])
        let again = try it.mountAgain(it.directory)
        #expect(try again.list("") == ["f.salvaged", "f.salvaged.2", "f.salvaged.3"])
    }

    @Test func holesStayHolesAndLongNamesAreCut() throws {
        let it = try TestVolume()
        let name = String(repeating: "ä", count: 125)
        try write(it, name, Self.text(9000), at: 1 << 23)
        try it.volume.close()
        try it.damage(
            name, at: PageGeometry.offset(ofPage: it.volume.content.geometry.locate((1 << 23) + 5000).block) + 50)
        let found = try it.repair()
        let target = String(decoding: try #require(found.repairs.first?.target), as: UTF8.self)
        #expect(target == String(repeating: "ä", count: 123) + ".salvaged")
        #expect(found.repairs.first?.unreadable.count == 1)
        let again = try it.mountAgain(it.directory)
        let (directory, entry) = try again.backing(target)
        #expect(try directory.status(of: entry).blocks < 100)
    }

    @Test func aFileThatTheDiskCannotReadIsSalvaged() throws {
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        try write(it, "f", Self.text(100_000))
        try it.volume.close()
        try it.damage("f", at: 3 * 4096 + 100)
        store.fail(.read, at: 6, with: .EIO)
        let found = try it.repair()
        store.clearFaults()
        #expect(found.summary.salvaged == 1 || found.kinds.contains("store"))
        _ = try it.repair()
        let copy = try read(try it.mountAgain(store.root), "f.salvaged")
        #expect(copy.count == 100_000)
    }

    @Test func thePowerMayFailAnywhereInASalvage() throws {
        var states = 0
        for cut in 0..<120 {
            let store = MemoryStore()
            let it = try TestVolume(store.root)
            let whole = Self.text(40_000)
            try write(it, "f", whole)
            try it.volume.close()
            try it.damage("f", at: 5000)
            store.makeDurable()
            let original = try everything(below: store.root)
            store.cutPower(after: cut)
            let isWhole = (try? it.repair(quarantines: true))?.summary.closedEpochs ?? false
            store.clearFaults()
            for crashed in store.crashes(atMost: 3 * repairEffort, seed: UInt64(cut)) {
                states += 1
                _ = try it.repair(in: crashed.root, quarantines: true)
                #expect(try it.repair(in: crashed.root).kinds == [], "cut \(cut)")
                let after = try everything(below: crashed.root)
                for (bytes, count) in original { #expect(after[bytes, default: 0] >= count, "cut \(cut)") }
                let again = try it.mountAgain(crashed.root)
                #expect(try again.list("") == ["f.salvaged"], "cut \(cut)")
                let copy = try read(again, "f.salvaged")
                #expect((copy == without([3932..<3932 + 4060], whole)) as Bool, "cut \(cut)")
            }
            if isWhole { return print("power cuts in a salvage: \(cut) places, \(states) states") }
        }
        Issue.record("the repair never ran to its end")
    }
}
