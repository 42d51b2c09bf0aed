// Locks on ranges of an inode's pages, granted in the order in which they were asked for.

import Locks

/// A shared or exclusive hold on a range of pages; `RangeLock.release` ends it.
struct RangeHold: ~Copyable {
    fileprivate let ticket: UInt64
}

/// Byte-range locks of one inode, in units of pages.
///
/// Fair: a request waits for every conflicting one that came before it, granted or not, so that neither side starves.
/// Held across backing I/O, never while waiting for a buffer's return or for another inode's lock.
final class RangeLock: Sendable {
    private struct Entry {
        let ticket: UInt64
        let pages: Range<UInt64>
        let isExclusive: Bool
    }

    private struct State {
        var next: UInt64 = 0
        var entries: [Entry] = []
    }

    private let state = Lock(State())
    private let released = Condition()

    /// From a page to the end of all files.
    static func onwards(from page: UInt64) -> Range<UInt64> { page..<UInt64.max }
    /// All pages.
    static let everything: Range<UInt64> = 0..<UInt64.max

    /// Waits until no earlier request for any of `pages` stands in the way.
    func acquire(_ pages: Range<UInt64>, exclusive: Bool) -> RangeHold {
        let ticket = state.withLock { state in
            state.next += 1
            state.entries.append(Entry(ticket: state.next, pages: pages, isExclusive: exclusive))
            return state.next
        }
        let granted: Void? = state.wait(on: released) { state in
            for entry in state.entries {
                if entry.ticket == ticket { return () }
                if entry.pages.overlaps(pages), exclusive || entry.isExclusive { return nil }
            }
            return ()
        }
        _ = granted
        return RangeHold(ticket: ticket)
    }

    /// Ends a hold.
    func release(_ hold: consuming RangeHold) {
        let ticket = hold.ticket
        let othersWait = state.withLock { state in
            if let index = state.entries.firstIndex(where: { $0.ticket == ticket }) {
                state.entries.remove(at: index)
            }
            return !state.entries.isEmpty
        }
        if othersWait { released.broadcast() }
    }
}
