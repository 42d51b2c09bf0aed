// The way from the top of a tree down to the directory that a walk is in, for trees of any depth.

package import HostSystem

/// Directories one in another, of which only the deepest are open. What was closed is opened again when a walk comes back to it.
/// For one thread.
package struct Descent {
    private struct Level {
        let name: EntryName
        let inode: UInt64
        var directory: BackingDirectory?
    }

    /// How many of the deepest directories are open. Coming back opens so many at once.
    private static let deepestOpen = 32
    /// How many of those above them are open, too. They are spread over the whole way, so coming back does not begin at its top.
    private static let mostMarks = 32

    private let top: BackingDirectory
    private var levels: [Level] = []
    /// The distance from one open directory above to the next.
    private var stride = 1

    /// A way that begins at `top`.
    package init(from top: BackingDirectory) { self.top = top }

    /// Goes down into a directory of the deepest one.
    package mutating func enter(_ entry: DirectoryEntry) throws(Errno) {
        add(Level(name: entry.name, inode: entry.inode, directory: try directory().openDirectory(entry.name)))
    }

    /// Goes down into a directory of the deepest one that the caller has opened.
    package mutating func enter(_ name: EntryName, _ directory: BackingDirectory) throws(Errno) {
        add(Level(name: name, inode: try directory.status().inode, directory: directory))
    }

    private mutating func add(_ level: Level) {
        levels.append(level)
        let above = levels.count - 1 - Self.deepestOpen
        guard above >= 0 else { return }
        if !isOpen(above) { levels[above].directory = nil }
        guard above / stride >= Self.mostMarks else { return }
        stride *= 2
        for index in 0...above where !isOpen(index) { levels[index].directory = nil }
    }

    /// Whether a level stays open at this depth.
    private func isOpen(_ index: Int) -> Bool {
        index % stride == 0 || index >= levels.count - Self.deepestOpen
    }

    /// Goes up.
    package mutating func leave() { _ = levels.popLast() }

    /// The deepest directory.
    ///
    /// - Throws: ENOENT if it was moved or replaced while it was closed.
    package mutating func directory() throws(Errno) -> BackingDirectory {
        guard let deepest = levels.last else { return top }
        if let open = deepest.directory { return open }
        var start = levels.count - 1
        while start > 0, levels[start - 1].directory == nil { start -= 1 }
        var current = start > 0 ? levels[start - 1].directory ?? top : top
        for index in start..<levels.count {
            current = try current.openDirectory(levels[index].name)
            guard try current.status().inode == levels[index].inode else { throw .ENOENT }
            if isOpen(index) { levels[index].directory = current }
        }
        return current
    }
}
