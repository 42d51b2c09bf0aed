// Locking in place: keys out, and the plaintext out of the kernel too, losing no write that a program was told of.

internal import HostSystem
internal import Keybag
internal import Locks
internal import ProtectedVolume
internal import FuseBridge
internal import Synchronization
internal import VolumeFormat

/// What a lock did.
public struct LockReport: Sendable, Equatable {
    /// The volume was unlocked before, and is locked now.
    public var wasUnlocked = false
    /// Handles of class A files that are open and have lost their access.
    public var cutOff = 0
    /// The processes (threads) that opened them, where the kernel told.
    public var processes: [Int32] = []
    /// Passes over the kernel's page cache.
    public var passes = 0
    /// The last pass brought no write-back; else the lock went on after its time was up.
    public var isComplete = true
    /// How long it took.
    public var milliseconds = 0
}

/// The steps of a lock, numbered as in `docs/architecture.md`, "One lock".
struct LockSequence {
    static let leastPasses = 3
    static let mostPasses = 50
    static let betweenPasses: UInt32 = 20
    static let limit: UInt64 = 10_000_000_000
    static let touchLimit: UInt64 = 500_000_000

    let system: VolumeFileSystem
    let errands: Errands

    /// Steps 2 to 5; announcing is the caller's, before and after.
    func run(_ keys: KeyRing, locking: () -> Void) -> LockReport {
        let start = monotonicNanoseconds()
        let deadline = start + Self.limit
        var report = LockReport()
        // 2: under the exclusive side, which drains handlers; from here on class A is refused, save write-back.
        guard keys.beginLocking() else { return report }
        locking()
        report.wasUnlocked = true
        // 3
        report.isComplete = false
        while true {
            let before = system.writeBacks.load(ordering: .acquiring)
            guard errands.invalidate(targets, until: deadline) else { break }
            report.passes += 1
            let isQuiet = system.writeBacks.load(ordering: .acquiring) == before
            if isQuiet && report.passes >= Self.leastPasses {
                report.isComplete = true
                break
            }
            let now = monotonicNanoseconds()
            if report.passes >= Self.mostPasses || now >= deadline { break }
            let written = cachedWriters
            if !written.isEmpty { errands.touch(written, until: min(deadline, now + Self.touchLimit)) }
            sleep(milliseconds: Self.betweenPasses)
        }
        for file in system.files.all where file.node.protectionClass == .complete {
            // A new file's first page may still wait for its first write; without the key it could not be made.
            try? file.content.flushHeader()
        }
        // 4
        _ = keys.waitForReads(until: max(deadline, monotonicNanoseconds() + 100_000_000))
        do throws(VolumeError) { try system.volume.beginLateRecords() } catch {
            system.log("writes that come after this lock will be refused: \(error)")
        }
        _ = keys.finishLocking { _ = system.volume.wipeAtLock() }
        // 5
        let patience = report.isComplete ? Self.limit : Self.limit / 10
        _ = errands.invalidate(targets, until: monotonicNanoseconds() + patience)
        let open = system.files.all.map(\.node).filter { $0.protectionClass == .complete }
        if !open.isEmpty {
            // The kernel answers SEEK_END from the size it keeps, until an answer about the file has told it not to. And
            // close(2) returns before RELEASE is read: these requests stand behind it, and then every worker passes by.
            errands.look(at: open, until: monotonicNanoseconds() + Self.touchLimit)
        }
        // Requests of before have left plaintext in the workers' buffers.
        _ = errands.wipeBuffers(until: monotonicNanoseconds() + Self.limit / 10)
        system.volume.releaseBuffers()
        ProcessHardening.trimHeap()
        let cutOff = closedHandles
        report.cutOff = cutOff.count
        report.processes = Set(cutOff.map(\.process).filter { $0 > 0 }).sorted()
        report.milliseconds = Int(nanoseconds(from: start, to: monotonicNanoseconds()) / 1_000_000)
        return report
    }

    /// Class A, and class B without an open handle. A file whose class nobody has read has no pages.
    private var targets: [UInt64] {
        system.volume.knownNodes { node in
            switch node.protectionClass {
            case .complete: true
            case .completeUnlessOpen: node.openHandles == 0
            default: false
            }
        }.map(\.number)
    }

    /// Those on class A files.
    private var closedHandles: [Handle] {
        system.files.all.filter { $0.node.protectionClass == .complete }.flatMap { file in
            file.state.withLock { $0.handles }
        }
    }

    /// Class A files behind which dirty pages may stand: opened as another class, or mapped.
    private var cachedWriters: [Node] {
        system.files.all.filter { $0.node.protectionClass == .complete && $0.hasCachedWriter }.map(\.node)
    }

    /// 6: a writer that slept inside write(2) may put a page into the cache after the lock.
    func sweep() {
        for node in cachedWriters { errands.invalidate(node.number) }
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
