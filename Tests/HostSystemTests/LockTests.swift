// Locks exclude, conditions wake and time out.

import Glibc
import HostSystem
import Testing

@Test func manyThreadsCountExactly() async {
    let counter = Lock(0)
    let shared = RWLock(0)
    await withTaskGroup(of: Void.self) { group in
        for _ in 0..<8 {
            group.addTask {
                for _ in 0..<10_000 {
                    counter.withLock { $0 += 1 }
                    shared.withWriteLock { $0 += 1 }
                    _ = shared.withReadLock { $0 }
                }
            }
        }
    }
    #expect(counter.withLock { $0 } == 80_000)
    #expect(shared.withReadLock { $0 } == 80_000)
}

@Test func aWaitEndsAtItsDeadline() {
    let lock = Lock(false)
    let start = monotonicNanoseconds()
    let result = lock.wait(on: Condition(), until: start + 20_000_000) { $0 ? 1 : nil }
    #expect(result == nil)
    #expect(monotonicNanoseconds() - start >= 20_000_000)
}

@Test func aBroadcastEndsAWait() async {
    let lock = Lock(false)
    let condition = Condition()
    async let waited = lock.wait(on: condition, until: monotonicNanoseconds() + 60_000_000_000) { $0 ? true : nil }
    lock.withLock { $0 = true }
    condition.broadcast()
    #expect(await waited == true)
}

@Test func locksAroundNothingAreLocks() async {
    let locks = (0..<4).map { _ in Lock(()) }
    let shared = RWLock(())
    await withTaskGroup(of: Void.self) { group in
        for _ in 0..<4 {
            group.addTask {
                for round in 0..<1000 {
                    locks[round % 4].withLock { _ in }
                    shared.withWriteLock { _ in }
                    shared.withReadLock { _ in }
                }
            }
        }
    }
}
