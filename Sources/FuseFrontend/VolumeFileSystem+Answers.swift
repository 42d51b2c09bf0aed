// Answers to the kernel: nodes, attributes, their timeouts, and the reason of a refusal.

internal import BackingStore
internal import FileContents
internal import FuseBridge
internal import HostSystem
internal import KeyFiles
internal import Keybag
internal import ProtectedVolume
internal import Synchronization
internal import VolumeFormat

/// Flags of open(2), as Linux numbers them on every architecture that Swift runs on.
enum OpenFlags {
    static let accessMode: Int32 = 3
    static let readOnly: Int32 = 0
    static let writeOnly: Int32 = 1
    static let truncate: Int32 = 0o1000
    static let append: Int32 = 0o2000
    static let exclusive: Int32 = 0o200
    #if arch(arm64) || arch(arm)
        /// O_DIRECT, which is not the same number everywhere.
        static let direct: Int32 = 0o200000
    #else
        /// O_DIRECT, which is not the same number everywhere.
        static let direct: Int32 = 0o40000
    #endif
    /// O_DSYNC, and what O_SYNC has besides it.
    static let (synchronizesData, synchronizesAll): (Int32, Int32) = (0o10000, 0o4000000)
    /// O_NOATIME.
    static let leavesAccessTime: Int32 = 0o1000000

    /// Whether a READ through a handle with these flags is a program's. A handle that cannot read sends READ to fill a page before
    /// a write.
    static func isAccess(_ flags: Int32) -> Bool {
        flags & accessMode != writeOnly && flags & leavesAccessTime == 0
    }
}

extension FuseBridge.Entry {
    /// The answer that the name does not exist.
    static func missing(timeout: Double) -> FuseBridge.Entry {
        FuseBridge.Entry(
            node: 0, generation: 0, attributes: FuseBridge.Attributes(), attributeTimeout: 0, entryTimeout: timeout)
    }
}

extension Caller {
    init(_ request: borrowing Request) {
        self.init(user: request.user, group: request.group, mask: request.umask)
    }
}

extension Handle {
    func reply(keepCache: Bool) -> OpenReply {
        OpenReply(handle: number, directIO: isDirect, keepCache: keepCache)
    }
}

extension FileSystemStatus {
    init(_ statistics: StoreStatistics) {
        self.init()
        blockSize = max(1, statistics.fragmentSize)
        blocks = statistics.blocks
        freeBlocks = statistics.blocksFree
        availableBlocks = statistics.blocksAvailable
        files = statistics.files
        freeFiles = statistics.filesFree
        nameLimit = statistics.nameLength
    }
}

extension FuseBridge.Timestamp {
    init(_ time: BackingStore.Timestamp) {
        self.init(seconds: time.seconds, nanoseconds: time.nanoseconds)
    }
}

extension VolumeFileSystem {
    /// Whether other machines write to the same volume. Cache lifetimes are then short, and there is no write-back cache.
    var isShared: Bool { volume.options.isShared }

    /// The settings asked of the kernel.
    var connection: RequestedCapabilities {
        var wishes = RequestedCapabilities()
        wishes.maximumWrite = calls.limits.requestSize
        wishes.asynchronousDirectIO = calls.canDropPages
        // Before 6.16 a page has 4,096 bytes, which is some 25 entries of READDIRPLUS and 128 of READDIR.
        wishes.choosesListing = KernelVersion.running.map { $0 < KernelVersion(6, 16) } ?? true
        guard isShared else { return wishes }
        // Other machines change the volume, so the kernel may neither own size and time nor keep cached data.
        wishes.writeBackCache = false
        wishes.explicitInvalidation = false
        // Each use of a file's name looks it up.
        wishes.listedAttributes = false
        wishes.cacheSymlinks = false
        wishes.noOpendir = false
        wishes.remoteLocks = true
        return wishes
    }

    /// How long the kernel may believe facts that only its own requests can change, in seconds (a day).
    static let long = 86_400.0
    /// The same if other machines write too.
    static let short = 1.0

    /// The node for a number of the kernel's.
    func node(_ number: NodeID) throws(VolumeError) -> Node {
        guard let node = volume.node(number) else { throw .stale }
        return node
    }

    /// Looks a name up. `.` and `..` come for file handles only: the object with that number, and its directory.
    func entry(_ number: NodeID, _ name: Span<UInt8>) throws(VolumeError) -> ProtectedVolume.Entry {
        if name.equals(".") { return try volume.object(number) }
        if name.equals("..") { return try volume.parent(of: node(number)) }
        return try volume.lookup(name, in: node(number))
    }

    /// Whether handles of `node` are closed now. An unread class counts as class A.
    func isClosed(_ node: Node) -> Bool {
        guard node.kind == .file else { return false }
        let counted = node.protectionClass ?? .complete
        return !Access.isAllowed(.handleSize, class: counted, state: volume.keys.state(of: counted))
    }

    /// How long attributes may be believed, in seconds (rule 2 of the lock sequence). 0 means for one look.
    func attributeTimeout(_ node: Node, afterChange: Bool = false) -> Double {
        if mustAskBeforeWrite(node) { return 0 }
        let usual = isShared ? Self.short : Self.long
        if node.kind == .file, times.isBehind(node.number) { return 0 }
        let counted = node.protectionClass ?? .complete
        guard node.kind == .file, counted.cutsOffHandles else { return usual }
        if !isShared, afterChange, node.protectionClass != nil { return 0 }
        return volume.keys.state(of: counted) == .unlocked ? usual : 0
    }

    /// How long a name may be believed. On a shared mount the name of a file is looked up each time, which also brings its size and
    /// time: so an open finds what another machine has closed before.
    func entryTimeout(_ node: Node) -> Double { isShared ? node.kind == .directory ? Self.short : 0 : Self.long }
    var negativeTimeout: Double { isShared ? 0 : Self.long }

    /// Attributes changed as the options ask.
    private func shown(_ attributes: ProtectedVolume.Attributes) -> FuseBridge.Attributes {
        var result = FuseBridge.Attributes()
        result.inode = attributes.inode
        let mask = options.mask ?? 0
        result.mode = attributes.kind.fileKind.modeBits | (attributes.mode & ~mask)
        result.links = attributes.links
        result.owner = options.user ?? attributes.owner
        result.group = options.group ?? attributes.group
        result.device = attributes.device
        result.size = Int64(clamping: attributes.size)
        result.blocks = Int64(clamping: attributes.blocks)
        result.blockSize = Int(clamping: attributes.blockSize)
        result.accessed = FuseBridge.Timestamp(attributes.accessed)
        result.modified = FuseBridge.Timestamp(attributes.modified)
        result.changed = FuseBridge.Timestamp(attributes.changed)
        return result
    }

    /// The attributes of a node, for an answer that is given at once.
    func shown(_ attributes: ProtectedVolume.Attributes, of node: Node) -> FuseBridge.Attributes {
        if isShared, node.kind == .file {
            files.file(node.number)?.toldSize.store(attributes.size, ordering: .releasing)
        }
        return shown(attributes)
    }

    func shown(_ entry: ProtectedVolume.Entry, afterChange: Bool = false) -> FuseBridge.Entry {
        FuseBridge.Entry(
            node: entry.node.number, generation: UInt64(entry.node.generation),
            attributes: shown(entry.attributes, of: entry.node),
            attributeTimeout: attributeTimeout(entry.node, afterChange: afterChange),
            entryTimeout: entryTimeout(entry.node))
    }

    /// Answers with an entry whose lookup the volume has counted. Takes the lookup back if the kernel did not take the answer.
    func answer(_ entry: ProtectedVolume.Entry, afterChange: Bool = false, _ reply: consuming Reply) {
        if !reply.entry(shown(entry, afterChange: afterChange)) { volume.forget(entry.node, count: 1) }
    }

    /// Answers with the entry that `body` makes.
    func answer(
        _ reply: consuming Reply, afterChange: Bool = false,
        _ body: () throws(VolumeError) -> ProtectedVolume.Entry
    ) {
        do throws(VolumeError) {
            let entry = try body()
            answer(entry, afterChange: afterChange, reply)
        } catch {
            reply.error(error.errno.rawValue)
        }
    }

    /// Answers a request without data.
    func finish(_ reply: consuming Reply, _ body: () throws(VolumeError) -> Void) {
        do throws(VolumeError) {
            try body()
            reply.success()
        } catch {
            reply.error(error.errno.rawValue)
        }
    }

    /// The errno for a program. If the lock is the reason, it is logged once for the file and the process. Damage of content is
    /// an event.
    func refusal(
        _ error: VolumeError, _ number: NodeID, _ request: borrowing Request, _ verb: StaticString
    ) -> Int32 {
        refusal(error, number, of: request.process, verb)
    }

    /// The same, after the request's handler has returned.
    func refusal(_ error: VolumeError, _ number: NodeID, of process: Int32, _ verb: StaticString) -> Int32 {
        if case .locked(let protectionClass) = error, !calls.isOwn(process) {
            refusals.refused(node: number, process: process) {
                "volume is \(volume.keys.state.attributeValue), class \(protectionClass.canonicalName): refused to "
                    + "\(verb) \(describe(number))"
            }
        }
        if case .damaged(let damage) = error, damage.isOfContent, let node = volume.node(number) {
            events(.damaged(damage, inode: node.inode))
        }
        return error.errno.rawValue
    }

    /// A node's inode number, which `ls -i` and `find -inum` show, or its path if the log may hold names.
    func describe(_ number: NodeID) -> String {
        guard let node = volume.node(number) else { return "a file that is gone" }
        guard options.logsNames, let path = volume.path(of: node) else { return "inode \(node.inode)" }
        let text = path.map { String(decoding: $0, as: UTF8.self) }.joined(separator: "/")
        // Control characters would let a file's name forge lines of the log.
        return "\"/" + String(String.UnicodeScalarView(text.unicodeScalars.map { $0.value < 32 ? "?" : $0 })) + "\""
    }

    /// Packs a directory's entries until the buffer is full.
    /// - Returns: the nodes whose lookups were counted.
    func list(
        _ node: Node, from cookie: UInt64, attributes: ListedAttributes, into buffer: inout DirectoryBuffer
    ) throws(VolumeError) -> [Node] {
        var given: [Node] = []
        do throws(VolumeError) {
            try volume.list(node, from: cookie, attributes: attributes) { listed in
                guard buffer.hasRoom(nameLength: listed.name.count) else { return false }
                let next = Int64(bitPattern: listed.next)
                if let entry = listed.entry {
                    buffer.append(name: listed.name, entry: shown(entry), next: next)
                    given.append(entry.node)
                    return true
                }
                // With number 0 the kernel looks the name up itself when a program wants more.
                var bare = FuseBridge.Entry.missing(timeout: 0)
                bare.attributes.inode = listed.inode
                bare.attributes.mode = listed.kind?.fileKind.modeBits ?? 0
                buffer.append(name: listed.name, entry: bare, next: next)
                return true
            }
        } catch {
            // The kernel gets an error and none of them.
            for node in given { volume.forget(node, count: 1) }
            throw error
        }
        return given
    }
}

extension Damage {
    /// Whether it is in a file's header, blocks or late records, of which the volume gives no notice.
    fileprivate var isOfContent: Bool {
        switch self {
        case .header, .wrap, .block, .length, .zeroPage, .missingHeader, .late: true
        case .name, .companion, .record, .missingRecord, .symlink, .attribute, .kind, .older: false
        }
    }
}
