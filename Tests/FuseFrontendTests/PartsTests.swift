// The parts of the front end that need no mount: handles, the refusal log, job threads, sweeps.

import HostSystem
import ProtectedVolume
import Testing

@testable import FuseFrontend

struct HandleTests {
    @Test func numbersRoundTrip() {
        for isDirect in [false, true] {
            for isWritable in [false, true] {
                for process: Int32 in [0, 1, 4711, .max] {
                    for isFlushers in [false, true] {
                        let handle = Handle(
                            isDirect: isDirect, isWritable: isWritable, isFlushers: isFlushers, process: process)
                        #expect(Handle(number: handle.number) == handle)
                    }
                }
            }
        }
    }
}

struct RefusalLogTests {
    private static func make(_ clock: Lock<UInt64>, _ lines: Lock<[String]>) -> RefusalLog {
        RefusalLog(clock: { clock.withLock { $0 } }, log: { line in lines.withLock { $0.append(line) } })
    }

    @Test func oncePerFileAndProcess() {
        let lines = Lock<[String]>([])
        let log = Self.make(Lock(100_000_000_000), lines)
        for _ in 0..<5 { log.refused(node: 2, process: 0) { "no" } }
        log.refused(node: 3, process: 0) { "no" }
        #expect(lines.withLock { $0.count } == 2)
        log.reset()
        log.refused(node: 2, process: 0) { "no" }
        #expect(lines.withLock { $0.count } == 3)
    }

    @Test func neverAFlood() {
        let clock = Lock<UInt64>(100_000_000_000)
        let lines = Lock<[String]>([])
        let log = Self.make(clock, lines)
        for node in 0..<1000 { log.refused(node: UInt64(node), process: 0) { "no" } }
        #expect(lines.withLock { $0.count } == RefusalLog.linesPerWindow)
        clock.withLock { $0 += RefusalLog.windowNanoseconds + 1 }
        log.refused(node: 5000, process: 0) { "no" }
        #expect(lines.withLock { $0.dropLast().last } == "980 more refusals were not written down")
    }
}

struct ClockTests {
    /// A thread that read the clock first may come second.
    @Test func readingsInAnyOrder() {
        #expect(nanoseconds(from: 5, to: 7) == 2)
        #expect(nanoseconds(from: 7, to: 5) == 0)
        var it = RefusalCount()
        #expect(it.count(at: 4096, now: 1_000_000_000) == 1)
        #expect(it.count(at: 4096, now: 999_999_999) == 2)
        #expect(it.count(at: 4096, now: 1_000_000_001) == 3)
        #expect(it.count(at: 4096, now: 2_000_000_000) == 1)
        let clock = Lock<UInt64>(100_000_000_000)
        let lines = Lock<[String]>([])
        let log = RefusalLog(clock: { clock.withLock { $0 } }, log: { line in lines.withLock { $0.append(line) } })
        log.refused(node: 1, process: 0) { "no" }
        clock.withLock { $0 -= 1 }
        log.refused(node: 2, process: 0) { "no" }
        #expect(lines.withLock { $0.count } == 2)
    }
}

struct JobQueueTests {
    @Test func jobsRunInOrder() {
        let queue = JobQueue(name: "test")
        let seen = Lock<[Int]>([])
        for index in 0..<100 { queue.add { seen.withLock { $0.append(index) } } }
        #expect(queue.perform(until: monotonicNanoseconds() + 120_000_000_000) {})
        #expect(seen.withLock { $0 } == Array(0..<100))
        queue.stop()
    }

    @Test func aSlowJobDoesNotHoldItsCaller() {
        let queue = JobQueue(name: "test")
        let gate = Lock(false)
        let opened = Condition()
        #expect(
            !queue.perform(until: monotonicNanoseconds() + 10_000_000) {
                _ = gate.wait(on: opened) { $0 ? true : nil }
            })
        gate.withLock { $0 = true }
        opened.broadcast()
        #expect(queue.perform(until: monotonicNanoseconds() + 120_000_000_000) {})
        queue.stop()
    }
}

struct SweepTests {
    @Test func soonThenSteady() {
        #expect((0..<3).map(LockSequence.sweepDelay).reduce(0, +) == 1_000_000_000)
        #expect(LockSequence.sweepDelay(100) == 3_000_000_000)
    }
}

struct WorkerLimitsTests {
    @Test func fewerAndSmallerUnderALowLimit() {
        #expect(WorkerLimits(largeBuffers: 16) == WorkerLimits(largeBuffers: 12))
        let small = WorkerLimits(largeBuffers: 4)
        #expect(small.workers == 4 && small.requestSize == 262_144)
    }
}

struct ListingHabitsTests {
    private static func isGiven(
        _ habits: ListingHabits, _ thread: Int32, _ directory: UInt64, isStart: Bool = true
    ) -> Bool {
        if case .all = habits.attributes(for: thread, of: directory, isStart: isStart) { return true }
        return false
    }

    @Test func whoWantsNamesOnly() {
        let habits = ListingHabits()
        #expect(Self.isGiven(habits, 1, 1))
        for directory: UInt64 in 2..<1000 {
            // A look into another directory says nothing about this one.
            habits.lookedUp(in: 1)
            #expect(!Self.isGiven(habits, 1, directory))
        }
    }

    @Test func whoWantsAttributes() {
        let habits = ListingHabits()
        var without: [UInt64] = []
        for directory: UInt64 in 1...1000 {
            if !Self.isGiven(habits, 7, directory) { without.append(directory) }
            for _ in 0..<3 { habits.lookedUp(in: directory) }
        }
        #expect(without == [2, 7, 24, 89, 346, 603, 860])
    }

    @Test func threadsAreKeptApart() {
        let habits = ListingHabits()
        _ = Self.isGiven(habits, 1, 1)
        #expect(!Self.isGiven(habits, 1, 2))
        #expect(Self.isGiven(habits, 2, 3))
        habits.lookedUp(in: 3)
        #expect(!Self.isGiven(habits, 1, 4))
        // Another thread with the same place begins anew.
        #expect(Self.isGiven(habits, 33, 5))
        #expect(Self.isGiven(habits, 1, 6))
    }

    @Test func laterPagesWaitForALook() {
        let habits = ListingHabits()
        #expect(Self.isGiven(habits, 1, 1))
        #expect(!Self.isGiven(habits, 1, 1, isStart: false))
        // Of another directory.
        habits.lookedUp(in: 2)
        #expect(!Self.isGiven(habits, 1, 1, isStart: false))
        habits.lookedUp(in: 1)
        #expect(Self.isGiven(habits, 1, 1, isStart: false))
        // Directories to the next probe have them on all pages; the probe on none, until one of its files is looked up.
        for directory: UInt64 in 2...5 {
            for isStart in [true, false] { #expect(Self.isGiven(habits, 1, directory, isStart: isStart)) }
            habits.lookedUp(in: directory)
        }
        for isStart in [true, false] { #expect(!Self.isGiven(habits, 1, 6, isStart: isStart)) }
        // Later pages may have very many entries whose kind the store does not tell.
        guard case .none = habits.attributes(for: 1, of: 6, isStart: false) else {
            Issue.record("a later page of a probe has attributes")
            return
        }
        habits.lookedUp(in: 6)
        #expect(Self.isGiven(habits, 1, 6, isStart: false))
    }
}
