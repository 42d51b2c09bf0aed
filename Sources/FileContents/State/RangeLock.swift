// Locks on ranges of an inode's pages. They are granted in the order of the requests.

import HostSystem
import Synchronization

/// The number of threads that wait for pages of any file of a mount.
final class WaitingThreads: Sendable {
    fileprivate let count = Atomic<Int>(0)

    init() {}
}

/// A shared or exclusive hold on a range of pages; `RangeLock.release` ends it.
struct RangeHold: ~Copyable {
    let ticket: UInt64
}

/// Byte-range locks of one inode, in units of pages.
///
/// The lock is fair: a request waits for every conflicting earlier one, granted or not, so that neither side starves. A
/// parked request has its place in the same queue, but no waiting thread. A thread that waits is a parked request too. Holds last across backing I/O. A thread must
/// not wait for a buffer or for another inode's lock while it has a hold.
struct RangeLock: ~Copyable, Sendable {
    struct Entry {
        let ticket: UInt64
        let pages: Range<UInt64>
        let isExclusive: Bool
        /// The function to call when a parked request is granted; then nil.
        var granted: (@Sendable (UInt64) -> Void)?

        func excludes(_ other: Entry) -> Bool {
            pages.overlaps(other.pages) && (isExclusive || other.isExclusive)
        }
    }

    struct State {
        var next: UInt64 = 0
        var entries = ShortList<Entry>()
        /// The number of threads that wait.
        var waiting = 0

        /// Adds a request at the end of the queue. Returns whether it is granted at once.
        mutating func add(
            _ pages: Range<UInt64>, exclusive: Bool, _ granted: (@Sendable (UInt64) -> Void)? = nil
        ) -> (ticket: UInt64, isGranted: Bool) {
            next += 1
            let entry = Entry(ticket: next, pages: pages, isExclusive: exclusive, granted: granted)
            let isGranted = !entries.contains { $0.excludes(entry) }
            entries.append(entry)
            return (next, isGranted)
        }

        /// The functions of the parked requests that are granted now, with their tickets.
        mutating func takeGranted() -> [(@Sendable (UInt64) -> Void, UInt64)] {
            var taken: [(@Sendable (UInt64) -> Void, UInt64)] = []
            for index in entries.indices {
                guard let granted = entries[index].granted, isGranted(at: index) else { continue }
                entries[index].granted = nil
                taken.append((granted, entries[index].ticket))
            }
            return taken
        }

        /// A gate that opens when the request that was added last is granted.
        mutating func gateOfLast() -> Gate {
            let gate = Gate()
            entries[entries.count - 1].granted = { _ in gate.open() }
            return gate
        }

        /// Whether no request before the `index`-th conflicts with it.
        func isGranted(at index: Int) -> Bool {
            let entry = entries[index]
            return !entries[..<index].contains { $0.excludes(entry) }
        }
    }

    private let state = InPlaceLock(State())
    private let all: WaitingThreads

    init(_ all: WaitingThreads = WaitingThreads()) { self.all = all }

    /// The pages from `page` to the largest page number.
    static func onwards(from page: UInt64) -> Range<UInt64> { page..<UInt64.max }
    /// All pages.
    static let everything: Range<UInt64> = 0..<UInt64.max

    /// Waits until no earlier request conflicts with `pages`.
    func acquire(_ pages: Range<UInt64>, exclusive: Bool) -> RangeHold {
        let (ticket, gate) = state.withLock { state -> (UInt64, Gate?) in
            let (ticket, isGranted) = state.add(pages, exclusive: exclusive)
            if isGranted { return (ticket, nil) }
            state.waiting += 1
            all.count.add(1, ordering: .relaxed)
            return (ticket, state.gateOfLast())
        }
        if let gate { wait(at: gate) }
        return RangeHold(ticket: ticket)
    }

    /// The same, but returns nil at once if it would have to wait and `limit` threads wait already, for this file or
    /// another. With a limit of 0 it never waits.
    func acquireUnlessBusy(_ pages: Range<UInt64>, exclusive: Bool = false, limit: Int) -> RangeHold? {
        let (ticket, gate) = state.withLock { state -> (UInt64, Gate?) in
            let (ticket, isGranted) = state.add(pages, exclusive: exclusive)
            if isGranted { return (ticket, nil) }
            // Counts itself first, so that simultaneous requests for other files see each other.
            guard all.count.add(1, ordering: .relaxed).newValue <= limit else {
                all.count.subtract(1, ordering: .relaxed)
                state.entries.removeLast()
                return (0, nil)
            }
            state.waiting += 1
            return (ticket, state.gateOfLast())
        }
        guard ticket > 0 else { return nil }
        if let gate { wait(at: gate) }
        return RangeHold(ticket: ticket)
    }

    private func wait(at gate: Gate) {
        gate.wait()
        state.withLock { $0.waiting -= 1 }
        all.count.subtract(1, ordering: .relaxed)
    }

    /// Parks a request for a shared hold. `granted` gets the hold, now or from the thread that releases the conflicting
    /// one. It must be quick, and pass the hold to a thread that releases it.
    func park(_ pages: Range<UInt64>, granted: @escaping @Sendable (_ ticket: UInt64) -> Void) {
        let ticket = state.withLock { state -> UInt64? in
            let (ticket, isGranted) = state.add(pages, exclusive: false, granted)
            guard isGranted else { return nil }
            state.entries[state.entries.count - 1].granted = nil
            return ticket
        }
        if let ticket { granted(ticket) }
    }

    /// The hold of a parked request that was granted. Call it once for each request.
    func hold(of ticket: UInt64) -> RangeHold { RangeHold(ticket: ticket) }

    /// Ends a hold.
    func release(_ hold: consuming RangeHold) {
        let ticket = hold.ticket
        let granted = state.withLock { state -> [(@Sendable (UInt64) -> Void, UInt64)] in
            state.entries.removeFirst { $0.ticket == ticket }
            return state.entries.isEmpty ? [] : state.takeGranted()
        }
        for (granted, ticket) in granted { granted(ticket) }
    }

    /// The number of threads that wait now.
    var waiting: Int { state.withLock { $0.waiting } }
}
