// The work of a check in the order of the tree. Workers take items from it, and reports leave it in that order.
//
// A slot is one item and what it reports. An item that finds more work puts it directly behind itself, so the list of slots
// is the part of the tree, in order, that is not done. Reports wait in their slots until all before them have left.

internal import HostSystem
internal import ProtectedVolume

/// A queue of items, and of the reports of type `Report` that they make. Thread-safe.
///
/// It holds at most a few slots for each level of the tree and each worker: what is done merges with what is done before it.
final class CheckQueue<Item: Sendable, Report: Sendable>: Sendable {
    /// A slot's number. 0 is the end of the list on both sides.
    typealias Number = UInt64

    private struct Slot: Sendable {
        /// Nil once it is done.
        var item: Item?
        var isTaken = false
        var isDone = false
        var reports: [Report] = []
        var before: Number = 0
        var behind: Number = 0
    }

    private struct State: Sendable {
        var slots: [Number: Slot] = [:]
        var first: Number = 0
        /// The highest number given.
        var highest: Number = 1
        /// The reports that wait for a slot before theirs.
        var waiting = 0
    }

    private let state: Lock<State>
    private let changed = Condition()
    private let mostWaiting: Int
    private let tell: @Sendable (Report) -> Void

    /// A queue with one item.
    /// - Parameters:
    ///   - mostWaiting: with so many reports waiting, workers take only items before them.
    ///   - tell: gets the reports, from any thread, one at a time and in order. It must not call the queue.
    init(_ item: Item, mostWaiting: Int = 4096, tell: @escaping @Sendable (Report) -> Void) {
        self.mostWaiting = mostWaiting
        self.tell = tell
        state = Lock(State(slots: [1: Slot(item: item)], first: 1))
    }

    /// The first item that no worker has. Waits for one; nil if all are done.
    func next() -> (Number, Item)? {
        state.wait(on: changed) { state -> (Number, Item)?? in
            if state.first == 0 { return .some(nil) }
            var at = state.first
            while at != 0, let slot = state.slots[at] {
                if slot.isDone, state.waiting >= mostWaiting { return nil }
                if !slot.isTaken, let item = slot.item {
                    state.slots[at]?.isTaken = true
                    return .some((at, item))
                }
                at = slot.behind
            }
            return nil
        } ?? nil
    }

    /// Puts an item behind the one that a worker has, and before those that were put there.
    func add(_ item: Item, behind number: Number) {
        state.withLock { insert(item, behind: number, &$0) }
        changed.broadcast()
    }

    /// Ends an item of a worker.
    /// - Parameter items: more work, in order.
    func end(_ number: Number, _ reports: [Report], _ items: [Item]) {
        // It is released after the lock.
        let item = state.withLock { state -> Item? in
            for item in items.reversed() { insert(item, behind: number, &state) }
            let item = state.slots[number]?.item
            state.slots[number]?.item = nil
            state.slots[number]?.isDone = true
            state.slots[number]?.reports = reports
            state.waiting += reports.count
            merge(number, &state)
            if let behind = state.slots[number]?.behind { merge(behind, &state) }
            while let slot = state.slots[state.first], slot.isDone {
                for report in slot.reports { tell(report) }
                state.waiting -= slot.reports.count
                remove(state.first, slot, &state)
            }
            return item
        }
        withExtendedLifetime(item) {}
        changed.broadcast()
    }

    private func insert(_ item: Item, behind number: Number, _ state: inout State) {
        state.highest += 1
        let new = state.highest
        let behind = state.slots[number]?.behind ?? 0
        state.slots[new] = Slot(item: item, before: number, behind: behind)
        state.slots[number]?.behind = new
        if behind != 0 { state.slots[behind]?.before = new }
    }

    /// Puts a slot that is done into the one before, if that is done too.
    private func merge(_ number: Number, _ state: inout State) {
        guard let slot = state.slots[number], slot.isDone, state.slots[slot.before]?.isDone == true else { return }
        state.slots[slot.before]?.reports += slot.reports
        remove(number, slot, &state)
    }

    private func remove(_ number: Number, _ slot: Slot, _ state: inout State) {
        state.slots[number] = nil
        if slot.before == 0 { state.first = slot.behind } else { state.slots[slot.before]?.behind = slot.behind }
        if slot.behind != 0 { state.slots[slot.behind]?.before = slot.before }
    }

    /// The first item that is not done. Everything before it is, and its reports have left. Nil if all are done.
    var first: Item? { state.withLock { state in state.slots[state.first]?.item } }

    /// Whether all items are done.
    var isDone: Bool { state.withLock { $0.first == 0 } }

    /// The number of slots, for tests.
    var count: Int { state.withLock { $0.slots.count } }
}
