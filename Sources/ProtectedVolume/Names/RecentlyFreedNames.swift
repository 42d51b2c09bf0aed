// Remembers the classes of files whose names were freed, for one minute. A program that creates the name again is saving the
// file.

internal import BackingStore
internal import HostSystem
internal import VolumeFormat

/// A bounded table of encoded names in memory. Each name has the class of its last file.
///
/// An encoded name is bound to its directory, so it needs no other key, and reveals no plaintext to a reader of memory.
final class RecentlyFreedNames: Sendable {
    /// How long a name is remembered.
    static let nanoseconds: UInt64 = 60_000_000_000
    /// The limit of names. Beyond it the oldest are forgotten.
    static let capacity = 4096

    private struct Slot {
        let protectionClass: ProtectionClass
        let left: UInt64
    }

    private let slots = Lock<[EntryName: Slot]>([:])
    private let clock: @Sendable () -> UInt64

    /// - Parameter clock: monotonic nanoseconds.
    init(clock: @escaping @Sendable () -> UInt64 = { monotonicNanoseconds() }) {
        self.clock = clock
    }

    /// Remembers the class of a file that is about to lose its name; nil forgets the name.
    func remember(_ name: EntryName, _ protectionClass: ProtectionClass?) {
        let now = clock()
        slots.withLock { slots in
            guard let protectionClass else {
                slots[name] = nil
                return
            }
            if slots.count >= Self.capacity, slots[name] == nil { Self.makeRoom(in: &slots, now) }
            slots[name] = Slot(protectionClass: protectionClass, left: now)
        }
    }

    /// The class of the file that had the name and lost it within the last minute.
    func protectionClass(of name: EntryName) -> ProtectionClass? {
        let now = clock()
        return slots.withLock { slots in
            guard let slot = slots[name] else { return nil }
            if Self.isOver(slot, now) {
                slots[name] = nil
                return nil
            }
            return slot.protectionClass
        }
    }

    /// Removes expired names, or else a quarter of all, so that one pass makes room for many.
    private static func makeRoom(in slots: inout [EntryName: Slot], _ now: UInt64) {
        slots = slots.filter { !isOver($0.value, now) }
        guard slots.count > capacity * 3 / 4 else { return }
        let oldest = slots.sorted { $0.value.left < $1.value.left }.prefix(slots.count - capacity * 3 / 4)
        for (name, _) in oldest { slots[name] = nil }
    }

    private static func isOver(_ slot: Slot, _ now: UInt64) -> Bool {
        HostSystem.nanoseconds(from: slot.left, to: now) > nanoseconds
    }

    var count: Int { slots.withLock { $0.count } }
}
