// Finds the backing object of a node through cached directory descriptors, and verifies that it is the same object.

package import BackingStore
internal import FileContents
internal import HostSystem
package import KeyFiles
internal import VolumeFormat

extension Volume {
    /// The backing directory of a directory's node.
    package func directory(_ node: Node) throws(VolumeError) -> BackingDirectory {
        try directories.directory(of: node)
    }

    /// Runs `body` with the directory and backing name of a node, after checking that the object there is the node's.
    /// ESTALE if it is not and no other name is known.
    func reach<Result>(
        _ node: Node, _ body: (BackingDirectory, EntryName, Status) throws(VolumeError) -> Result
    ) throws(VolumeError) -> Result {
        var attempts = 0
        while let place = node.state.withLock({ $0.place }) {
            let found = try self.directory(place.parent)
            if let status = try status(of: place.name, in: found), InodeKey(status) == node.key {
                return try body(found, place.name, status)
            }
            // A directory of the path or this name was moved, or the store was changed from outside.
            directories.waitForMoves()
            attempts += 1
            let isSame = node.state.withLock { $0.place == place }
            if isSame, attempts > 1, !nodes.forgetPlace(place, of: node) { break }
            if attempts > 8 { break }
        }
        throw .stale
    }

    /// The status of an entry; nil if it does not exist.
    package func status(of name: EntryName, in directory: BackingDirectory) throws(VolumeError) -> Status? {
        do throws(Errno) {
            return try directory.status(of: name)
        } catch {
            if error == .ENOENT { return nil }
            throw .store(error)
        }
    }

    /// A handle on the node's object, named or not.
    package func backing(_ node: Node) throws(VolumeError) -> BackingNode {
        if node.kind == .directory, !node.isUnlinked { return try directory(node) }
        let (content, pin) = node.state.withLock { ($0.content, $0.pin) }
        if let content { return content.backing }
        if let pin { return pin.node }
        // Only if this is another object, the node is looked for.
        if let place = node.state.withLock({ $0.place }), let handle = try? directory(place.parent).node(place.name),
            let status = try? handle.status(), InodeKey(status) == node.key
        {
            return handle
        }
        return try reach(node) { (directory, name, status) throws(VolumeError) in
            let handle = try below { () throws(Errno) in try directory.node(name) }
            guard try InodeKey(below { () throws(Errno) in try handle.status() }) == node.key else {
                throw .stale
            }
            return handle
        }
    }

    /// The backing status of a node.
    func status(_ node: Node) throws(VolumeError) -> Status {
        if node === root { return try below { () throws(Errno) in try rootDirectory.status() } }
        let (content, pin) = node.state.withLock { ($0.content, $0.pin) }
        if let content { return try below { () throws(Errno) in try content.backing.status() } }
        if let pin { return try below { () throws(Errno) in try pin.node.status() } }
        return try reach(node) { (_, _, status) throws(VolumeError) in status }
    }

    /// The attributes of a node. Reads no content.
    package func attributes(of node: Node) throws(VolumeError) -> Attributes {
        try requireShown(node)
        return attributes(node, try status(node))
    }

    func attributes(_ node: Node, _ status: Status) -> Attributes {
        var size: UInt64?
        if node.kind == .file {
            let open = node.state.withLock { $0.content }
            size = open?.size(backingLength: status.size) ?? trueSizes.size(of: node.key, backingLength: status.size)
        } else if node.kind == .symlink, status.size == LongTarget.storedLength {
            size = lengthOfLongTarget(of: node)
        }
        var attributes = Attributes(status, kind: node.kind, geometry: content.geometry, knownSize: size)
        if let time = node.directory?.contents.withLock({ $0.timeOfLastChange }) { attributes.modified = time }
        return attributes
    }

    /// Makes an entry for an object just seen, and counts its lookup.
    ///
    /// - Parameter isNew: whether the object was just created. A known node with its inode number is then stale, for
    ///   example because another program has removed its file below the mount.
    package func entry(
        _ status: Status, in parent: Node, _ name: EntryName, isNew: Bool = false
    ) throws(VolumeError) -> Entry {
        guard let kind = NodeKind(status.kind) else { throw damaged(.kind, parent) }
        if isNew, let old = nodes.known(InodeKey(status)) { nodes.replaced(old) }
        let node = nodes.remember(status, kind: kind, at: Place(parent: parent, name: name))
        return Entry(node: node, attributes: attributes(node, status))
    }
}
