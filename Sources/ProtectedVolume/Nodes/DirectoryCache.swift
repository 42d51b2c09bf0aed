// A bounded cache of open backing directories, so that a tree of any size needs few descriptors.

internal import BackingStore
internal import HostSystem

/// Open directories by their nodes' serial numbers; the least recently used go first.
final class DirectoryCache: Sendable {
    private struct Slot {
        let directory: BackingDirectory
        var used: UInt64
    }

    private struct Contents {
        var slots: [UInt64: Slot] = [:]
        var clock: UInt64 = 0
    }

    private let contents = Lock(Contents())
    let capacity: Int

    /// - Parameter capacity: descriptors that the cache may hold.
    init(capacity: Int) {
        self.capacity = max(capacity, 4)
    }

    func directory(_ serial: UInt64) -> BackingDirectory? {
        contents.withLock { contents in
            contents.clock += 1
            // Taken out and put back, because a change in place allocates.
            guard var slot = contents.slots[serial] else { return nil }
            slot.used = contents.clock
            contents.slots[serial] = slot
            return slot.directory
        }
    }

    func insert(_ directory: BackingDirectory, for serial: UInt64) {
        // Descriptors close outside of the lock, when `evicted` ends.
        let evicted = contents.withLock { contents -> [Slot] in
            var evicted: [Slot] = []
            if contents.slots.count >= capacity, contents.slots[serial] == nil {
                // Evicts a quarter at once, so that one pass over the slots pays for many insertions.
                let oldest = contents.slots.sorted { $0.value.used < $1.value.used }.prefix(capacity / 4 + 1)
                for (serial, slot) in oldest {
                    contents.slots[serial] = nil
                    evicted.append(slot)
                }
            }
            contents.clock += 1
            if let old = contents.slots.updateValue(Slot(directory: directory, used: contents.clock), forKey: serial) {
                evicted.append(old)
            }
            return evicted
        }
        _ = evicted
    }

    func remove(_ serial: UInt64) {
        let removed = contents.withLock { $0.slots.removeValue(forKey: serial) }
        _ = removed
    }

    /// Closes all directories. Called when descriptors have run out.
    func removeAll() {
        let removed = contents.withLock { contents -> [UInt64: Slot] in
            var removed: [UInt64: Slot] = [:]
            swap(&removed, &contents.slots)
            return removed
        }
        _ = removed
    }

    var count: Int { contents.withLock { $0.slots.count } }
}
