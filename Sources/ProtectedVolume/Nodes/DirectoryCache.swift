// Finds the backing directories of nodes, and keeps some open: a bounded cache, so that a tree of any size needs few descriptors.

internal import BackingStore
internal import HostSystem
internal import KeyFiles

/// Open directories by their nodes' serial numbers; the least recently used go first. Thread-safe.
///
/// Its lock guards the cache, and is held for a look only. The lock of moves is held exclusively while a directory moves, across
/// calls to the store. Nobody holds it shared for longer than to wait for that.
final class DirectoryCache: Sendable {
    private struct Slot {
        let directory: BackingDirectory
        var used: UInt64
    }

    private struct Contents {
        var slots: [UInt64: Slot] = [:]
        var clock: UInt64 = 0
    }

    /// The limit of directories on a path from the root. A longer path is a circle.
    static let deepest = 1 << 20

    private let contents = Lock(Contents())
    private let moves = RWLock(())
    private let capacity: Int
    private let rootNode: Node
    /// The volume's directory in the store.
    let root: BackingDirectory

    /// - Parameter capacity: descriptors that the cache may hold.
    init(root: BackingDirectory, of node: Node, capacity: Int) {
        (self.root, rootNode) = (root, node)
        self.capacity = max(capacity, 4)
    }

    // MARK: finding

    /// The backing directory of a directory's node.
    func directory(of node: Node) throws(VolumeError) -> BackingDirectory {
        if node === rootNode { return root }
        if let directory = cached(node.serial) { return directory }
        guard node.kind == .directory else { throw .refused(.ENOTDIR) }
        for attempt in 0..<3 {
            do throws(VolumeError) {
                return try walk(to: node)
            } catch {
                switch error {
                // If files hold all descriptors, the program gets this error.
                case .store(.EMFILE) where attempt < 2, .store(.ENFILE) where attempt < 2: removeAll()
                case .stale where attempt < 2: waitForMoves()
                default: throw error
                }
            }
        }
        throw .stale
    }

    /// Opens the directories from the nearest open one down to `node`.
    private func walk(to node: Node) throws(VolumeError) -> BackingDirectory {
        var chain: [(Node, EntryName)] = []
        var current = node
        var directory: BackingDirectory?
        while directory == nil {
            guard let place = current.state.withLock({ $0.place }), chain.count < Self.deepest else { throw .stale }
            chain.append((current, place.name))
            current = place.parent
            directory = current === rootNode ? root : cached(current.serial)
        }
        var opened = directory ?? root
        for (node, name) in chain.reversed() {
            opened = try subdirectory(of: opened, name)
            let status: Status
            do throws(Errno) { status = try opened.status() } catch { throw .store(error) }
            guard InodeKey(status) == node.key else { throw .stale }
            insert(opened, for: node.serial)
        }
        return opened
    }

    private func subdirectory(of directory: BackingDirectory, _ name: EntryName) throws(VolumeError) -> BackingDirectory
    {
        do throws(Errno) {
            return try directory.openDirectory(name)
        } catch {
            switch error {
            case .ENOENT, .ENOTDIR, .ELOOP, .EXDEV: throw .stale
            default: throw .store(error)
            }
        }
    }

    /// Makes walks that fail during the move of a directory wait until its node has its new place.
    func moving(_ move: () throws(VolumeError) -> Void) throws(VolumeError) {
        try moves.withWriteLock { (_) throws(VolumeError) in try move() }
    }

    /// Waits for the move of a directory. A walk that has failed can then be tried again.
    func waitForMoves() { moves.withReadLock { _ in } }

    // MARK: the cache

    private func cached(_ serial: UInt64) -> BackingDirectory? {
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
}
