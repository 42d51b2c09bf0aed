// Locking in place: keys out, and the plaintext out of the kernel too, losing no write that a program was told of.

internal import HostSystem
internal import Keybag
internal import ProtectedVolume
internal import Synchronization
internal import VolumeFormat

/// The steps of a lock, numbered as in `docs/architecture.md`, "One lock".
struct LockSequence {
    /// Passes while somebody may be in the middle of a write(2), and how far apart they are.
    static let leastPasses = 3
    static let mostPasses = 50
    static let betweenPasses: UInt32 = 20
    /// The longest that keys stay for what the kernel has to write back. What comes later becomes late records.
    static let limit: UInt64 = 10_000_000_000
    /// The longest while nothing is written back at all.
    static let patience: UInt64 = 2_000_000_000
    static let touchLimit: UInt64 = 200_000_000
    /// The longest for steps that have nothing to do with the cache: reads under way, first pages, buffers, open handles.
    static let shortLimit: UInt64 = 300_000_000
    /// After so long without a write-back, files that may be dirty are evicted as they are: clean ones among them go at once.
    static let flushPause: UInt64 = 100_000_000

    let system: VolumeFileSystem
    let calls: DeferredCalls

    /// Steps 2 to 5; announcing is the caller's, before and after.
    func run(locking: () -> Void) -> LockReport {
        let start = monotonicNanoseconds()
        let deadline = start + Self.limit
        var report = LockReport()
        var isQuiet = false
        // 2 and 4 are the volume's; 3 is the kernel's, between them.
        let isLocked = system.volume.lock(
            sweeping: true, readLimit: Self.shortLimit,
            clearCache: {
                locking()
                isQuiet = clearCache(until: deadline)
            },
            flush: { firstPages in
                calls.beforeKeysGo(until: min(deadline, monotonicNanoseconds() + Self.shortLimit), firstPages)
            },
            onLateFailure: { system.log("a write that comes after this lock will be refused: \($0)") })
        guard isLocked else {
            report.wasLocked = true
            return report
        }
        // 5
        let left = sweepOn(until: monotonicNanoseconds() + (isQuiet ? Self.limit : Self.shortLimit))
        report.files = left
        if left == 0 { _ = system.volume.keys.finishSweeping() }
        closeHandles(&report)
        report.milliseconds = Int64(nanoseconds(from: start, to: monotonicNanoseconds()) / 1_000_000)
        return report
    }

    /// Step 3: the page cache written back and emptied; false when it did not come to rest.
    ///
    /// What nobody can write goes at once, and waits for nobody's writes; what may be dirty is written back in large requests
    /// first, as a notification sends one page at a time.
    private func clearCache(until deadline: UInt64) -> Bool {
        var passes = 0
        let holders = targets
        let dirty = holders.filter(mayBeDirty)
        // From here on each buffered write asks for attributes first, and is refused.
        for node in dirty { calls.forgetAttributesNow(node.number) }
        calls.evictor.add(holders.filter { !mayBeDirty($0) }.map(\.number))
        let isFlushed = flush(dirty, until: deadline)
        while true {
            let before = system.writeBacks.load(ordering: .acquiring)
            let targets = targets.map(\.number)
            let left = calls.evictor.evict(
                targets, until: deadline, patience: isFlushed ? Self.patience : Self.shortLimit)
            passes += 1
            let writers = cachedWriters
            if !left.isEmpty { return false }
            let isQuiet = system.writeBacks.load(ordering: .acquiring) == before
            if isQuiet && (writers.isEmpty || passes >= Self.leastPasses) { return true }
            let now = monotonicNanoseconds()
            if passes >= Self.mostPasses || now >= deadline { return false }
            if !writers.isEmpty { calls.helper.touch(writers, until: min(deadline, now + Self.touchLimit)) }
            sleep(milliseconds: Self.betweenPasses)
        }
    }

    /// Has the kernel write back what is dirty, and evicts each file when that is done; false when `deadline` passes first, or
    /// nothing comes any more.
    private func flush(_ nodes: [Node], until deadline: UInt64) -> Bool {
        let left = Lock(Set(nodes.map(\.number)))
        let changed = Condition()
        let evictor = calls.evictor
        for node in nodes {
            let number = node.number
            calls.flusher.flush(node, until: deadline) { _ in
                evictor.add([number])
                left.withLock { _ = $0.remove(number) }
                changed.broadcast()
            }
        }
        var seen = system.writeBacks.load(ordering: .acquiring)
        var moved = monotonicNanoseconds()
        while true {
            let end = monotonicNanoseconds() + Self.flushPause / 2
            if left.wait(on: changed, until: end, { $0.isEmpty ? true : nil }) == true { return true }
            let now = monotonicNanoseconds()
            let count = system.writeBacks.load(ordering: .acquiring)
            if count != seen { (seen, moved) = (count, now) }
            if nanoseconds(from: moved, to: now) > Self.flushPause { evictor.add(left.withLock { Array($0) }) }
            if now >= deadline || nanoseconds(from: moved, to: now) > Self.patience { return false }
        }
    }

    /// Evicts once more what has pages; how many files still have when `deadline` passes or nothing moves.
    func sweepOn(until deadline: UInt64) -> Int {
        let nodes = targets
        let left = Set(calls.evictor.evict(nodes.map(\.number), until: deadline, patience: Self.patience))
        for node in nodes where !left.contains(node.number) && node.openHandles == 0 { node.forgetPages() }
        return left.count
    }

    /// Step 5: what is open is closed for the kernel too, and counted; buffers are wiped.
    private func closeHandles(_ report: inout LockReport) {
        let open = system.files.all.filter { $0.node.protectionClass == .complete }.map(\.node)
        if !open.isEmpty {
            // The kernel answers SEEK_END from the size it keeps, until an answer about the file has told it not to. And
            // close(2) returns before RELEASE is read: these requests stand behind it, and then every worker passes by.
            calls.helper.look(at: open, until: monotonicNanoseconds() + Self.shortLimit / 3)
        }
        // Requests of before have left plaintext in the workers' buffers.
        _ = calls.wipeBuffers(until: monotonicNanoseconds() + Self.shortLimit)
        system.volume.releaseBuffers()
        ProcessHardening.trimHeap()
        let cutOff = closedHandles
        report.cutOff = cutOff.count
        report.processes = Set(cutOff.map(\.process).filter { $0 > 0 }).sorted()
    }

    /// Class A, and class B without an open handle, with pages.
    private var targets: [Node] {
        system.volume.nodesWithCachedPages.filter { node in
            switch node.protectionClass {
            case .complete: true
            case .completeUnlessOpen: node.openHandles == 0
            default: false
            }
        }
    }

    /// Whether pages of the file may be dirty: somebody may write to it, through the cache or a mapping.
    private func mayBeDirty(_ node: Node) -> Bool { node.writableHandles > 0 }

    /// Those on class A files.
    private var closedHandles: [Handle] {
        system.files.all.filter { $0.node.protectionClass == .complete }.flatMap { file in
            file.state.withLock { $0.handles }
        }
    }

    /// Class A files behind which somebody may be in the middle of a write(2) to the cache: opened as another class.
    private var cachedWriters: [Node] {
        system.volume.nodesWithCachedPages.filter {
            $0.protectionClass == .complete && system.files.file($0.number)?.hasCachedWriter == true
        }
    }

    /// 6: a writer that slept inside write(2) may put a page into the cache after the lock, and a change of class that the
    /// lock overtook may end after it.
    func sweep() {
        calls.evictor.add(targets.map(\.number))
        // What the store has refused before.
        if system.volume.hasLateRecordsInMemory { calls.persistLateRecords() }
    }

    /// When to sweep after a lock, in nanoseconds: the times of the first ones, then again and again.
    static func sweepDelay(_ count: Int) -> UInt64 {
        switch count {
        case 0: 10_000_000
        case 1: 90_000_000
        case 2: 900_000_000
        default: 3_000_000_000
        }
    }
}
