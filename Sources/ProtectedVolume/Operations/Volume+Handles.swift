// Opens, shares and closes the content of files, and wipes its keys at a lock.

internal import BackingStore
internal import Keybag
internal import HostSystem
internal import VolumeFormat

extension Volume {
    /// Opens a regular file's content, or returns the open one. The caller must call `release` for it.
    ///
    /// - Parameters:
    ///   - truncate: whether the file is emptied (O_TRUNC).
    ///   - setID: the set-ID bits that emptying it clears.
    /// - Throws: `.locked` if the class is closed, even if the file is open elsewhere.
    package func open(
        _ node: Node, writable: Bool, truncate: Bool = false, clearing setID: UInt32 = 0
    ) throws(VolumeError) -> FileContent {
        if writable || truncate { try requireWritable() }
        let content = try retain(node, writable: writable)
        if showedWrongSize(node) {
            release(node, writable: writable)
            leaveIfClosed(node)
            throw .stale
        }
        if writable || truncate { expectChanges(of: content, node) }
        guard truncate else { return content }
        forgetLastSeen(node)
        do throws(VolumeError) {
            try content.truncate(to: 0, access: .open)
            try? clearPrivileges(of: node, setID: setID)
            return content
        } catch {
            release(node, writable: writable)
            throw error
        }
    }

    /// Retains the content of an open file, in every state of the volume and without using its key. It serves a handle
    /// that only makes the kernel write back the data of programs. The caller must call `release` for it, as not
    /// writable.
    ///
    /// - Throws: `.stale` if the file is not open.
    package func retainForWriteBack(_ node: Node) throws(VolumeError) {
        nodes.hold(node)
        let isOpen = stripe(node).withLock { _ in
            node.state.withLock { state in
                guard state.content != nil else { return false }
                state.count(writable: false)
                return true
            }
        }
        guard isOpen else {
            nodes.unhold(node)
            throw .stale
        }
    }

    /// The shared content of an open file.
    package func content(of node: Node) -> FileContent? { node.state.withLock { $0.content } }

    /// Ends one `open` or `create`. After the last one the content is closed and its keys are wiped.
    package func release(_ node: Node, writable: Bool) {
        let mayBeChanged = writable || node.state.withLock { $0.writableOpens > 0 }
        defer {
            // Before the node can be forgotten.
            if mayBeChanged { noteChange(node) }
            nodes.unhold(node)
        }
        stripe(node).withLock { _ in
            let (content, isLast, known) = node.state.withLock { state -> (FileContent?, Bool, LengthAndTime?) in
                state.handles -= 1
                if writable { state.writableHandles -= 1 }
                let known = state.lastSeen
                // The following changes are our own.
                if state.handles == 0 { state.lastSeen = nil }
                let concernsLooks = state.handles == 0 || writable && state.writableHandles == 0
                return (concernsLooks ? state.content : nil, state.handles == 0, known)
            }
            guard let content else { return }
            // A failure keeps the epoch open. No caller can receive the error.
            let settled = try? content.settle()
            // A file that was only read since keeps its lastSeen, so the next open detects changes by other programs.
            let looks = known ?? settled ?? lastSeen(of: content)
            node.state.withLock { state in
                if isLast {
                    state.content = nil
                    state.verified = VerifiedClass(content.header)
                }
                state.lastSeen = looks
            }
            guard isLast else { return }
            opened.withLock { $0[node.number] = nil }
            content.wipeKeys()
        }
    }

    private func lastSeen(of content: FileContent) -> LengthAndTime? {
        (try? content.backing.status()).map { LengthAndTime($0) }
    }

    /// Runs `body` with the content, which is open during the call.
    func withContent<Result>(
        _ node: Node, writable: Bool, _ body: (FileContent) throws(VolumeError) -> Result
    ) throws(VolumeError) -> Result {
        let content = try retain(node, writable: writable)
        do throws(VolumeError) {
            let result = try body(content)
            release(node, writable: writable)
            return result
        } catch {
            release(node, writable: writable)
            throw error
        }
    }

    private func retain(_ node: Node, writable: Bool) throws(VolumeError) -> FileContent {
        guard node.kind == .file else { throw node.kind == .directory ? .refused(.EISDIR) : .notSupported }
        nodes.hold(node)
        do throws(VolumeError) {
            return try stripe(node).withLock { (_) throws(VolumeError) -> FileContent in
                if node.state.withLock({ $0.isSuperseded }) { throw .stale }
                if let content = node.state.withLock({ $0.content }) {
                    try judgeOpen(content.protectionClass)
                    if content.owesLateRecords { try late.apply(to: content) }
                    if writable { try requireChangeable(content, of: node) }
                    count(node, writable: writable)
                    return content
                }
                let content = try openContent(node)
                if writable {
                    do throws(VolumeError) { try requireChangeable(content, of: node) } catch {
                        content.wipeKeys()
                        throw error
                    }
                }
                guard attach(content, to: node, writable: writable) else {
                    content.wipeKeys()
                    throw .stale
                }
                do throws(VolumeError) {
                    // If a lock came while the file was being opened, it has not visited this content.
                    try judgeOpen(content.protectionClass)
                    if options.isReadOnly {
                        try late.requireKnown(for: content)
                    } else {
                        try applyLateRecords(to: content, node)
                    }
                } catch {
                    detach(node, writable: writable)
                    throw error
                }
                return content
            }
        } catch {
            nodes.unhold(node)
            throw error
        }
    }

    /// Refuses a handle for writing on a file that can only be read.
    private func requireChangeable(_ content: FileContent, of node: Node) throws(VolumeError) {
        if node.state.withLock({ $0.isReadOnlyBelow }) { throw .readOnly }
        if (try? content.backing.flags())?.contains(.immutable) == true { throw .refused(.EPERM) }
        try content.requireChangeable()
    }

    private func judgeOpen(_ protectionClass: ProtectionClass) throws(VolumeError) {
        try keys.withState { (held) throws(VolumeError) in
            guard Access.isAllowed(.open, class: protectionClass, state: held.state) else {
                throw .locked(protectionClass)
            }
        }
    }

    private func openContent(_ node: Node) throws(VolumeError) -> FileContent {
        if node.state.withLock({ $0.isUndecryptable }) { throw damaged(.name, node) }
        let (backing, isReadOnly) = try openBackingAsPossible(node)
        node.state.withLock { $0.isReadOnlyBelow = isReadOnly }
        let parent = node.state.withLock { $0.place?.parent }
        let inherited = try parent.map { (parent) throws(VolumeError) in try classWithoutHeader(in: parent) }
        let status = try below { () throws(Errno) in try backing.statusWhenOpened() }
        let opened = try FileContent.open(
            in: content, backing: backing, status, inheritedClass: inherited ?? options.defaultClass)
        // Comes first, so that a node made after another file's has the true size. The kernel looks a name up again
        // only once.
        compareSize(of: opened, node, backingLength: status.size)
        opened.noteAccessTime(status)
        try checkIdentity(opened.fileID, of: node)
        node.remember(class: opened.protectionClass)
        return opened
    }

    /// A changed file ID under the same inode number means another file.
    func checkIdentity(_ id: ObjectID, of node: Node) throws(VolumeError) {
        let isSame = node.state.withLock { state in
            guard let known = state.fileID else {
                state.fileID = id
                return true
            }
            return known == id
        }
        guard isSame else {
            nodes.replaced(node)
            throw .stale
        }
    }

    /// The backing file of a node, opened for reading and writing if the mount allows it, because all handles share it.
    func openBacking(_ node: Node) throws(VolumeError) -> BackingFile {
        try openBackingAsPossible(node).file
    }

    private func openBackingAsPossible(_ node: Node) throws(VolumeError) -> (file: BackingFile, isReadOnly: Bool) {
        let access: FileAccess = options.isReadOnly ? .readOnly : .readWrite
        do throws(VolumeError) {
            return (try openBackingOnce(node, access), options.isReadOnly)
        } catch {
            switch error {
            case .store(.ELOOP), .store(.ENXIO), .store(.EISDIR): throw damaged(.kind, node)
            case .store(.EMFILE), .store(.ENFILE):
                directories.removeAll()
                return (try openBackingOnce(node, access), options.isReadOnly)
            case .store(.EROFS) where access == .readWrite, .store(.EPERM) where access == .readWrite:
                // The store has become read-only under the mount, for example after an error, or the file is immutable in a
                // way that this daemon cannot change. Files stay readable.
                return (try openBackingOnce(node, .readOnly), true)
            default: throw error
            }
        }
    }

    private func openBackingOnce(_ node: Node, _ access: FileAccess) throws(VolumeError) -> BackingFile {
        if let pin = node.state.withLock({ $0.pin }) {
            return try below { () throws(Errno) in try pin.node.openFile(access) }
        }
        // Only if this is another object, or does not open, the node is looked for.
        if let place = node.state.withLock({ $0.place }),
            let file = try? directory(place.parent).openFile(place.name, access),
            let status = try? file.statusWhenOpened(), InodeKey(status) == node.key
        {
            return try requireUnchanged(file, status, node)
        }
        return try reach(node) { (directory, name, _) throws(VolumeError) in
            let file = try below { () throws(Errno) in try directory.openFile(name, access) }
            let status = try below { () throws(Errno) in try file.statusWhenOpened() }
            guard InodeKey(status) == node.key else { throw .stale }
            return try requireUnchanged(file, status, node)
        }
    }

    private func requireUnchanged(
        _ file: BackingFile, _ status: Status, _ node: Node
    ) throws(VolumeError) -> BackingFile {
        if leaveIfChanged(node, status) { throw .stale }
        return file
    }

    // MARK: counting

    /// Attaches the content of a file that was just made with this mode in `parent`.
    func attachNew(_ content: FileContent, to node: Node, mode: UInt32, in parent: Node) {
        nodes.hold(node)
        let hasDefaultACL = parent.directory?.contents.withLock { $0.hasDefaultACL }
        let isPlain = mode & 0o6000 == 0 && !options.isShared
        stripe(node).withLock { _ in
            node.state.withLock { state in
                state.fileID = content.fileID
                state.attributes.noteNew(hasACL: hasDefaultACL == false ? false : nil)
                state.mayHavePrivileges = isPlain ? false : nil
                state.isSuperseded = false
            }
            _ = attach(content, to: node, writable: true)
        }
    }

    /// Makes `content` the node's; false if the node was abandoned meanwhile.
    private func attach(_ content: FileContent, to node: Node, writable: Bool) -> Bool {
        let isTaken = node.state.withLock { state in
            guard !state.isSuperseded else { return false }
            state.content = content
            state.count(writable: writable)
            return true
        }
        guard isTaken else { return false }
        opened.withLock { $0[node.number] = node }
        if content.isUnmended { self.content.mending.tell() }
        return true
    }

    private func count(_ node: Node, writable: Bool) {
        node.state.withLock { $0.count(writable: writable) }
    }

    private func detach(_ node: Node, writable: Bool) {
        let content = node.state.withLock { state -> FileContent? in
            state.handles -= 1
            if writable { state.writableHandles -= 1 }
            let content = state.content
            state.content = nil
            return content
        }
        opened.withLock { $0[node.number] = nil }
        content?.wipeKeys()
    }

    func stripe(_ node: Node) -> Lock<Void> { stripes[Int(node.number % UInt64(stripes.count))] }

    // MARK: durability

    /// Syncs a file, for fsync(2). Syncs records and companions on its path once, then the file.
    package func synchronize(_ node: Node, dataOnly: Bool) throws(VolumeError) {
        var directory = node.state.withLock { $0.place?.parent }
        while let current = directory {
            try synchronizeRecords(current)
            directory = current.state.withLock { $0.place?.parent }
        }
        if let content = content(of: node) { try content.synchronize(dataOnly: dataOnly) }
        try synchronizeLateRecords(of: content(of: node))
    }

    private func synchronizeRecords(_ node: Node) throws(VolumeError) {
        guard let state = node.directory else { return }
        let (changes, synced) = state.contents.withLock { ($0.changes, $0.syncedChanges) }
        guard changes != synced else { return }
        let directory = try self.directory(node)
        try below { () throws(Errno) in try directory.synchronize() }
        state.contents.withLock { $0.syncedChanges = max($0.syncedChanges, changes) }
    }

    /// Syncs a directory, for fsync(2). Of a removed one nothing is left to sync.
    package func synchronizeDirectory(_ node: Node) throws(VolumeError) {
        guard !node.isUnlinked else { return }
        node.directory?.setNeedsSync()
        try synchronize(node, dataOnly: false)
        try synchronizeRecords(node)
    }
}

extension NodeState {
    fileprivate mutating func count(writable: Bool) {
        handles += 1
        if writable {
            writableHandles += 1
            writableOpens += 1
            lastSeen = nil
        }
    }
}
