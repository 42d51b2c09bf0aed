// Tests the order of parallel writes from the page cache that make a file longer.

import HostSystem
import TestSupport
import Testing

@testable import FileContents

@Suite struct WriteBackOrderTests {
    @Test func aWriteWaitsWhileAnEarlierOneRuns() {
        let order = WriteBackOrder()
        let events = Lock<[String]>([])
        order.begin(at: 0)
        order.begin(at: 8192)
        inThreads(2) { thread in
            if thread == 0 {
                order.wait(at: 8192) { events.withLock { !$0.isEmpty } }
                events.withLock { $0.append("later") }
                return
            }
            // Longer than it would wait for one that is not known.
            sleep(milliseconds: 250)
            events.withLock { $0.append("earlier") }
            order.tellGrowth()
        }
        #expect(events.withLock { $0 } == ["earlier", "later"])
        // Nothing earlier is running: it waits briefly.
        order.end(at: 0)
        let start = monotonicNanoseconds()
        order.wait(at: 8192) { false }
        let time = monotonicNanoseconds() - start
        #expect(time > 50_000_000 && time < 900_000_000)
    }
}
