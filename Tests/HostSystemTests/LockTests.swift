// Locks exclude, conditions wake and time out.

import Glibc
import HostSystem
import Testing

/// Adds with more threads than processors, which begin together. Some of them lose the processor while they have the lock.
private func addWithThreads(_ add: @escaping @Sendable () -> Void) -> Int {
    let (isOpen, opened) = (Lock(false), Condition())
    let threads = (0..<16).compactMap { _ in
        BackgroundThread(name: "adder") {
            _ = isOpen.wait(on: opened) { $0 ? true : nil }
            for _ in 0..<20_000 { add() }
        }
    }
    isOpen.withLock { $0 = true }
    opened.broadcast()
    for thread in threads { thread.join() }
    return threads.count * 20_000
}

@Test func manyThreadsCountExactly() {
    let counter = Lock(0)
    let added = addWithThreads { counter.withLock { $0 += 1 } }
    #expect(counter.withLock { $0 } == added)
    let shared = RWLock(0)
    let both = addWithThreads {
        shared.withWriteLock { $0 += 1 }
        _ = shared.withReadLock { $0 }
    }
    #expect(shared.withReadLock { $0 } == both)
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

/// An object with a lock of its own.
private final class Counter: Sendable {
    let value = InPlaceLock(0)
}

/// A lock that is handed to the thread that has waited longest costs a switch of threads nearly each time, as soon as two threads
/// wait. This one has to cost few.
@Test func aLockInPlaceExcludesWithFewSwitches() {
    func switches() -> Int {
        var usage = rusage()
        _ = unsafe getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        return usage.ru_nvcsw
    }
    let counter = Counter()
    let before = switches()
    let added = addWithThreads { counter.value.withLock { $0 += 1 } }
    #if !THREAD_SANITIZER
        #expect(switches() - before < added / 10)
    #endif
    #expect(counter.value.withLock { $0 } == added)
}

/// Counts how often it is made and destroyed.
private struct Counted: ~Copyable {
    static let living = Lock(0)
    var wide = SIMD4<Double>(repeating: 1)

    init() { Self.living.withLock { $0 += 1 } }
    deinit { Self.living.withLock { $0 -= 1 } }
}

/// Values without a size, with a wide alignment, that cannot be copied, and with references.
private final class Holder: Sendable {
    let nothing = InPlaceLock(())
    let small = InPlaceLock(UInt8(7))
    let counted = InPlaceLock(Counted())
    let list = InPlaceLock([1, 2, 3])
    let last = InPlaceLock(UInt8(9))
}

@Test func aLockInPlaceOwnsItsValue() {
    for round in 1...100 {
        let holder = Holder()
        #expect(Counted.living.withLock { $0 } == 1)
        holder.nothing.withLock { _ in }
        holder.small.withLock { $0 &+= 1 }
        holder.counted.withLock { value in
            unsafe withUnsafePointer(to: &value) {
                #expect(UInt(bitPattern: $0) % UInt(MemoryLayout<Counted>.alignment) == 0)
            }
            value.wide[3] = Double(round)
        }
        holder.counted.withLock { $0 = Counted() }
        #expect(throws: Errno.EIO) {
            try holder.list.withLock { (list) throws(Errno) in
                list.append(round); throw .EIO
            }
        }
        #expect(holder.list.withLock { $0 } == [1, 2, 3, round])
        #expect(holder.counted.withLock { $0.wide[3] } == 1)
        #expect(holder.small.withLock { $0 } == 8)
        #expect(holder.last.withLock { $0 } == 9)
    }
    #expect(Counted.living.withLock { $0 } == 0)
}
