// Tests the order of dropped pages, and that a file whose pages are busy holds up no other.

import FuseBridge
import HostSystem
import Testing

@testable import FuseFrontend

@Suite struct PageDropsTests {
    /// What was dropped, in order.
    private final class Found: Sendable {
        let drops = Lock<[String]>([])
        let stuck = Gate()

        /// File 1 waits until `stuck` opens.
        func drop(_ number: UInt64, _ offset: UInt64, _ count: Int) {
            if number == 1 { stuck.wait() }
            drops.withLock { $0.append("\(number): \(offset), \(count)") }
        }
    }

    @Test func aBusyFileHoldsUpNoOther() {
        let found = Found()
        let drops = PageDrops(found.drop)
        // A thread waits, and one wake brings jobs of several files.
        drops.finishOne(0)
        for offset in [0, 4096] as [UInt64] { drops.add(1, at: offset, count: 4096) {} }
        for number in 2...9 as ClosedRange<UInt64> {
            let done = Gate()
            drops.add(number, at: 8192, count: 0) { done.open() }
            #expect(done.wait())
        }
        #expect(found.drops.withLock { Array($0.dropFirst()) } == (2...9).map { "\($0): 8192, 0" })
        let last = Gate()
        drops.add(1, at: 0, count: 1) { last.open() }
        found.stuck.open()
        #expect(last.wait())
        #expect(found.drops.withLock { $0.suffix(3) } == ["1: 0, 4096", "1: 4096, 4096", "1: 0, 1"])
        drops.stop()
    }

    @Test func whatNobodyWaitsForIsOneDrop() {
        let found = Found()
        let drops = PageDrops(found.drop)
        drops.add(1, at: 0, count: 1) {}
        drops.addLater(1, at: 8192, count: 100)
        drops.addLater(1, at: 4096, count: 100)
        drops.addLater(1, at: 20000, count: 5)
        found.stuck.open()
        // The queued jobs are done.
        drops.stop()
        #expect(found.drops.withLock { $0 } == ["1: 0, 1", "1: 4096, 15909"])
        #expect(!drops.canWork)
        drops.add(2, at: 0, count: 1) { Issue.record("after the end") }
    }

    @Test func toTheEnd() {
        let found = Found()
        let drops = PageDrops(found.drop)
        drops.add(1, at: 0, count: 1) {}
        drops.addLater(1, at: 8192, count: 0)
        drops.addLater(1, at: 4096, count: 100)
        found.stuck.open()
        drops.stop()
        #expect(found.drops.withLock { $0.last } == "1: 4096, 0")
    }

    @Test func onlySoManyWait() {
        let drops = PageDrops { _, _, _ in }
        for kind in PageDrops.Waiter.allCases {
            for _ in 0..<kind.limit { #expect(drops.mayWait(kind)) }
            #expect(!drops.mayWait(kind))
            drops.hasWaited(kind)
            #expect(drops.mayWait(kind))
            #expect(!drops.mayWait(kind))
        }
        // The kernel's places, of which the drops need some.
        #expect(PageDrops.Waiter.allCases.map(\.limit).reduce(0, +) < Int(RequestedCapabilities().maximumBackground))
        drops.stop()
    }
}

extension PageDrops {
    /// Returns when a job of a file is done and its thread waits for another one.
    fileprivate func finishOne(_ number: UInt64) {
        let done = Gate()
        add(number, at: 0, count: 1) { done.open() }
        done.wait()
        while !isIdle { sleep(milliseconds: 1) }
    }
}
