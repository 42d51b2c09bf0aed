// Finds objects by the numbers of file handles, which the kernel asks for by the names `.` and `..`.

internal import BackingStore
internal import FileContents
internal import HostSystem
package import KeyFiles
internal import VolumeFormat

extension Volume {
    /// The object with a node's number, with one lookup counted. ESTALE if there is none.
    ///
    /// The kernel has forgotten the node, or another mount has given the number. Then only the inode's number is known, so
    /// its directory is looked for in `HandleIndex`. The kernel compares the generation.
    package func object(_ number: UInt64) throws(VolumeError) -> Entry {
        if let node = nodes.node(number) {
            // The kernel asks for what it has forgotten. Without a name that is gone, though a close may still be on its way.
            guard !node.isUnlinked else { throw .stale }
            if nodes.countLookup(node) { return try counted(node) }
        }
        guard let inode = NodeNumber.inode(ofLasting: number) else { throw .stale }
        guard let entry = handles.find(inode, { find(number, at: $0) }) else { throw .stale }
        return entry
    }

    /// The directory that contains a directory, with one lookup counted.
    package func parent(of node: Node) throws(VolumeError) -> Entry {
        guard node.kind == .directory else { throw .refused(.ENOTDIR) }
        let parent = node.state.withLock { $0.place?.parent } ?? root
        guard nodes.countLookup(parent) else { throw .stale }
        return try counted(parent)
    }

    /// An entry for a node whose lookup is counted already.
    private func counted(_ node: Node) throws(VolumeError) -> Entry {
        do throws(VolumeError) {
            return Entry(node: node, attributes: try attributes(of: node))
        } catch {
            forget(node, count: 1)
            throw error
        }
    }

    /// The object at a path of inodes if it has this number, with one lookup counted.
    private func find(_ number: UInt64, at path: [UInt64]) -> Entry? {
        guard let entry = try? descend(path) else { return nil }
        if entry.node.number == number { return entry }
        forget(entry.node, count: 1)
        return nil
    }

    /// Looks the inodes of a path up, one below the other. Counts a lookup of the last one.
    private func descend(_ path: [UInt64]) throws(VolumeError) -> Entry? {
        var found: Entry?
        for inode in path {
            let above = found?.node ?? root
            defer { if above !== root { forget(above, count: 1) } }
            guard let next = try entry(withInode: inode, in: above) else { return nil }
            found = next
        }
        return found
    }

    private func entry(withInode inode: UInt64, in parent: Node) throws(VolumeError) -> Entry? {
        let directory = try directory(parent)
        var name: EntryName?
        try below { () throws(Errno) in
            try directory.forEachEntry { entry in
                guard entry.inode == inode, !ReservedName.kind(of: entry.name.bytes.span).isHidden else { return true }
                name = entry.name
                return false
            }
        }
        guard let name, let status = try status(of: name, in: directory) else { return nil }
        let entry = try seen(status, in: parent, name)
        if case .undecryptable = decode(name, in: directory, try directoryID(parent)) {
            entry.node.state.withLock { $0.isUndecryptable = true }
        }
        return entry
    }
}
