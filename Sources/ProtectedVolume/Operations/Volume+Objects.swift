// Finds the object of a node in the store, and the node of an object; notices objects that have changed places or contents.

package import BackingStore
internal import FileContents
internal import HostSystem
package import KeyFiles
internal import VolumeFormat

extension Volume {
    // MARK: the object of a node

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

    // MARK: the object of a file handle, for which the kernel asks by the names `.` and `..`

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

    // MARK: changes by other programs

    /// Whether to look for external changes. They matter without `-o shared`, because the kernel then caches a file's
    /// pages and attributes for a long time.
    private var looksForChanges: Bool { !options.isShared }

    /// Remembers length and time of a closed file if none are known yet.
    func noteLastSeen(_ node: Node, _ status: Status) {
        guard looksForChanges, node.kind == .file else { return }
        node.state.withLock { state in
            if state.handles == 0, state.lastSeen == nil { state.lastSeen = LengthAndTime(status) }
        }
    }

    /// Whether the store is known to have this modification time of a file that nobody has open.
    package func hasTime(_ node: Node, _ time: Timestamp) -> Bool {
        node.state.withLock { state in
            guard state.handles == 0, state.content == nil, let known = state.lastSeen else { return false }
            return known.isUnmarked && known.modified == time
        }
    }

    /// Forgets length and time while our own change is under way; `noteLastSeen` or the last release follows.
    func forgetLastSeen(_ node: Node) {
        node.state.withLock { $0.lastSeen = nil }
    }

    /// Abandons a closed file's node, and returns true, if another program has changed the file.
    ///
    /// The kernel keeps the pages and the size of an inode that it knows. So the file gets a new node, and with it a
    /// new inode. The old one cannot be opened any more. The lookup after ESTALE finds the new one.
    func leaveIfChanged(_ node: Node, _ status: Status) -> Bool {
        guard looksForChanges, node.kind == .file else { return false }
        let isLeft = node.state.withLock { state in
            guard let known = state.lastSeen, known != LengthAndTime(status), state.handles == 0 else { return false }
            state.isSuperseded = true
            return true
        }
        if isLeft { nodes.replaced(node) }
        return isLeft
    }

    /// The entry of a name just looked up or listed.
    func seen(_ status: Status, in parent: Node, _ name: EntryName) throws(VolumeError) -> Entry {
        let status = try compare(status, in: parent, name)
        let entry = try entry(status, in: parent, name)
        noteLastSeen(entry.node, status)
        return entry
    }

    /// Abandons a known node whose file was changed. Reads `status` again first: our own change may have come between.
    private func compare(_ status: Status, in parent: Node, _ name: EntryName) throws(VolumeError) -> Status {
        guard looksForChanges, let node = nodes.known(InodeKey(status)), node.kind == .file,
            node.state.withLock({ $0.handles == 0 && $0.lastSeen.map { $0 != LengthAndTime(status) } ?? false })
        else { return status }
        guard let again = try self.status(of: name, in: directory(parent)) else { throw .noEntry }
        if InodeKey(again) == node.key { _ = leaveIfChanged(node, again) }
        return again
    }

    /// Finds what another machine has changed in a file that is open here: its class, above all. Waits for that machine,
    /// so it must not be called with the stripe, on which the opens of other files wait.
    func refreshOpen(_ node: Node) throws(VolumeError) {
        guard let content = content(of: node) else { return }
        defer {
            // It was closed meanwhile, and its keys were wiped.
            if self.content(of: node) !== content { content.wipeKeys() }
        }
        do throws(VolumeError) { try content.refresh(always: true) } catch {
            // Else it is opened anew.
            if self.content(of: node) === content { throw error }
        }
    }

    // MARK: wrong sizes

    /// Remembers a file's true size, if the backing file's length gives another one.
    func compareSize(of opened: FileContent, _ node: Node, backingLength: UInt64) {
        guard !options.isShared else { return }
        let size = opened.size
        trueSizes.compare(
            size, of: node.key, backingLength: backingLength,
            isTold: content.geometry.size(backingLength: backingLength) == size, before: nodes.nextSerial)
    }

    /// Applies a file's late records while it is opened. They may change the size, which the kernel may know from before.
    func applyLateRecords(to opened: FileContent, _ node: Node) throws(VolumeError) {
        let size = opened.size
        guard try late.apply(to: opened) else { return }
        forgetLastSeen(node)
        guard !options.isShared, opened.size != size else { return }
        let status = try below { () throws(Errno) in try opened.backing.status() }
        trueSizes.remember(opened.size, of: node.key, backingLength: status.size, before: nodes.nextSerial)
    }

    /// Forgets the true size of a file that nothing opens again.
    package func forgetTrueSize(of node: Node) { trueSizes.forget(node.key) }

    /// Abandons the node unless its content is open: a file must never have two open contents.
    func leaveIfClosed(_ node: Node) {
        let isLeft = node.state.withLock { state in
            guard state.handles == 0 else { return false }
            state.isSuperseded = true
            return true
        }
        if isLeft { nodes.replaced(node) }
    }

    /// Abandons the node of a file that showed a wrong size, and that a call of the volume's own has open. Waits briefly for
    /// that call: as long as the node is known, the kernel finds it again, and its second ESTALE goes to the program.
    func leaveWhenClosed(_ node: Node) {
        guard trueSizes.wereWrong(for: node) else { return }
        opened.waitForOthers(milliseconds: 500) { node.state.withLock { $0.handles > 0 && !$0.isSuperseded } }
        leaveIfClosed(node)
    }

    // MARK: new copies

    /// Throws `.stale` if a copy has taken the inode's place: what is changed here would be lost. The kernel then looks the name
    /// up again and repeats a call by path; a call by an open handle fails. Called before a change of metadata.
    func requireCurrent(_ node: Node) throws(VolumeError) {
        if isReplaced(node) { throw .stale }
    }

    /// The same after a change of metadata. A copy that was made of what was there before is given up.
    func settleChange(of node: Node) throws(VolumeError) {
        if isReplacedAfterChange(node) { throw .stale }
    }

    /// Tells a copy that is being made that metadata has changed, and asks whether one has taken the inode's place already.
    func isReplacedAfterChange(_ node: Node) -> Bool {
        node.state.withLock { $0.metadataChanges += 1 }
        return isReplaced(node)
    }

    /// Whether a copy has taken the inode's place. Waits until one that is about to has done so, or has given up. Do not call it
    /// with a stripe.
    private func isReplaced(_ node: Node) -> Bool {
        let (isBeingReplaced, isReplaced) = node.state.withLock { ($0.isBeingReplaced, $0.isReplaced) }
        guard isBeingReplaced else { return isReplaced }
        return opened.stripe(node).withLock { _ in node.state.withLock { $0.isReplaced } }
    }

    /// Throws `.stale` for an inode that another one has replaced and that no program has open, so that it is looked up again.
    func requireShown(_ node: Node) throws(VolumeError) {
        if node.state.withLock({ $0.isSuperseded && $0.handles == 0 }) { throw .stale }
    }

    /// Whether an entry still belongs to the object that had this status; for nil, whether it is still free.
    func isSame(_ entry: EntryName, in directory: BackingDirectory, _ before: Status?) throws(VolumeError) -> Bool {
        try status(of: entry, in: directory)?.inode == before?.inode
    }
}
