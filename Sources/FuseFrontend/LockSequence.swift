// Locks a mounted volume: wipes the keys and the kernel's plaintext, without losing a write that a program was told of.

internal import HostSystem
internal import KeyFiles
internal import Keybag
internal import ProtectedVolume
internal import Synchronization
internal import VolumeFormat

/// The steps of a lock, numbered as in `docs/architecture.md`, "One lock".
package struct LockSequence {
    /// The number of passes while a program may be inside write(2), and the milliseconds between them.
    static let leastPasses = 3
    static let mostPasses = 50
    static let betweenPasses: UInt32 = 20
    /// The longest time that keys stay while the kernel writes back. Pages that come later become late records.
    static let limit: UInt64 = 10_000_000_000
    /// How long a lock may take after its grace: both waits for the kernel's pages, and a little more. With the grace of the
    /// unit protectfs-lock it is less than the time of the unit.
    package static let longest: UInt64 = 2 * limit + 1_000_000_000
    /// The longest wait without any write-back.
    static let patience: UInt64 = 2_000_000_000
    static let touchLimit: UInt64 = 200_000_000
    /// The longest wait for steps that do not concern the cache: running reads, first pages, buffers, open handles.
    static let shortLimit: UInt64 = 300_000_000
    /// After this long without a write-back, files that may be dirty are evicted as they are. The clean ones among them are
    /// dropped at once.
    static let flushPause: UInt64 = 100_000_000

    let system: VolumeFileSystem
    let calls: DeferredCalls
    /// The class whose open handles are cut off: A at a lock of the volume; 7 when its time after a lock has run out. What a
    /// comment of a step says of class A is true of class 7 then.
    var protectionClass = ProtectionClass.complete

    /// Runs steps 2 to 5. The caller announces the lock before and reports it after.
    func run(locking: () -> Void) -> LockReport {
        let start = monotonicNanoseconds()
        let deadline = start + Self.limit
        let volume = system.volume
        var report = LockReport()
        // Step 2.
        guard volume.beginLock(protectionClass) else {
            report.wasLocked = true
            return report
        }
        locking()
        // Step 3.
        let isQuiet = clearCache(until: deadline)
        // Step 4.
        calls.beforeKeysGo(until: min(deadline, monotonicNanoseconds() + Self.shortLimit)) { volume.flushFirstPages() }
        _ = volume.keys.waitForReads(of: protectionClass, until: monotonicNanoseconds() + Self.shortLimit)
        do throws(VolumeError) { try volume.beginLateRecords(protectionClass) } catch {
            system.log("a write that comes after this lock will be refused: \(error)")
        }
        guard volume.finishLock(protectionClass, sweeping: true) else {
            report.wasLocked = true
            return report
        }
        // Step 5.
        let left = sweepOn(until: monotonicNanoseconds() + (isQuiet ? Self.limit : Self.shortLimit))
        report.files = left
        if left == 0 { _ = volume.keys.finishSweeping(protectionClass) }
        closeHandles(&report)
        report.milliseconds = Int64(nanoseconds(from: start, to: monotonicNanoseconds()) / 1_000_000)
        return report
    }

    /// Step 3: writes the page cache back and empties it. False if pages kept coming.
    ///
    /// Files without writers are evicted at once, without waiting for other files' writes. Files that may be dirty are first
    /// written back in large requests, because a notification sends one page at a time.
    private func clearCache(until deadline: UInt64) -> Bool {
        var passes = 0
        let holders = targets
        let dirty = holders.filter(mayBeDirty)
        // From here on the kernel asks for attributes before each buffered write, and the write is refused.
        for node in dirty { calls.forgetAttributesNow(node.number) }
        calls.evictor.add(holders.filter { !mayBeDirty($0) }.map(\.number))
        let isFlushed = flush(dirty, until: deadline)
        while true {
            let before = writeBacks
            let targets = targets.map(\.number)
            let left = calls.evictor.evict(
                targets, until: deadline, patience: isFlushed ? Self.patience : Self.shortLimit)
            passes += 1
            let writers = cachedWriters
            if !left.isEmpty { return false }
            let isQuiet = writeBacks == before
            if isQuiet && (writers.isEmpty || passes >= Self.leastPasses) { return true }
            let now = monotonicNanoseconds()
            if passes >= Self.mostPasses || now >= deadline { return false }
            if !writers.isEmpty { calls.helper.touch(writers, until: min(deadline, now + Self.touchLimit)) }
            sleep(milliseconds: Self.betweenPasses)
        }
    }

    /// Makes the kernel write dirty data back, and evicts each file when that is done. False if `deadline` passes first, or
    /// write-backs stop.
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
        var seen = writeBacks
        var moved = monotonicNanoseconds()
        while true {
            let end = monotonicNanoseconds() + Self.flushPause / 2
            if left.wait(on: changed, until: end, { $0.isEmpty ? true : nil }) == true { return true }
            let now = monotonicNanoseconds()
            let count = writeBacks
            if count != seen { (seen, moved) = (count, now) }
            if nanoseconds(from: moved, to: now) > Self.flushPause { evictor.add(left.withLock { Array($0) }) }
            if now >= deadline || nanoseconds(from: moved, to: now) > Self.patience { return false }
        }
    }

    /// Evicts again all files that have pages. Returns how many still have some when `deadline` passes or progress stops.
    func sweepOn(until deadline: UInt64) -> Int {
        let nodes = targets
        let left = Set(calls.evictor.evict(nodes.map(\.number), until: deadline, patience: Self.patience))
        for node in nodes where !left.contains(node.number) && node.openHandles == 0 { node.forgetPages() }
        return left.count
    }

    /// Step 5: closes open handles for the kernel too, counts them, and wipes buffers.
    private func closeHandles(_ report: inout LockReport) {
        let open = system.files.all.filter { $0.node.protectionClass == protectionClass }.map(\.node)
        if !open.isEmpty {
            // The kernel answers SEEK_END from the size it keeps until an answer about the file tells it not to. And close(2)
            // returns before RELEASE is read. These requests queue behind that RELEASE, and then every worker passes by.
            calls.helper.look(at: open, until: monotonicNanoseconds() + Self.shortLimit / 3)
        }
        // Earlier requests have left plaintext in the workers' buffers.
        _ = calls.wipeBuffers(until: monotonicNanoseconds() + Self.shortLimit)
        system.volume.releaseBuffers()
        ProcessHardening.trimHeap()
        let cutOff = closedHandles
        report.cutOff = cutOff.count
        report.processes = Set(cutOff.map(\.process).filter { $0 > 0 }).sorted()
    }

    private var writeBacks: UInt64 { system.writeBacks.number(of: protectionClass) }

    /// Files with pages of class A, or of class B without an open handle. For class 7, files with pages of that class.
    private var targets: [Node] {
        system.volume.nodesWithCachedPages.filter { node in
            switch node.protectionClass {
            case .complete: protectionClass == .complete
            case .completeUnlessOpen: protectionClass == .complete && node.openHandles == 0
            case .completeWhenUserInactive: protectionClass == .completeWhenUserInactive
            default: false
            }
        }
    }

    /// Whether pages of the file may be dirty because a program can write to it, through the cache or a mapping.
    private func mayBeDirty(_ node: Node) -> Bool { node.writableHandles > 0 }

    /// Handles on class A files.
    private var closedHandles: [Handle] {
        system.files.all.filter { $0.node.protectionClass == protectionClass }.flatMap { file in
            file.state.withLock { $0.handles }
        }
    }

    /// Class A files that were opened as another class. A program may be inside a write(2) to their cache.
    private var cachedWriters: [Node] {
        system.volume.nodesWithCachedPages.filter {
            $0.protectionClass == protectionClass && system.files.file($0.number)?.hasCachedWriter == true
        }
    }

    /// Step 6: a writer that slept inside write(2) may put a page into the cache after the lock, and a change of class that the
    /// lock overtook may end after it.
    func sweep() {
        calls.evictor.add(targets.map(\.number))
        if protectionClass == .complete, system.volume.keys.state(of: .completeWhenUserInactive).isLocked {
            calls.evictor.add(inactive.targets.map(\.number))
        }
        // Pages that the store has refused before.
        if system.volume.hasLateRecordsInMemory { calls.persistLateRecords() }
    }

    /// The sequence that closes class 7.
    var inactive: LockSequence {
        LockSequence(system: system, calls: calls, protectionClass: .completeWhenUserInactive)
    }

    /// When to sweep after a lock, in nanoseconds: the times of the first sweeps, then the interval.
    static func sweepDelay(_ count: Int) -> UInt64 {
        switch count {
        case 0: 10_000_000
        case 1: 90_000_000
        case 2: 900_000_000
        default: 3_000_000_000
        }
    }
}
