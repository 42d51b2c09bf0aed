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

    /// Coming back opens so many at once, so walks of deep trees do not take many more calls.
    private static let mostOpen = 64

    private let top: BackingDirectory
    private var levels: [Level] = []

    /// A way that begins at `top`.
    package init(from top: BackingDirectory) { self.top = top }

    /// Goes down into a directory of the deepest one.
    package mutating func enter(_ entry: DirectoryEntry) throws(Errno) {
        let directory = try directory().openDirectory(entry.name)
        levels.append(Level(name: entry.name, inode: entry.inode, directory: directory))
        if levels.count > Self.mostOpen { levels[levels.count - 1 - Self.mostOpen].directory = nil }
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
            if index >= levels.count - Self.mostOpen { levels[index].directory = current }
        }
        return current
    }
}
