// Tests parked reads of a busy file: their place in the queue, their bytes, and the lock of the volume.

import KeyFiles
import Keybag
import HostSystem
import SodiumKit
import TestSupport
import Testing
import VolumeFormat

@testable import BackingStore
@testable import MemoryStore
@testable import FileContents
@testable import ProtectedVolume

@Suite struct ParkingTests {
    /// Waits until `condition` holds. Only a hanging test reaches the limit, even on a slow machine.
    private func eventually(_ condition: () -> Bool) -> Bool {
        let end = monotonicNanoseconds() + 120_000_000_000
        let pause = Lock(())
        while !condition() {
            if monotonicNanoseconds() > end { return false }
            _ = pause.wait(on: Condition(), until: monotonicNanoseconds() + 1_000_000) { _ -> Void? in nil }
        }
        return true
    }

    @Test func aParkedRequestKeepsItsPlace() {
        let ranges = RangeLock()
        let order = Lock<[String]>([])
        let tickets = Lock<[String: UInt64]>([:])
        @Sendable func park(_ name: String) {
            ranges.park(0..<10) { ticket in
                order.withLock { $0.append(name) }
                tickets.withLock { $0[name] = ticket }
            }
        }
        @Sendable func release(_ name: String) {
            let ticket = tickets.withLock { $0.removeValue(forKey: name) }
            if let ticket { ranges.release(ranges.hold(of: ticket)) }
        }
        inThreads(2) { thread in
            if thread == 0 {
                guard eventually({ !order.withLock { $0.isEmpty } }) else { return }
                let hold = ranges.acquire(3..<4, exclusive: true)
                order.withLock { $0.append("writer") }
                #expect(eventually { order.withLock { $0.contains("go") } })
                return ranges.release(hold)
            }
            let first = ranges.acquire(5..<6, exclusive: true)
            park("before")
            order.withLock { $0.append("begun") }
            #expect(eventually { ranges.waiting == 1 })
            park("behind")
            #expect(order.withLock { $0 } == ["begun"])
            ranges.release(first)
            // Neither does the read behind the writer overtake it.
            let seen = order.withLock { $0 }
            #expect(seen.prefix(2) == ["begun", "before"] && !seen.contains("behind"))
            release("before")
            #expect(eventually { order.withLock { $0.contains("writer") } })
            order.withLock { $0.append("go") }
            #expect(eventually { order.withLock { $0.contains("behind") } })
            release("behind")
        }
        let found = order.withLock { $0 }
        #expect(found == ["begun", "before", "writer", "go", "behind"])
        // Nothing is left in the line.
        ranges.release(ranges.acquire(RangeLock.everything, exclusive: true))
    }

    @Test func threadsThatWaitForAnyFileCount() {
        let all = WaitingThreads()
        let one = RangeLock(all)
        let other = RangeLock(all)
        let isHeld = Lock(false)
        @Sendable func isBusy(_ lock: borrowing RangeLock, _ pages: Range<UInt64>, _ limit: Int) -> Bool {
            guard let hold = lock.acquireUnlessBusy(pages, limit: limit) else { return true }
            lock.release(hold)
            return false
        }
        inThreads(2) { thread in
            if thread == 0 {
                guard eventually({ isHeld.withLock { $0 } }) else { return }
                let hold = one.acquireUnlessBusy(0..<1, limit: 1)
                if let hold { one.release(hold) }
                return
            }
            let hold = one.acquire(0..<1, exclusive: true)
            let otherHold = other.acquire(0..<1, exclusive: true)
            let isFirstBusy = isBusy(one, 0..<1, 0)
            #expect(isFirstBusy)
            isHeld.withLock { $0 = true }
            #expect(eventually { one.waiting == 1 })
            // What need not wait is never parked.
            let isOtherBusy = (isBusy(other, 0..<1, 1), isBusy(other, 1..<2, 0))
            #expect(isOtherBusy == (true, false))
            one.release(hold)
            other.release(otherHold)
        }
        #expect(one.waiting == 0 && other.waiting == 0)
    }

    @Test func aParkedReadIsCountedAndReadsWhatIsThereThen() throws {
        let keys = try ContentKeys(.aes256GCM)
        let store = MemoryStore()
        let content = try store.create(in: keys.mount(), class: .complete)
        try content.put([UInt8](repeating: 1, count: 9000), at: 0)
        let turns = Lock<[ReadTurn]>([])
        let length = FileContent.bufferLength(count: 100)
        func read() throws -> [UInt8] {
            var buffer = try FileContent.largeBuffer(length, in: content.context)
            return try buffer.withMutableBytes(count: length) { (bytes: inout MutableSpan<UInt8>) throws(VolumeError) in
                guard let turn = turns.withLock({ $0.popLast() }) else { return [] }
                let result = try content.read(turn, into: &bytes)
                #expect(keys.ring.readsInFlight == (result.range.isEmpty ? 0 : 1))
                let plain = bytes.span.extracting(result.range).copiedBytes()
                result.finish()
                #expect(keys.ring.readsInFlight == 0)
                return plain
            }
        }
        let hold = content.ranges.acquire(RangeLock.everything, exclusive: true)
        #expect(try content.turn(at: 8950, count: 100, limit: 0) == nil)
        content.park(at: 8950, count: 100) { turn in turns.withLock { $0.append(turn) } }
        #expect(turns.withLock { $0.isEmpty } && keys.ring.readsInFlight == 0)
        content.ranges.release(hold)
        #expect(try read() == [UInt8](repeating: 1, count: 50))
        // Behind the end; and free at once where nothing is in the way.
        content.park(at: 20_000, count: 100) { turn in turns.withLock { $0.append(turn) } }
        #expect(try read() == [])
        // Locked meanwhile: refused, and its pages are free again.
        content.park(at: 0, count: 100) { turn in turns.withLock { $0.append(turn) } }
        keys.lock([content])
        #expect(throws: VolumeError.locked(.complete)) { _ = try read() }
        content.ranges.release(content.ranges.acquire(RangeLock.everything, exclusive: true))
    }

    /// A turn that a lock and an unlock overtake gives nothing of a file that was replaced below meanwhile.
    @Test func aTurnAfterAnUnlockIsOfTheSameFile() throws {
        let keys = try ContentKeys(.aes256GCM)
        let store = MemoryStore()
        let content = try store.create(in: keys.mount(), class: .complete)
        try content.put([1, 2, 3], at: 0)
        try content.flushHeader()
        let turn = try #require(try content.turn(at: 0, count: 3, limit: 0))
        keys.lock([content])
        try keys.unlock()
        try store.backing().write([UInt8](repeating: 7, count: 16).span, at: 16)
        let length = FileContent.bufferLength(count: 3)
        var buffer = try FileContent.largeBuffer(length, in: content.context)
        #expect(throws: VolumeError.stale) {
            try buffer.withMutableBytes(count: length) { (bytes: inout MutableSpan<UInt8>) throws(VolumeError) in
                try content.read(turn, into: &bytes).finish()
            }
        }
        content.ranges.release(content.ranges.acquire(RangeLock.everything, exclusive: true))
    }
}
