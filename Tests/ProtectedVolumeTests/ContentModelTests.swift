// Random operations on file contents against a plain array of bytes, in both suites.

import BackingStore
@testable import MemoryStore
import HostSystem
import KeyFiles
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume

@Suite struct ContentModelTests {
    @Test(arguments: CipherSuite.allCases, [1, 2, 3, 4, 5, 6] as [UInt64])
    func randomOperations(_ suite: CipherSuite, _ seed: UInt64) throws {
        let keys = try ContentKeys(suite)
        let store = MemoryStore()
        store.clearRecords(recording: false)
        var context = keys.mount()
        var content = try store.create(in: context)
        var model: [UInt8] = []
        var random = SeededGenerator(seed)
        let limit = seed % 2 == 0 ? 60_000 : 20_000
        for step in 0..<400 {
            let position = Int.random(in: 0..<limit, using: &random)
            let count = Int.random(in: 1..<(step % 7 == 0 ? 20_000 : 5000), using: &random)
            let choice = Int.random(in: 0..<14, using: &random)
            switch choice {
            case 0...4:
                let offset = Bool.random(using: &random) ? position : min(position, model.count)
                let bytes = random.bytes(count)
                try content.put(bytes, at: offset)
                grow(&model, to: offset + count)
                model.replaceSubrange(offset..<offset + count, with: bytes)
            case 5, 6:
                let size = choice == 5 ? position : min(position, model.count)
                try content.truncate(to: UInt64(size))
                if size < model.count { model.removeLast(model.count - size) } else { grow(&model, to: size) }
            case 7:
                try content.allocate(.punch, at: UInt64(position), length: UInt64(count))
                zero(&model, position..<position + count)
            case 8:
                try content.allocate(.zero, at: UInt64(position), length: UInt64(count))
                grow(&model, to: position + count)
                zero(&model, position..<position + count)
            case 9:
                let keeps = Bool.random(using: &random)
                try content.allocate(
                    keeps ? .reserveKeepingSize : .reserve, at: UInt64(position), length: UInt64(count))
                if !keeps { grow(&model, to: position + count) }
            case 10:
                try content.synchronize(dataOnly: true)
            case 11:
                try content.settle()
                content = try store.open(in: context)
            case 12:
                try content.settle()
                try context.epochs.close()
                context = keys.mount()
                content = try store.open(in: context)
            default:
                try checkSeek(content, model, from: position)
            }
            #expect(content.size == UInt64(model.count))
            let from = min(position, model.count)
            let to = min(from + count, model.count)
            #expect(try content.get(from..<to) == Array(model[from..<to]), "step \(step), operation \(choice)")
            if step % 20 == 0 {
                let all = try content.getAll()
                #expect(all == model, "step \(step), operation \(choice)")
                guard all == model else { return }
            }
        }
        let status = try content.backing.status()
        #expect(status.size == content.geometry.backingLength(size: UInt64(model.count)))
        #expect(keys.evidence.withLock { $0 } == [])
    }

    private func grow(_ model: inout [UInt8], to size: Int) {
        if size > model.count { model += [UInt8](repeating: 0, count: size - model.count) }
    }

    private func zero(_ model: inout [UInt8], _ range: Range<Int>) {
        for index in range.clamped(to: 0..<model.count) { model[index] = 0 }
    }

    /// Holes have only zeros, lseek finds all data, and borders are those of blocks.
    private func checkSeek(_ content: FileContent, _ model: [UInt8], from position: Int) throws {
        guard position < model.count else {
            #expect(throws: VolumeError.refused(.ENXIO)) { try content.seek(.data, from: UInt64(position)) }
            return
        }
        let hole = Int(try content.seek(.hole, from: UInt64(position)))
        #expect(hole >= position && hole <= model.count)
        #expect(hole == position || hole == model.count || hole % 4096 == 0)
        do throws(VolumeError) {
            let data = Int(try content.seek(.data, from: UInt64(position)))
            #expect(model[position..<data].allSatisfy { $0 == 0 })
            #expect(data == position || data % 4096 == 0)
            #expect((data == position) != (hole == position))
        } catch {
            #expect(error == .refused(.ENXIO) && hole == position)
            #expect(model[position...].allSatisfy { $0 == 0 })
        }
    }

    @Test(arguments: CipherSuite.allCases)
    func everyBoundary(_ suite: CipherSuite) throws {
        let keys = try ContentKeys(suite)
        let context = keys.mount()
        let geometry = context.geometry
        var sizes: Set<Int> = [0, 1]
        for block in 0..<4 as Range<UInt64> {
            for delta in -1...1 { sizes.insert(max(0, Int(geometry.start(ofBlock: block)) + delta)) }
        }
        var random = SeededGenerator(9)
        for from in sizes {
            for to in sizes {
                let store = MemoryStore()
                let content = try store.create(in: context)
                let bytes = random.bytes(from)
                try content.put(bytes, at: 0)
                try content.truncate(to: UInt64(to))
                let expected = Array(bytes.prefix(to)) + [UInt8](repeating: 0, count: max(0, to - from))
                try content.settle()
                #expect(try store.open(in: context).getAll() == expected, "\(from) to \(to)")
            }
        }
    }

    @Test func longRequestsCopiesAndKeysByEpoch() throws {
        let keys = try ContentKeys(.aes256GCM)
        let context = keys.mount(epochLimit: 300)
        let store = MemoryStore()
        let content = try store.create(in: context)
        var random = SeededGenerator(3)
        let bytes = random.bytes(3_000_000)
        try content.put(bytes, at: 0)
        try content.put(Array(bytes[0..<100_000]), at: 1_234_567)
        #expect(context.epochs.own.count > 2)
        let copy = try store.create("g", in: context, class: .completeUnlessOpen)
        #expect(try FileContent.copy(from: content, at: 5, to: copy, at: 17, count: 4_000_000) == 2_999_995)
        #expect(copy.size == 3_000_012)
        var expected = bytes
        expected.replaceSubrange(1_234_567..<1_334_567, with: bytes[0..<100_000])
        #expect(try content.getAll() == expected)
        #expect(try copy.get(17..<3_000_012) == Array(expected.dropFirst(5)))
        #expect(copy.protectionClass == .completeUnlessOpen)
    }
}
