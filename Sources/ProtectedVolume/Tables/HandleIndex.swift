// Finds objects of file handles that the kernel has forgotten, by an index of the store that is made when it is needed.

internal import BackingStore
internal import HostSystem
internal import Synchronization

/// The last index of a volume's inodes, and how many names this mount has given since. Thread-safe.
///
/// Its lock guards the index. It is the outermost lock, and is held while the store is listed and an object is looked up: an index
/// is made by one thread at a time.
final class HandleIndex: Sendable {
    private let index = Lock<InodeIndex?>(nil)
    /// Counts the names that this mount gives or moves: after the call to the store, and also before one that moves.
    private let givenNames = Atomic<UInt64>(0)
    private let root: BackingDirectory
    private let inode: UInt64
    private let isShared: Bool

    /// - Parameter inode: the root's.
    init(of root: BackingDirectory, inode: UInt64, isShared: Bool) {
        (self.root, self.inode, self.isShared) = (root, inode, isShared)
    }

    /// Counts a name that this mount has given, or is about to move.
    func noteName() { givenNames.add(1, ordering: .releasing) }

    /// Looks an inode up under each of its names, until `open` finds the object.
    /// - Parameter open: gets the inodes from the root (not included) down to this one.
    func find<Object>(_ inode: UInt64, _ open: (_ path: [UInt64]) -> Object?) -> Object? {
        func find(in index: InodeIndex) -> Object? {
            for path in index.paths(to: inode) {
                if let object = open(path) { return object }
            }
            return nil
        }
        return index.withLock { index in
            if let index, let object = find(in: index) { return object }
            // A removed object is missed each time it is asked for. Only new names are a reason to list everything again
            // at once. A program that changes the store itself has to wait for a moment.
            let names = givenNames.load(ordering: .acquiring)
            if let index, index.isComplete, index.givenNames == names, index.isNew, !isShared { return nil }
            let made = InodeIndex(of: root, inode: self.inode, givenNames: names)
            index = made
            return find(in: made)
        }
    }
}
