// One object that the kernel knows: its identity, its place in the backing store, and its open content.

package import BackingStore
internal import FileContents
internal import HostSystem
internal import Synchronization
package import VolumeFormat

/// The identity of an inode of the backing store. Two names with equal keys are hard links to one object.
package struct InodeKey: Hashable, Sendable {
    var device: UInt64
    var inode: UInt64

    /// The inode of an object.
    package init(_ status: Status) {
        device = status.device
        inode = status.inode
    }
}

/// The place of an object: its directory and its encoded name there.
package struct Place: Sendable, Hashable {
    /// The directory.
    package var parent: Node
    /// The name in the store.
    package var name: EntryName

    /// A place.
    package init(parent: Node, name: EntryName) {
        self.parent = parent
        self.name = name
    }

    /// Whether both are the same.
    package static func == (one: Place, other: Place) -> Bool {
        one.parent === other.parent && one.name == other.name
    }

    /// Hashes both parts.
    package func hash(into hasher: inout Hasher) {
        hasher.combine(ObjectIdentifier(parent))
        hasher.combine(name)
    }
}

/// One object of a volume. Each inode has one node, however many names it has.
///
/// Holds no descriptor unless its last name is gone. Identity never changes; everything else is guarded by `state`.
package final class Node: Sendable {
    /// The number by which the kernel knows the node; 1 for the root. No other node has it before the kernel forgets this
    /// one.
    package let number: UInt64
    /// Tells the node from later ones with its number, in file handles.
    package let generation: UInt32
    /// Counts the nodes of a mount; later ones have higher numbers.
    let serial: UInt64
    /// The kind of object.
    package let kind: NodeKind
    /// The store's inode.
    package let key: InodeKey
    /// The state that only directories have.
    package let directory: DirectoryState?
    let state: InPlaceLock<NodeState>
    /// The class's number (0 if not read yet) and `pagesBit`. Replies read it without a lock.
    let classAndPages: Atomic<UInt8>
    let nodesWithCachedPages: NodesWithCachedPages

    init(
        number: NodeNumber, serial: UInt64, kind: NodeKind, key: InodeKey, place: Place?,
        nodesWithCachedPages: NodesWithCachedPages
    ) {
        self.number = number.number
        generation = number.generation
        self.serial = serial
        self.kind = kind
        self.key = key
        directory = kind == .directory ? DirectoryState() : nil
        state = InPlaceLock(NodeState(place: place))
        classAndPages = Atomic(0)
        self.nodesWithCachedPages = nodesWithCachedPages
    }

    deinit {
        guard directory != nil else { return }
        // Not by one call for each directory above, because a stack has an end.
        var next = takeParent()
        while next != nil, isKnownUniquelyReferenced(&next) { next = next?.takeParent() }
    }

    private func takeParent() -> Node? { state.withLock { $0.place.take()?.parent } }

    /// The inode number of the backing store, which programs see.
    package var inode: UInt64 { key.inode }

    /// The class of a regular file; nil when it has not been read yet, which replies treat as class A.
    package var protectionClass: ProtectionClass? {
        ProtectionClass(rawValue: classAndPages.load(ordering: .acquiring) & ~Self.pagesBit)
    }

    /// Handles that programs have open on the file.
    package var openHandles: Int { state.withLock { $0.handles - $0.ownHandles } }
    /// Handles open for writing.
    package var writableHandles: Int { state.withLock { $0.writableHandles } }
    /// Whether the last name is gone.
    var isUnlinked: Bool { state.withLock { $0.isUnlinked } }
}

/// The changing part of a node.
struct NodeState: Sendable {
    /// The place; nil for the root, and when no known name is left.
    var place: Place?
    /// Further names of a hard-linked file, which can be many thousands.
    var otherPlaces: Set<Place> = []
    /// A handle that keeps a nameless inode reachable until it is forgotten.
    var pin: UnlinkedInodeHandle?
    /// The content, while a handle is open.
    var content: FileContent?
    var handles = 0
    /// Those of `handles` that the volume has for a call of its own. They do not keep a key through a lock.
    var ownHandles = 0
    var writableHandles = 0
    /// The number of times the file was opened for writing.
    var writableOpens = 0
    /// The file ID in the header, once read.
    var fileID: ObjectID?
    /// The length of a link's target, if it is an overflow object and was read.
    var longTargetLength: UInt64?
    /// Removes the attribute record of a node without a name.
    var overflowAtEnd: OverflowAtEnd?
    /// The class and flags at the last close, which this mount had proven. Every change of class goes through an open
    /// content.
    var verified: VerifiedClass?
    /// Length and time when the file was last seen closed; nil if it is not known or a change is under way.
    var lastSeen: LengthAndTime?
    /// The open content's backing file could only be opened for reading: the store is read-only.
    var isReadOnlyBelow = false
    /// Set when the inode has no name left.
    var isUnlinked = false
    /// Another inode, or another node of the same one, has taken its place. An open must look the name up again.
    var isSuperseded = false
    /// A copy is about to take the inode's place, and holds its stripe until that is decided.
    var isBeingReplaced = false
    /// A copy has taken the inode's place. It is superseded then, too.
    var isReplaced = false
    /// The number of changes of mode, owner, times, flags and attributes. Not every store's change time tells two of them apart.
    var metadataChanges: UInt64 = 0
    /// The number of times that someone has asked for a class of the file, also for the one that it had.
    var classChoices: UInt64 = 0
    /// The backing name does not decrypt: status and unlink work, opening does not.
    var isUndecryptable = false
    /// Whether the file may have set-ID bits or capabilities that a write must clear; nil if not known.
    var mayHavePrivileges: Bool?
    var attributes = KnownAttributes()

    init(place: Place?) {
        self.place = place
    }
}

/// Counts the descriptors that nameless nodes hold, and limits them. Otherwise deleting a large tree could use up all
/// descriptors.
final class PinCount: Sendable {
    private let count = Atomic<Int>(0)
    let limit: Int
    private let isShort: @Sendable () -> Bool

    /// - Parameter isShort: whether descriptors are scarce.
    init(limit: Int, isShort: @escaping @Sendable () -> Bool) {
        self.limit = limit
        self.isShort = isShort
    }

    /// Makes a pin; nil if there are too many.
    func pin(_ make: () throws(Errno) -> BackingNode) -> UnlinkedInodeHandle? {
        guard count.load(ordering: .relaxed) < limit, !isShort(), let node = try? make() else { return nil }
        count.add(1, ordering: .relaxed)
        return UnlinkedInodeHandle(node, self)
    }

    fileprivate func release() {
        count.subtract(1, ordering: .relaxed)
    }
}

/// A handle on an inode without a name.
final class UnlinkedInodeHandle: Sendable {
    let node: BackingNode
    private let count: PinCount

    fileprivate init(_ node: BackingNode, _ count: PinCount) {
        self.node = node
        self.count = count
    }

    deinit { count.release() }
}

extension NodeState {
    /// Counts a handle.
    mutating func count(writable: Bool, isOwn: Bool = false) {
        handles += 1
        if isOwn { ownHandles += 1 }
        if writable {
            writableHandles += 1
            writableOpens += 1
            lastSeen = nil
        }
    }

    /// Takes a handle back.
    mutating func uncount(writable: Bool, isOwn: Bool = false) {
        handles -= 1
        if isOwn { ownHandles -= 1 }
        if writable { writableHandles -= 1 }
    }
}
