// The orders in which contents reach the backing file, as the store records them.

import BackingStore
@testable import MemoryStore
import HostSystem
import KeyFiles
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume

@Suite struct ContentOrderTests {
    /// The changing and syncing calls that `body` makes on a file of `size` bytes of an earlier mount.
    private func calls(
        _ size: Int, holes: Bool = false, _ body: (FileContent) throws -> Void
    ) throws -> [String] {
        let keys = try ContentKeys(.aes256GCM)
        let store = MemoryStore()
        let first = keys.mount()
        let made = try store.create(in: first)
        try made.put([UInt8](repeating: 7, count: size), at: 0)
        if holes { try made.allocate(.punch, at: 3932, length: 4060) }
        try made.settle()
        try first.epochs.close()
        let content = try store.open(in: keys.mount())
        store.clearRecords()
        try body(content)
        return store.records.compactMap { record in
            switch record.call {
            case .write:
                let pages = record.offset / 4096..<(record.offset + record.length) / 4096
                return pages.count == 1
                    ? "page \(pages.lowerBound)" : "pages \(pages.lowerBound)-\(pages.upperBound - 1)"
            case .truncate: return "length \(record.offset / 4096)+\(record.offset % 4096)"
            case .fdatasync, .fsync: return "sync"
            case .punch: return "punch \(record.offset / 4096)+\(record.length / 4096)"
            case .allocate: return "reserve"
            default: return nil
            }
        }
    }

    @Test func newSmallFileIsOnePageWrite() throws {
        let keys = try ContentKeys(.aes256GCM)
        let store = MemoryStore()
        let content = try store.create(in: keys.mount())
        try content.put([1, 2, 3], at: 0)
        try content.settle()
        let changes = store.records.filter { $0.call.changes }.map(\.call)
        #expect(changes == [.createFile, .truncate, .write])
        #expect(keys.openEpochs.withLock { $0.count } == 1)
    }

    @Test func writes() throws {
        #expect(try calls(10_000) { try $0.put([1], at: 5000) } == ["page 1"])
        #expect(try calls(10_000) { try $0.put([1], at: 10_000) } == ["length 3+2009", "page 2"])
        // The former last page lies beside the new ones: one write.
        #expect(
            try calls(10_000) { try $0.put([UInt8](repeating: 1, count: 5000), at: 12_052) }
                == ["length 5+940", "pages 2-4"])
        // A hole: HOLES first, and the former last page last.
        #expect(
            try calls(10_000) { try $0.put([1], at: 30_000) } == ["page 0", "length 8+1709", "page 7", "page 2"])
        #expect(
            try calls(10_000, holes: true) { try $0.put([1], at: 30_000) } == ["length 8+1709", "page 7", "page 2"])
    }

    @Test func truncations() throws {
        #expect(try calls(10_000) { try $0.truncate(to: 9000) } == ["length 3+1008", "page 2"])
        #expect(try calls(10_000) { try $0.truncate(to: 100) } == ["page 0", "sync", "length 1+0", "length 1+100"])
        #expect(try calls(10_000) { try $0.truncate(to: 0) } == ["page 0", "sync", "length 1+0"])
        #expect(
            try calls(10_000) { try $0.truncate(to: 5000) }
                == ["page 0", "sync", "length 2+0", "length 2+1068", "sync", "page 1"])
        // Marked once and for all.
        #expect(
            try calls(20_000) {
                try $0.truncate(to: 15_000)
                try $0.truncate(to: 5000)
                try $0.truncate(to: 100)
            } == [
                "page 0", "sync", "length 4+0", "length 4+2948", "sync", "page 3", "length 2+0", "length 2+1068",
                "sync", "page 1", "page 0", "length 1+0", "length 1+100",
            ])
        #expect(try calls(10_000) { try $0.truncate(to: 12_000) } == ["length 3+4008", "page 2"])
        #expect(try calls(10_000) { try $0.truncate(to: 20_000) } == ["page 0", "length 5+3888", "page 4", "page 2"])
    }

    @Test func punches() throws {
        #expect(
            try calls(20_000) { try $0.allocate(.punch, at: 3000, length: 6000) }
                == ["page 0", "sync", "page 0", "page 2", "punch 1+1"])
        // Neither page 0 nor the last page is ever a hole.
        #expect(
            try calls(10_000) { try $0.allocate(.punch, at: 0, length: 20_000) }
                == ["page 0", "sync", "page 0", "page 2", "punch 1+1"])
        #expect(try calls(10_000) { try $0.allocate(.punch, at: 10, length: 20) } == ["page 0"])
    }

    @Test func refusedReservationLeavesTheSize() throws {
        let keys = try ContentKeys(.aes256GCM)
        let store = MemoryStore()
        let content = try store.create(in: keys.mount())
        try content.put([1, 2, 3], at: 0)
        store.fail(.allocate, with: .ENOSPC)
        #expect(throws: VolumeError.store(.ENOSPC)) { try content.allocate(.reserve, at: 0, length: 50_000) }
        #expect(try content.getAll() == [1, 2, 3])
        try content.settle()
        #expect(try store.open(in: keys.mount()).getAll() == [1, 2, 3])
    }

    @Test func classChanges() throws {
        #expect(try calls(10_000) { try $0.changeClass(to: .none, explicit: true) } == ["page 0"])
        #expect(try calls(10_000) { try $0.changeClass(to: .complete, explicit: true) } == ["page 0", "sync"])
        #expect(try calls(0) { try $0.changeClass(to: .complete, explicit: true) } == ["page 0", "sync"])
        #expect(try calls(0) { _ = try $0.renewIfEmpty(class: .complete, explicit: true) } == ["page 0", "sync"])
        #expect(try calls(1) { _ = try $0.renewIfEmpty(class: .complete, explicit: true) } == [])
    }

    @Test func timesStay() throws {
        let keys = try ContentKeys(.aes256GCM)
        let store = MemoryStore()
        let content = try store.create(in: keys.mount())
        let time = Timestamp(seconds: 5, nanoseconds: 6)
        try content.backing.setTimes(accessed: .keep, modified: .set(time))
        content.pinModificationTime(time)
        try content.flushHeader()
        #expect(try content.backing.status().modified == time)
        try content.put([1], at: 0, .writeBack)
        try content.changeClass(to: .complete, explicit: true)
        try content.settle()
        #expect(try content.backing.status().modified == time)
        try content.put([2], at: 1)
        try content.settle()
        #expect(try content.backing.status().modified != time)
    }

    /// Each call fails once. The caller gets the error, the file stays readable, and the old content is kept.
    @Test(arguments: [.ENOSPC, .EIO] as [Errno]) func everyCallFails(_ error: Errno) throws {
        let steps: [PowerCutStep] = [
            .append(9000), .write(at: 3900, count: 9000), .write(at: 30_000, count: 10), .truncate(30), .truncate(5000),
            .truncate(30_000), .punch(0, 9000), .zero(5000, 20_000), .reserve(0, 30_000), .changeClass(.complete),
        ]
        let keys = try ContentKeys(.aes256GCM)
        for step in steps {
            for call in [StoreCall.write, .truncate, .fdatasync, .fsync, .punch, .allocate] {
                for number in 1...4 {
                    keys.openEpochs.withLock { $0 = [] }
                    let store = MemoryStore()
                    let first = keys.mount()
                    let made = try store.create(in: first)
                    let before = (0..<10_000).map { PowerCutStep.byte(0, $0) }
                    try made.put(before, at: 0)
                    try made.settle()
                    try first.epochs.close()
                    let context = keys.mount()
                    let content = try store.open(in: context)
                    store.fail(call, at: number, with: error)
                    var failed = false
                    do throws(VolumeError) {
                        try step.perform(on: content, before, number: 1)
                    } catch {
                        failed = true
                    }
                    store.clearFaults()
                    let after = step.result(of: before, number: 1)
                    let found = try content.getAll()
                    let name: Comment = "\(step), \(call) \(number)"
                    if !failed { #expect(found == after, name) }
                    let history = PowerCutHistory(
                        versions: [before, before.count > after.count ? after : before, after],
                        geometry: context.geometry)
                    #expect(history.objection(to: found) == nil, name)
                    // It can be written again, and what was written is there after a clean unmount.
                    try content.put([9, 9], at: 1)
                    var expected = found
                    expected.replaceSubrange(1...2, with: [9, 9])
                    #expect(try content.getAll() == expected, name)
                    try content.settle()
                    try context.epochs.close()
                    #expect(try store.open(in: keys.mount()).getAll() == expected, name)
                }
            }
        }
    }
}
