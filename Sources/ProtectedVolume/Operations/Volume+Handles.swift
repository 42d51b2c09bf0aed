// Opens, shares and closes the content of files, and wipes its keys at a lock.

package import BackingStore
package import FileContents
internal import HostSystem
package import KeyFiles
internal import Keybag
internal import VolumeFormat

extension Volume {
    /// Opens a regular file's content, or returns the open one. The caller must call `release` for it.
    ///
    /// An empty file of class completeUnlessOpen can be opened for writing in every state: it holds nothing that the class
    /// protects. It gets a new key if its own is not in memory.
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
        if writable || truncate { expectChanges(of: content, node) }
        guard truncate else { return content }
        forgetLastSeen(node)
        do throws(VolumeError) {
            // An empty file may have been opened while its class is closed.
            try content.truncate(to: 0, access: opensEmpty(content) ? .handleSize : .open)
            try? clearPrivileges(of: node, setID: setID)
            return content
        } catch {
            release(node, writable: writable)
            throw error
        }
    }

    /// Notes that an existing file was opened for writing.
    private func expectChanges(of content: FileContent, _ node: Node) {
        guard !content.isListed, let parent = node.state.withLock({ $0.place?.parent }) else { return }
        let above = parent.state.withLock { $0.place?.parent }
        guard let reach = expectedChanges.note(directory: parent.number, above: above?.number),
            let directory = try? directory(parent)
        else { return }
        expectedChanges.list(
            directory, besideIn: reach == .beside ? above.flatMap { try? self.directory($0) } : nil)
    }

    /// Retains the content of an open file, in every state of the volume and without using its key. It serves a handle
    /// that only makes the kernel write back the data of programs. The caller must call `release` for it, as not
    /// writable.
    ///
    /// - Throws: `.stale` if the file is not open.
    package func retainForWriteBack(_ node: Node) throws(VolumeError) {
        nodes.hold(node)
        let isOpen = opened.stripe(node).withLock { _ in
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
    package func release(_ node: Node, writable: Bool) { release(node, writable: writable, isOwn: false) }

    private func release(_ node: Node, writable: Bool, isOwn: Bool) {
        let mayBeChanged = writable || node.state.withLock { $0.writableOpens > 0 }
        defer {
            // Before the node can be forgotten.
            if mayBeChanged { noteChange(node) }
            nodes.unhold(node)
        }
        opened.stripe(node).withLock { _ in releaseLocked(node, writable: writable, isOwn: isOwn) }
    }

    /// `release` with the stripe held.
    private func releaseLocked(_ node: Node, writable: Bool, isOwn: Bool) {
        let (content, isLast, known) = node.state.withLock { state -> (FileContent?, Bool, LengthAndTime?) in
            state.uncount(writable: writable, isOwn: isOwn)
            let known = state.lastSeen
            // The following changes are our own.
            if state.handles == 0 { state.lastSeen = nil }
            let concernsLooks = state.handles == 0 || writable && state.writableHandles == 0
            return (concernsLooks ? state.content : nil, state.handles == 0, known)
        }
        guard let content else { return wipeIfUnopened(node) }
        // A failure keeps the epoch open. No caller can receive the error.
        let settled = try? content.settle()
        // A file that was only read since keeps its lastSeen, so the next open detects changes by other programs.
        // Our own mark is no change by another program.
        let looks =
            content.takeMark()
            ? lastSeen(of: content) : known ?? settled ?? lastSeen(of: content)
        if isLast { trueSizes.settle(content.size, of: node.key) }
        node.state.withLock { state in
            if isLast {
                state.content = nil
                state.verified = VerifiedClass(content.header)
            }
            state.lastSeen = looks
        }
        guard isLast else { return wipeIfUnopened(node) }
        opened.remove(node)
        content.wipeKeys()
    }

    private func lastSeen(of content: FileContent) -> LengthAndTime? {
        (try? content.backing.status()).map { LengthAndTime($0) }
    }

    /// Runs `body` with the content, which is open during the call.
    package func withContent<Result>(
        _ node: Node, writable: Bool, _ body: (FileContent) throws(VolumeError) -> Result
    ) throws(VolumeError) -> Result {
        let content = try retain(node, writable: writable, isOwn: true)
        defer { release(node, writable: writable, isOwn: true) }
        return try body(content)
    }

    /// Runs `body` with the content of a file that is open, in every state of the volume.
    ///
    /// - Returns: nil if the file is not open, or can only be read.
    func withOpenContent<Result>(
        _ node: Node, _ body: (FileContent) throws(VolumeError) -> Result
    ) throws(VolumeError) -> Result? {
        nodes.hold(node)
        let content = opened.stripe(node).withLock { _ -> FileContent? in
            guard let content = node.state.withLock({ $0.content }),
                (try? requireChangeable(content, of: node)) != nil
            else { return nil }
            node.state.withLock { $0.count(writable: true, isOwn: true) }
            return content
        }
        guard let content else {
            nodes.unhold(node)
            return nil
        }
        defer { release(node, writable: true, isOwn: true) }
        return try body(content)
    }

    /// - Parameter isOwn: the handle is the volume's own, for one call.
    private func retain(_ node: Node, writable: Bool, isOwn: Bool = false) throws(VolumeError) -> FileContent {
        guard node.kind == .file else { throw node.kind == .directory ? .refused(.EISDIR) : .notSupported }
        nodes.hold(node)
        if writable { waitForOtherWriters(of: node) }
        do throws(VolumeError) {
            if options.isShared { try refreshOpen(node) }
            return try content.patiently { () throws(VolumeError) -> FileContent? in
                do throws(VolumeError) {
                    return try keys.storing { () throws(VolumeError) in
                        try retainLocked(node, writable: writable, isOwn: isOwn)
                    }
                } catch {
                    guard options.isShared, error == .heldElsewhere else { throw error }
                    return nil
                }
            }
        } catch {
            if !isOwn, error == .stale { leaveWhenClosed(node) }
            nodes.unhold(node)
            throw error
        }
    }

    /// `retain` with the node held. A file without a header gets one in memory.
    ///
    /// - Throws: `.heldElsewhere` instead of waiting for another machine with the stripe.
    private func retainLocked(_ node: Node, writable: Bool, isOwn: Bool) throws(VolumeError) -> FileContent {
        try opened.stripe(node).withLock { (_) throws(VolumeError) -> FileContent in
            if node.state.withLock({ $0.isSuperseded }) { throw .stale }
            if let content = node.state.withLock({ $0.content }) {
                if !writable || !opensEmpty(content) || isOpenForWriting(node) {
                    try judgeOpen(content.protectionClass)
                }
                if content.owesLateRecords { try late.apply(to: content) }
                // A call of the volume's own has opened it.
                if !isOwn, trueSizes.wereWrong(for: node) { throw .stale }
                if writable { try requireChangeable(content, of: node) }
                node.state.withLock { $0.count(writable: writable, isOwn: isOwn) }
                do throws(VolumeError) { try requireKept(content) } catch {
                    node.state.withLock { $0.uncount(writable: writable, isOwn: isOwn) }
                    throw error
                }
                return content
            }
            let (content, isRenewed) = try openContent(node, writable: writable)
            do throws(VolumeError) {
                // It stays loose until the node has it, and no longer: a lock wipes it by other rules then.
                defer { self.content.looseKeys.end(content) }
                if writable { try requireChangeable(content, of: node) }
                guard attach(content, to: node, writable: writable, isOwn: isOwn) else { throw .stale }
            } catch {
                content.wipeKeys()
                throw error
            }
            do throws(VolumeError) {
                if isRenewed {
                    // With late records the file is not empty. They cannot be applied while the class is closed.
                    if late.mayOwe(content.fileID) { throw .locked(content.protectionClass) }
                } else {
                    // If a lock came while the file was being opened, it has not visited this content.
                    try judgeOpen(content.protectionClass)
                    if options.isReadOnly {
                        try late.requireKnown(for: content)
                    } else {
                        try applyLateRecords(to: content, node)
                    }
                }
            } catch {
                detach(node, writable: writable, isOwn: isOwn)
                throw error
            }
            if !isOwn, trueSizes.wereWrong(for: node) {
                // With the stripe held, so that no open that comes at the same time finds the content and keeps the node.
                releaseLocked(node, writable: writable, isOwn: isOwn)
                leaveIfClosed(node)
                throw .stale
            }
            return content
        }
    }

    /// Refuses a handle for writing on a file that can only be read.
    private func requireChangeable(_ content: FileContent, of node: Node) throws(VolumeError) {
        if node.state.withLock({ $0.isReadOnlyBelow }) { throw .readOnly }
        if (try? content.backing.flags())?.contains(.immutable) == true { throw .refused(.EPERM) }
        try content.requireChangeable()
    }

    func judgeOpen(_ protectionClass: ProtectionClass) throws(VolumeError) {
        try keys.withState { (held) throws(VolumeError) in
            guard Access.isAllowed(.open, class: protectionClass, state: held.state(of: protectionClass)) else {
                throw .locked(protectionClass)
            }
        }
    }

    /// Opens the content of a file that is not open. It stays among the loose keys.
    ///
    /// - Returns: also whether the file was empty and closed, and has got a new key.
    private func openContent(
        _ node: Node, writable: Bool
    ) throws(VolumeError) -> (content: FileContent, isRenewed: Bool) {
        if node.state.withLock({ $0.isUndecryptable }) { throw damaged(.name, node) }
        let (backing, isReadOnly) = try openBackingAsPossible(node)
        node.state.withLock { $0.isReadOnlyBelow = isReadOnly }
        let parent = node.state.withLock { $0.place?.parent }
        let inherited = try parent.map { (parent) throws(VolumeError) in try classWithoutHeader(in: parent) }
        let status = try below { () throws(Errno) in try backing.statusWhenOpened() }
        var isRenewed = false
        let opened: FileContent
        do throws(VolumeError) {
            opened = try FileContent.open(
                in: content, backing: backing, status, inheritedClass: inherited ?? options.defaultClass,
                staysLoose: true, waits: false)
        } catch {
            guard writable, !isReadOnly, case .locked = error,
                let empty = try openEmpty(node, backing, status)
            else { throw error }
            opened = empty
            isRenewed = true
        }
        // Comes first, so that a node made after another file's has the true size. The kernel looks a name up again
        // only once.
        compareSize(of: opened, node, backingLength: status.size)
        opened.noteAccessTime(status)
        do throws(VolumeError) { try checkIdentity(opened.fileID, of: node) } catch {
            content.looseKeys.end(opened)
            throw error
        }
        node.remember(class: opened.protectionClass)
        return (opened, isRenewed)
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
    package func openBacking(_ node: Node) throws(VolumeError) -> BackingFile {
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
        opened.stripe(node).withLock { _ in
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
    private func attach(_ content: FileContent, to node: Node, writable: Bool, isOwn: Bool = false) -> Bool {
        let isTaken = node.state.withLock { state in
            guard !state.isSuperseded else { return false }
            state.content = content
            state.count(writable: writable, isOwn: isOwn)
            return true
        }
        guard isTaken else { return false }
        opened.insert(node)
        if content.isUnmended { self.content.mending.tell() }
        return true
    }

    private func detach(_ node: Node, writable: Bool, isOwn: Bool) {
        let content = node.state.withLock { state -> FileContent? in
            state.uncount(writable: writable, isOwn: isOwn)
            let content = state.content
            state.content = nil
            return content
        }
        opened.remove(node)
        content?.wipeKeys()
    }

    // MARK: empty files of class B

    /// Whether an open file is an empty one that can be opened for writing in every state. Its key is in memory.
    func opensEmpty(_ content: FileContent) -> Bool {
        content.protectionClass == .completeUnlessOpen && content.size == 0 && content.hasKey && !options.isShared
            && !content.owesLateRecords
    }

    /// Whether the kernel may hold data for a file that it has not written yet. Then the file may only seem to be empty.
    func isOpenForWriting(_ node: Node) -> Bool { node.state.withLock { $0.writableHandles > 0 } }

    /// Waits at most a second if only the handles of others keep an empty file from being opened: the kernel releases a handle some
    /// time after the program has closed it.
    func waitForOtherWriters(of node: Node) {
        guard let content = node.state.withLock({ $0.content }), isOpenForWriting(node), opensEmpty(content),
            (try? judgeOpen(content.protectionClass)) == nil
        else { return }
        opened.waitForOthers(milliseconds: 1000) { isOpenForWriting(node) && opensEmpty(content) }
    }
}
