// The middle of a long file after a crash: its ends are mended at once, the rest by and by, and nothing of it is an error
// meanwhile.

import HostSystem
import KeyFiles
import Testing
import VolumeFormat

@testable import BackingStore
@testable import MemoryStore
@testable import FileContents
@testable import ProtectedVolume

@Suite struct MendingTests {
    private let keys: ContentKeys
    private let store = MemoryStore()

    init() throws { keys = try ContentKeys(.aes256GCM) }

    /// A file of `count` blocks of a mount that ended badly, of which the store has lost the pages `lost`; what it reads as.
    private func crashed(_ count: Int, lost: Range<Int>) throws -> [UInt8] {
        let context = keys.mount()
        var bytes = (0..<3932 + (count - 1) * 4060).map { PowerCutStep.byte(1, $0) }
        let content = try store.create(in: context)
        for start in stride(from: 0, to: bytes.count, by: 1 << 20) {
            try content.put(Array(bytes[start..<min(start + 1 << 20, bytes.count)]), at: start)
        }
        try content.settle()
        if !lost.isEmpty {
            try store.backing().punchHole(at: UInt64(lost.lowerBound) * 4096, length: UInt64(lost.count) * 4096)
        }
        store.makeDurable()
        store.clearRecords()
        for place in lost.flatMap({ 3932 + ($0 - 1) * 4060..<3932 + $0 * 4060 }) { bytes[place] = 0 }
        return bytes
    }

    @Test func theFirstWriteReadsNothingOfTheMiddle() throws {
        var expected = try crashed(2000, lost: 100..<110)
        let content = try store.open(in: keys.mount())
        try content.put([1, 2, 3], at: 4_000_000)
        expected.replaceSubrange(4_000_000..<4_000_003, with: [1, 2, 3])
        let read = store.records.filter { $0.call == .read }.reduce(0) { $0 + Int($1.length) }
        #expect(read < 64 * 4096, "read \(read) bytes")
        #expect(content.isUnmended)
        // By and by: no more than a step is held, and all of it is seen to in the end.
        var steps = 0
        while try content.mendSome() { steps += 1 }
        #expect(steps >= 2000 / 128 && !content.needsRepair)
        #expect(try content.getAll() == expected)
        try content.settle()
        keys.openEpochs.withLock { $0 = [] }
        #expect(try store.open(in: keys.mount(.nothing)).getAll() == expected)
    }

    @Test func whatIsNotMendedSurvivesUnmountsAndTheFileIsMendedOnlyOnce() throws {
        let expected = try crashed(2000, lost: 100..<110)
        let bad = keys.openEpochs.withLock { $0 }
        for _ in 0..<3 {
            let context = keys.mount()
            let content = try store.open(in: context)
            try content.put(Array(expected[..<10]), at: 0)
            try content.put(Array(expected.suffix(10)), at: expected.count - 10)
            #expect(try content.mendSome() && content.mendSome())
            try content.settle()
            // Goes on where it was, and the ends are not mended again.
            let again = try store.open(in: context)
            #expect(again.isUnmended && again.snapshot.recovery.repair == .none)
            #expect(again.snapshot.recovery.unmended?.progress == content.snapshot.recovery.unmended?.progress)
            try again.settle()
            try context.epochs.close()
            #expect(keys.openEpochs.withLock { $0 } == bad)
            #expect(try store.open(in: keys.mount(isReadOnly: true)).getAll() == expected)
        }
    }

    /// The page that becomes the last one was lost by the crash before: without it the file would end before it.
    @Test(arguments: [0, 4096]) func aCutIntoALostPageKeepsItsSize(_ mostSealedHoles: Int) throws {
        let before = try crashed(7, lost: 2..<5)
        for steps in [0, 1, 2, 4] {
            let moment = store.moment
            let store = try #require(moment.store(moment.outcome(moment.count - 1)))
            store.makeDurable()
            let bad = keys.openEpochs.withLock { $0 }
            defer { keys.openEpochs.withLock { $0 = bad } }
            let content = try store.open(
                in: keys.mount(mendAtOnce: 0, mendStep: 1, mostSealedHoles: UInt64(mostSealedHoles)))
            try content.put(Array(before[..<5]), at: 0)
            for _ in 0..<steps { _ = try content.mendSome() }
            store.keepMoments()
            let size = 3932 + 3 * 4060 + 1000
            try content.truncate(to: UInt64(size))
            let allowed = PowerCutHistory(
                versions: [before, Array(before[..<size])], geometry: content.context.geometry)
            let reading = keys.mount()
            for moment in store.moments {
                for outcome in moment.outcomes(atMost: 256, seed: 1) {
                    guard let found = moment.store(outcome) else { continue }
                    let objection = allowed.objection(to: try found.open(in: reading).readAll())
                    #expect(objection == nil, "\(steps) steps, \(moment.describe(outcome))")
                }
            }
        }
    }

    /// The same where a page in the middle still says LAST, with nothing but holes behind it.
    @Test(arguments: [2, 4]) func aCutBehindAStaleLastKeepsItsSize(_ page: Int) throws {
        let bytes = (0..<3932 + 6 * 4060).map { PowerCutStep.byte(1, $0) }
        let content = try store.create(in: keys.mount())
        try content.put(Array(bytes[..<9000]), at: 0)
        var stale = [UInt8](repeating: 0, count: 4096)
        let backing = try store.backing()
        var raw = stale.mutableSpan
        #expect(try backing.read(into: &raw, at: 2 * 4096) == 4096)
        try content.put(Array(bytes[9000...]), at: 9000)
        try content.allocate(.punch, at: 3932 + 2 * 4060, length: 2 * 4060)
        try content.settle()
        try backing.write(stale.span, at: 2 * 4096)
        store.makeDurable()
        let before = try store.open(in: keys.mount()).readAll()
        let again = try store.open(in: keys.mount(mendAtOnce: 0))
        try again.put(Array(before[..<5]), at: 0)
        store.keepMoments()
        let size = 3932 + (page - 1) * 4060 + 1500
        try again.truncate(to: UInt64(size))
        let allowed = PowerCutHistory(versions: [before, Array(before[..<size])], geometry: again.context.geometry)
        let reading = keys.mount()
        for moment in store.moments {
            for outcome in moment.outcomes(atMost: 256, seed: 1) {
                guard let found = moment.store(outcome) else { continue }
                let objection = allowed.objection(to: try found.open(in: reading).readAll())
                #expect(objection == nil, "\(moment.describe(outcome))")
            }
        }
    }

    @Test func aLongHoleBecomesOneAndIsNotSealed() throws {
        var expected = try crashed(2000, lost: 10..<1900)
        let content = try store.open(in: keys.mount(mostSealedHoles: 1000))
        try content.put([9], at: 0)
        expected[0] = 9
        store.clearRecords()
        while try content.mendSome() {}
        let written = store.records.filter { $0.call == .write }.reduce(0) { $0 + Int($1.length) }
        let read = store.records.filter { $0.call == .read }.reduce(0) { $0 + Int($1.length) }
        #expect(written <= 8 * 4096 && read < 400 * 4096)
        #expect(content.header.flags.contains(.holes))
        #expect(keys.evidence.withLock { $0.contains { $0.kind == .madeSparse } })
        #expect(try content.getAll() == expected)
    }

    @Test func withoutAListedEpochOneIsEntered() throws {
        let expected = try crashed(2000, lost: 100..<110)
        keys.openEpochs.withLock { $0 = [] }
        let context = keys.mount(.everything)
        let content = try store.open(in: context)
        try content.put(Array(expected[..<10]), at: 0)
        try content.settle()
        try context.epochs.close()
        #expect(keys.openEpochs.withLock { $0.count } == 1)
        #expect(try store.open(in: keys.mount()).getAll() == expected)
    }
}
