// A mounted volume as plain Swift calls, for a mount or any other front end.

package import BackingStore
internal import CLibrary
package import FileContents
package import KeyFiles
package import Keybag
internal import HostSystem
internal import SodiumKit
internal import VolumeFormat

/// The result of a lookup: an object and its attributes. One more lookup is counted on the node.
package struct Entry: Sendable {
    /// The object.
    package let node: Node
    /// As they are after the lookup.
    package let attributes: Attributes
}

/// A mounted volume. Thread-safe. `NodeTable.swift` has the lock order.
package final class Volume: Sendable {
    /// Class keys and the lock's state.
    package let keys: KeyRing
    /// The options of the volume.
    package let options: VolumeOptions
    /// The volume's root.
    package var root: Node { nodes.root }
    /// The volume's directory in the store.
    package var rootDirectory: BackingDirectory { directories.root }
    /// The state that open files share.
    package let content: ContentContext

    /// Encrypts its names.
    package let names: NameCipher
    /// What has no room in its own object.
    package let overflow: OverflowObjects
    let nodes: NodeTable
    let directories: DirectoryCache
    let pins: PinCount
    /// What was changed and not synced; nil if syncfs(2) of the store makes everything durable.
    private let unsynced: UnsyncedNodes?
    /// The directories in which existing files were opened for writing.
    let expectedChanges: ExpectedChanges
    /// The classes of files that have just lost their names.
    let recentlyFreed = RecentlyFreedNames()
    /// The new copies of files that are made, and that have taken their names.
    package let copies = Copies()
    /// Locks for changes of encrypted attributes.
    let attributeStripes = Stripes()
    /// The nodes with open content, for a lock.
    let opened = OpenContents()
    /// The files whose backing length does not give their size.
    let trueSizes = TrueSizes()
    /// The directories of the store's inodes, for file handles.
    let handles: HandleIndex
    /// The entries that were looked for last among names of the store that do not decrypt, or cannot be verified.
    let shownNames = RecentListings<ShownNames>(room: ShownNames.most)
    /// The records that were found set aside in directories.
    let recordsAside = RecentListings<[RecordAside]>(room: RecordAside.mostKept)
    /// Whether new objects get the caller as owner. Only root can do that.
    let givesOwnership = Credentials.isRoot
    let notices: Notices
    /// Is told of each directory whose names became others in the store.
    private let renewalHandler = Lock<(@Sendable (Node) -> Void)?>(nil)
    /// The writes that came after a lock.
    package let late: LateRecords

    /// Opens the volume in `directory`, whose keybag gave `keys`, and claims it for one mount.
    ///
    /// - Parameters:
    ///   - state: the file in which this machine keeps the open epochs. Nil only for a volume that is not written.
    ///   - report: is called from any thread, with locks held. It must be quick and must not call the volume.
    /// - Throws: `.refused(.EBUSY)` if another mount has claimed the volume.
    package static func open(
        directory: BackingDirectory, keys: KeyRing, state: StateFileStore?, options: VolumeOptions,
        report: @escaping @Sendable (VolumeNotice) -> Void = { _ in }
    ) throws(VolumeError) -> Volume {
        try claim(directory, options)
        return try Volume(directory: directory, keys: keys, state: state, options: options, report: report)
    }

    /// The same for a directory that is claimed already.
    ///
    /// - Parameter living: gives the epochs of mounts that live, which have not ended badly. It is called after the state file
    ///   has been read.
    package convenience init(
        directory: BackingDirectory, keys: KeyRing, state: StateFileStore?, options: VolumeOptions,
        living: () -> Set<UInt32> = { [] }, report: @escaping @Sendable (VolumeNotice) -> Void
    ) throws(VolumeError) {
        let known = try state?.load()?.layout
        let mounted = known?.openEpochs.isEmpty ?? true ? [] : living()
        let tolerance: CrashTolerance =
            if options.isStrict {
                .nothing
            } else if options.recovers || options.isShared || known?.toleratesEverything ?? true {
                .everything
            } else {
                .byEpoch
            }
        let epochs = EpochLog(
            endedBadly: (known?.openEpochs ?? []).filter { !mounted.contains($0) },
            highest: known?.highestEpoch ?? 0, tolerance: tolerance,
            record: state.map { EpochRecord($0, listsChanges: tolerance != .everything && directory.keepsIdentity) }
                ?? .none())
        // Machines that write at the same time write page 0 under their own epochs in turn.
        let seen = options.isShared || known == nil ? nil : state
        // The clean end of a session makes it; a volume whose first session crashed has none.
        let isExpected = known.map { $0.highestEpoch > 0 && !$0.openEpochs.contains($0.highestEpoch) } ?? false
        try self.init(
            directory: directory, keys: keys, epochs: epochs, states: state,
            seen: { seen?.seenVersions(isWritable: !options.isReadOnly, isExpected: isExpected, report: $0) },
            options: options, report: report)
    }

    /// A volume whose parts are open already. The caller has claimed `directory`.
    init(
        directory: BackingDirectory, keys: KeyRing, epochs: EpochLog, states: StateFileStore? = nil,
        seen: (@escaping @Sendable (SeenTableFault) -> Void) -> SeenVersions? = { _ in nil }, options: VolumeOptions,
        report: @escaping @Sendable (VolumeNotice) -> Void = { _ in }
    ) throws(VolumeError) {
        let status: Status
        do throws(Errno) { status = try directory.status() } catch { throw .store(error) }
        self.keys = keys
        self.options = options
        let notices = Notices(report: report)
        self.notices = notices
        let reserved: BackingDirectory
        do throws(Errno) { reserved = try directory.reserved() } catch { throw .store(error) }
        late = LateRecords(root: reserved, states: states, keys: keys, isShared: options.isShared) {
            notices.tell(.late(number: $0, $1))
        }
        names = NameCipher(
            keys: keys.metadata, longestDirect: NameLimits.longestDirect(inStoreWith: directory.longestName()))
        overflow = OverflowObjects(root: reserved, keys: keys.metadata) { (id) throws(VolumeError) in
            try epochs.begin()
            try epochs.changed.cover(ChangedFiles.entry(of: id))
        }
        content = ContentContext(
            keys: keys, epochs: epochs, options: options, cutNeedsSync: !directory.keepsOrder,
            seen: seen { notices.tell(.seenTable($0)) },
            report: { notices.tell(.crashEvidence($0)) }, reportNewer: { notices.tellNewer($0, inode: $1) },
            reportOlder: { notices.tellOlder(inode: $0) })
        expectedChanges = ExpectedChanges(of: epochs.changed)
        handles = HandleIndex(of: directory, inode: InodeKey(status).inode, isShared: options.isShared)
        // Uses at most a quarter of the process's descriptors.
        let limit = min(Self.descriptorLimit() / 4, 2048)
        nodes = NodeTable(
            root: Node(
                number: .root, serial: 0, kind: .directory, key: InodeKey(status), place: nil,
                nodesWithCachedPages: NodesWithCachedPages()))
        directories = DirectoryCache(root: directory, of: nodes.root, capacity: limit)
        pins = PinCount(limit: limit) { directory.isShort }
        // Weak, because the cache has the directory.
        directory.whenShort { [weak directories] in directories?.removeAll() }
        unsynced = directory.syncsWhole || options.isReadOnly ? nil : UnsyncedNodes(of: nodes)
        // The volume was mounted with a passphrase or without device key, so no unlock will follow.
        if keys.state == .unlocked { takeLateRecords() }
    }

    /// Claims the volume's directory for a mount. The claim is shared for read-only and shared mounts, else exclusive.
    ///
    /// - Throws: `.refused(.EBUSY)` if another mount has claimed it. The claim ends when `directory` closes.
    package static func claim(_ directory: BackingDirectory, _ options: VolumeOptions) throws(VolumeError) {
        do throws(Errno) {
            try directory.lock(exclusive: !(options.isReadOnly || options.isShared))
        } catch {
            throw error == .EAGAIN ? .refused(.EBUSY) : .store(error)
        }
    }

    private static func descriptorLimit() -> Int {
        var limit = rlimit()
        guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 1024 }
        return Int(min(limit.rlim_cur, 65536))
    }

    // MARK: nodes

    /// The node with a number that a lookup returned; nil once it is forgotten.
    package func node(_ number: UInt64) -> Node? { nodes.node(number) }

    /// Takes `count` lookups back.
    package func forget(_ node: Node, count: UInt64) {
        nodes.forget(node, count: count)
        if node.kind == .directory, !nodes.knows(node) { directories.remove(node.serial) }
    }

    /// The nodes of classes A and B that may have pages in the kernel's cache. A lock visits them all.
    package var nodesWithCachedPages: [Node] { nodes.withCachedPages.all.compactMap { nodes.node($0) } }

    /// The numbers of the regular files that the kernel knows now.
    package var knownFiles: [UInt64] { nodes.files }

    /// The number of nodes that the kernel knows now.
    package var knownNodeCount: Int { nodes.count }

    /// Sets a function that is told of each directory whose names became others, because another program has replaced its
    /// record. It is called from any thread that uses the directory, and must be quick.
    package func whenRenewed(_ body: @escaping @Sendable (Node) -> Void) {
        renewalHandler.withLock { $0 = body }
    }

    func tellRenewed(_ node: Node) { renewalHandler.withLock { $0 }?(node) }

    // MARK: late records

    /// Handles a write from the page cache after its keys are gone. Seals it as a late record, or writes it to the file
    /// if an unlock has come meanwhile. It is durable after `synchronize`, and in the store after `persistLateRecords`.
    package func writeLate(_ data: Span<UInt8>, at offset: UInt64, to content: FileContent) throws(VolumeError) {
        // No unlock could write it to the file.
        let (end, overflow) = offset.addingReportingOverflow(UInt64(data.count))
        guard !overflow, end <= self.content.geometry.maximumSize else { throw .refused(.EFBIG) }
        while true {
            if let log = late.current {
                if try log.append(data, to: content.fileID, at: offset, keys) { return }
                // An unlock is applying the records. The write will be an ordinary one soon.
                keys.waitWhileOpening()
            }
            do throws(VolumeError) {
                return try content.write(data, at: offset, access: .writeBack)
            } catch {
                guard case .locked = error, late.current != nil || keys.isOpening else { throw error }
            }
        }
    }

    /// Writes late records that wait in memory to the store. Quick if there are none.
    package func persistLateRecords() throws(VolumeError) {
        if let log = late.current, log.hasUnwritten { try log.persist() }
    }

    /// Whether late records wait to be written to the store.
    package var hasLateRecordsInMemory: Bool { late.current?.hasUnwritten ?? false }

    /// The number of late records of the current lock.
    package var lateRecordCount: Int { late.current?.count ?? 0 }

    /// Waits until a file's late records are in the file or durable. fsync(2) needs this.
    func synchronizeLateRecords(of content: FileContent?) throws(VolumeError) {
        if let content, content.owesLateRecords, keys.state == .unlocked { try late.apply(to: content) }
        guard let content else { return }
        try late.synchronize(recordsOf: content.fileID)
    }

    /// Installs keys. Open files get their late records before anything else is allowed, other files before they are
    /// opened.
    package func unlock(
        with given: consuming VolumeKeys, onlyIfUnlocked: Bool = false
    ) throws(KeyError) -> UnlockOutcome {
        try keys.unlock(with: given, onlyIfUnlocked: onlyIfUnlocked) { takeLateRecords() }
    }

    /// Runs with the keys in memory, before the classes are open.
    func takeLateRecords() {
        if options.isReadOnly {
            late.look()
        } else {
            // An inode that a change of class has replaced has the same ID as its successor. The records belong to the
            // successor.
            late.unlock {
                opened.all.filter { !$0.state.withLock { $0.isSuperseded } }
                    .compactMap { content(of: $0) }
            }
        }
    }

    // MARK: mending

    /// Mends a part of each open file whose middle waits; false if none can be mended now.
    ///
    /// - Parameter mayGoOn: is called between two holds. If it returns false, the round ends.
    package func mendSome(mayGoOn: () -> Bool) -> Bool {
        var isWaiting = false
        for node in opened.all {
            guard mayGoOn() else { return false }
            guard self.content(of: node)?.canBeMended == true else { continue }
            // Uses a handle of its own, so that the keys are wiped with the last handle.
            let isUnfinished = try? withContent(node, writable: false) { (content) throws(VolumeError) -> Bool in
                defer { node.state.withLock { $0.lastSeen = nil } }
                for _ in 0..<16 where mayGoOn() {
                    if try !content.mendSome() { return false }
                }
                return true
            }
            if isUnfinished == true { isWaiting = true }
        }
        return isWaiting
    }

    // MARK: syncing and closing

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

    /// Notes that a file or directory was changed. Call it after the change, without a lock.
    func noteChange(_ node: Node) {
        content(of: node)?.forgetAccessLook()
        guard let unsynced, node.kind == .file || node.kind == .directory else { return }
        unsynced.insert(node)
        guard unsynced.beginSettling() else { return }
        // Crash damage must stay tolerated in what could not be synced. No caller can receive the error.
        do throws(VolumeError) {
            try unsynced.synchronize(where: { $0.state.withLock { $0.content == nil } }) { (node) throws(VolumeError) in
                try synchronizeInStore(node)
            }
        } catch { content.epochs.keepOpen() }
        unsynced.endSettling()
    }

    /// Makes everything durable that this mount has changed, on a store whose syncfs(2) does not. Does nothing on others.
    ///
    /// - Throws: the store's first error; the rest is synced nevertheless.
    package func synchronizeChanges() throws(VolumeError) {
        try unsynced?.synchronize { (node) throws(VolumeError) in try synchronizeInStore(node) }
    }

    private func synchronizeInStore(_ node: Node) throws(VolumeError) {
        do throws(VolumeError) {
            if node.kind == .directory {
                let directory = try directory(node)
                return try below { () throws(Errno) in try directory.synchronize() }
            }
            let file = if let content = content(of: node) { content.backing } else { try openBacking(node) }
            try below { () throws(Errno) in try file.synchronize(dataOnly: false) }
        } catch {
            // What has no name needs no sync, and with another object this mount has nothing to do. ESTALE is what a network file
            // system says of an object that another machine has removed.
            let isGone = error == .noEntry || error == .store(.ENOENT) || error == .store(.ESTALE)
            guard node.isUnlinked || error == .stale || isGone else { throw error }
        }
    }

    /// Makes everything durable and closes the epoch. For a clean unmount, when no handle is open.
    package func close() throws(VolumeError) {
        var failure: VolumeError?
        // What cannot be made durable must not keep the rest from being so. The epoch then stays open.
        func attempt(_ step: () throws(VolumeError) -> Void) {
            do throws(VolumeError) { try step() } catch { failure = failure ?? error }
        }
        if !options.isReadOnly { attempt { () throws(VolumeError) in try late.synchronize() } }
        for node in opened.all {
            attempt { () throws(VolumeError) in try node.state.withLock({ $0.content })?.settle() }
            noteChange(node)
        }
        if !options.isReadOnly {
            // Comes first on every store: it writes the kernel's pages in few large requests.
            attempt { () throws(VolumeError) in
                try below { () throws(Errno) in try rootDirectory.synchronizeStore() }
            }
            attempt { () throws(VolumeError) in try synchronizeChanges() }
        }
        if let failure { throw failure }
        guard !options.isReadOnly else { return }
        // While an epoch is open, versions below it may be a crash's.
        content.seen?.settle()
        try content.epochs.close()
    }

    // MARK: helpers

    /// Throws EROFS in a mount that is read-only.
    package func requireWritable() throws(VolumeError) {
        if options.isReadOnly { throw .readOnly }
    }

    /// Reports damage and returns the error to throw.
    func damaged(_ damage: Damage, _ node: Node) -> VolumeError {
        notices.tell(.damaged(damage, inode: node.inode))
        return .damaged(damage)
    }

    /// Reports an object that a newer version has made, and returns the error to throw.
    func newer(_ object: Damage, inode: UInt64) -> VolumeError {
        notices.tellNewer(object, inode: inode)
        return .newer(object)
    }
}
