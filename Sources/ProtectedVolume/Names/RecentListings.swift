// What was made of the last listings of some directories, so that not each look-up takes a listing.

internal import BackingStore
internal import HostSystem

/// What tells a changed object of the store without reading it.
struct ChangeStamp: Equatable, Sendable {
    private let inode: UInt64
    private let changed: Timestamp

    init(_ status: Status) { (inode, changed) = (status.inode, status.changed) }
}

/// Contents by the serial numbers of the directories' nodes. Those that were not used for the longest time go first.
/// Thread-safe: its lock guards the table, and is held for a look only.
final class RecentListings<Content: Sendable>: Sendable {
    private struct Slot {
        var content: Content
        let weight: Int
        let stamp: ChangeStamp
        let made: UInt64
        var used: UInt64
    }

    private struct Table {
        var slots: [UInt64: Slot] = [:]
        var weight = 0
        var clock: UInt64 = 0

        /// Notes that a slot is used.
        mutating func content(of directory: UInt64) -> Content? {
            clock += 1
            slots[directory]?.used = clock
            return slots[directory]?.content
        }

        /// Drops a quarter more than is needed, so that one pass over the slots pays for many listings.
        mutating func makeRoom(for added: Int, in room: Int) {
            for (directory, _) in slots.sorted(by: { $0.value.used < $1.value.used }) {
                if weight + added <= room / 4 * 3, slots.count <= RecentListings.mostDirectories / 4 * 3 { return }
                drop(directory)
            }
        }

        mutating func drop(_ directory: UInt64) {
            if let slot = slots.removeValue(forKey: directory) { weight -= slot.weight }
        }
    }

    /// How long a listing is believed to be whole, in nanoseconds. A store's times may be too coarse to tell of each change.
    private static var lifetime: UInt64 { 1_000_000_000 }
    private static var mostDirectories: Int { 1024 }

    private let room: Int
    private let table = Lock(Table())

    /// - Parameter room: the weight of all contents together.
    init(room: Int) { self.room = room }

    /// What was kept of a directory, which may be older than the directory is now.
    func content(of directory: UInt64) -> Content? { table.withLock { $0.content(of: directory) } }

    /// The same, if nothing has changed in the directory since it was listed a short time ago.
    func content(of directory: UInt64, _ stamp: ChangeStamp) -> Content? {
        table.withLock { table in
            guard let slot = table.slots[directory], slot.stamp == stamp,
                nanoseconds(from: slot.made, to: monotonicNanoseconds()) < Self.lifetime
            else { return nil }
            return table.content(of: directory)
        }
    }

    /// Keeps what was made of a listing.
    /// - Parameter stamp: the directory's from before the listing.
    func keep(_ content: Content, of directory: UInt64, _ stamp: ChangeStamp, weight: Int) {
        table.withLock { table in
            table.drop(directory)
            if table.weight + weight > room || table.slots.count >= Self.mostDirectories {
                table.makeRoom(for: weight, in: room)
            }
            table.clock += 1
            table.slots[directory] = Slot(
                content: content, weight: weight, stamp: stamp, made: monotonicNanoseconds(), used: table.clock)
            table.weight += weight
        }
    }
}
