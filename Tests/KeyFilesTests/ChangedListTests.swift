// Tests the list of changed files: its bytes, and that an entry is durable before anyone goes on.

import BackingStore
import Dispatch
import HostSystem
import Keybag
import MemoryStore
import Testing
import VolumeFormat

@testable import KeyFiles

@Suite struct ChangedListTests {
    private static let volume = VolumeID(InlineArray { UInt8($0 + 1) })
    private static let header = ChangedListHeader(volume: volume, epoch: 9, began: 1_700_000_000_000_000_000)

    /// The bytes of a list with these files.
    private func bytes(_ inodes: [[UInt64]]) -> [UInt8] {
        var list = ChangedList(Self.header)
        var result = list.emptyBytes
        for some in inodes {
            let (added, offset) = list.append(some)
            result.replaceSubrange(offset..<offset + added.count, with: added)
        }
        return result
    }

    private func parse(_ bytes: [UInt8], epoch: UInt32 = 9) -> (ChangedList, Set<UInt64>)? {
        ChangedList.parse(bytes, volume: Self.volume, epoch: epoch)
    }

    @Test func keepsWhatWasAppended() throws {
        let whole = bytes([[5], [7, 1 << 60], [6]])
        #expect(whole.count == ChangedList.length)
        let (list, found) = try #require(parse(whole))
        #expect(found == [5, 6, 7, 1 << 60] && list.header == Self.header && !list.isAll && list.count == 4)
        #expect(parse(bytes([]))?.1 == [])
        #expect(parse(whole, epoch: 8) == nil)
        #expect(ChangedList.parse(whole, volume: VolumeID(InlineArray { _ in 0 }), epoch: 9) == nil)
    }

    /// A list that is cut off anywhere, and one with any changed byte up to the first entries behind the last one.
    @Test func everyDamageIsRecognised() {
        let whole = bytes([[5], [7, 8]])
        for length in Array(0..<300) + Array(stride(from: 300, to: whole.count, by: 1021)) + [whole.count - 1] {
            #expect(parse(Array(whole.prefix(length))) == nil, "\(length)")
        }
        for place in Array(0..<300) + Array(stride(from: 300, to: whole.count, by: 1021)) + [whole.count - 1] {
            var changed = whole
            changed[place] ^= 0x10
            #expect(parse(changed) == nil, "\(place)")
        }
        var swapped = whole
        swapped.replaceSubrange(128..<144, with: whole[144..<160])
        swapped.replaceSubrange(144..<160, with: whole[128..<144])
        #expect(parse(swapped) == nil)
    }

    @Test func moreThanItHasRoomFor() throws {
        var list = ChangedList(Self.header)
        _ = list.append(Array(1...4000))
        #expect(!list.isAll && list.left == 95)
        _ = list.append(Array(5000..<5095))
        #expect(!list.isAll && list.left == 0)
        #expect(list.append([1]).bytes.count == 16 && list.isAll)
        #expect(list.append([2]).bytes.isEmpty)
        let (found, _) = try #require(parse(bytes([Array(1...5000)])))
        #expect(found.isAll)
    }

    /// A machine with a state file, and a mount that has drawn its first epoch.
    private struct Machine {
        let states = MemoryStore()
        var store: StateFileStore { StateFileStore(directory: states.root, volumeID: volume) }

        init() throws {
            try store.update { $0 = StateFile(unpinned: volume) }
        }

        func mount() throws -> (EpochLog, UInt32) {
            let log = EpochLog(endedBadly: [], tolerance: .byEpoch, record: EpochRecord(store, listsChanges: true))
            return (log, try log.epoch(encryptions: 1))
        }

        /// What each power cut now leaves.
        func cuts(_ epoch: UInt32) -> [(ChangedList, Set<UInt64>)?] {
            states.crashes(atMost: 200).map {
                StateFileStore(directory: $0.root, volumeID: volume).changedList(of: epoch)
            }
        }
    }

    @Test func isDurableWhenItReturns() throws {
        let machine = try Machine()
        let (log, epoch) = try machine.mount()
        #expect(machine.cuts(epoch).allSatisfy { $0?.1 == [] })
        for inode in 10..<20 as Range<UInt64> {
            try log.changed.cover(inode)
            // Neither a second time, nor for a file that is expected.
            log.changed.expect([inode + 100])
            let calls = machine.states.records.count
            try log.changed.cover(inode)
            #expect(machine.states.records.count == calls)
            #expect(machine.cuts(epoch).allSatisfy { $0?.1.isSuperset(of: 10...inode) == true })
        }
        try log.changed.cover(50)
        #expect(machine.cuts(epoch).allSatisfy { $0?.1 == Set(Array(10..<20) + [50] + Array(110..<120)) })
        try log.close()
        #expect(machine.store.changedList(of: epoch) == nil)
        #expect(try machine.states.root.entries().count == 2)
    }

    /// Many at once share the writes, and each is listed when it goes on.
    @Test func manyAtOnce() throws {
        let machine = try Machine()
        let (log, epoch) = try machine.mount()
        let wrong = Lock(0)
        DispatchQueue.concurrentPerform(iterations: 8) { thread in
            for index in 0..<100 {
                let inode = UInt64(1 + thread % 4 * 1000 + index)
                try? log.changed.cover(inode)
                if machine.store.changedList(of: epoch)?.1.contains(inode) != true { wrong.withLock { $0 += 1 } }
            }
        }
        #expect(wrong.withLock { $0 } == 0)
        #expect(machine.store.changedList(of: epoch)?.1.count == 400)
    }

    /// A list that cannot be written is removed. If that fails too, the change is refused.
    @Test func failures() throws {
        for call in [StoreCall.write, .fdatasync] {
            let machine = try Machine()
            let (log, epoch) = try machine.mount()
            try log.changed.cover(1)
            machine.states.fail(call, with: .EIO)
            try log.changed.cover(2)
            #expect(machine.cuts(epoch).allSatisfy { $0 == nil })
            try log.changed.cover(3)
        }
        let machine = try Machine()
        let (log, epoch) = try machine.mount()
        try log.changed.cover(1)
        machine.states.fail(.fdatasync, with: .EIO)
        machine.states.fail(.unlink, with: .EROFS)
        #expect(throws: VolumeError.self) { try log.changed.cover(2) }
        try log.changed.cover(2)
        #expect(machine.cuts(epoch).allSatisfy { $0?.1 == [1, 2] })
    }

    /// Without a list nobody waits.
    @Test func noList() throws {
        let machine = try Machine()
        // The lock, the state file, the lock again, and the list.
        machine.states.fail(.createFile, at: 4, with: .ENOSPC)
        let (log, epoch) = try machine.mount()
        machine.states.clearFaults()
        try log.changed.cover(1)
        #expect(machine.store.changedList(of: epoch) == nil)
    }

    /// A file that was made while the clock was behind the beginning cannot be known by its time.
    @Test func aClockThatWasSetBack() throws {
        let machine = try Machine()
        let (log, epoch) = try machine.mount()
        var made = try machine.states.root.status()
        for born in [nil, Timestamp(seconds: WallClock.seconds, nanoseconds: 999_999_999)] {
            made.born = born
            try log.changed.made(made)
            #expect(machine.store.changedList(of: epoch)?.0.isAll == false)
        }
        made.born = Timestamp(seconds: WallClock.seconds - 100, nanoseconds: 0)
        try log.changed.made(made)
        #expect(machine.cuts(epoch).allSatisfy { $0?.0.isAll == true })
    }
}
