// The nodes that the kernel knows, by number and by backing inode, with their reference counts.
//
// Lock order (outermost first), for Nodes and Operations: the inode index → directories' `structure` locks (smaller serial
// number first) → a file's stripe in OpenContents → Copies → KeyRing's state lock → NodeTable → Node.state →
// DirectoryState.contents, DirectoryCache, OpenContents. Only the first four are held across the backing store's I/O. A thread must not take the
// KeyRing's state lock while it holds an inner one: the thread that has the exclusive side visits the nodes, and
// `LooseKeys`, to wipe keys.

internal import BackingStore
internal import HostSystem

/// All known nodes of a mount.
final class NodeTable: Sendable {
    private struct Slot {
        let node: Node
        /// The number of lookups that the kernel has not forgotten.
        var lookups: UInt64 = 0
        /// The number of places of known nodes in this directory, and of open contents.
        var holds = 0
    }

    private struct Contents {
        var byNumber: [UInt64: Slot] = [:]
        var byInode: [InodeKey: UInt64] = [:]
        var nextSerial: UInt64 = 1
        /// Directories that were removed with the last node in them, that node's first. `change` gives their memory back.
        var removed: [Node?] = []

        /// Whether the node is known. Another node may have its number by now.
        func knows(_ node: Node) -> Bool { byNumber[node.number]?.node === node }

        mutating func hold(_ node: Node) {
            if knows(node) { add(to: node.number, lookups: 0, holds: 1) }
        }

        /// Adds to a node's counts. The slot is taken out and put back, because a change in place allocates.
        mutating func add(to number: UInt64, lookups: UInt64, holds: Int = 0) {
            guard var slot = byNumber[number] else { return }
            slot.lookups += lookups
            slot.holds += holds
            byNumber[number] = slot
        }
    }

    /// A table that was larger than this once is made smaller when few nodes are left.
    private static let usualCapacity = 16_384

    private let contents = Lock(Contents())
    /// The generation of counted numbers. It makes handles of other mounts stale.
    private let generation = UInt32.random(in: .min ... .max)
    let root: Node
    /// The nodes whose cached pages a lock drops.
    let withCachedPages: NodesWithCachedPages

    init(root: Node) {
        self.root = root
        withCachedPages = root.nodesWithCachedPages
        contents.withLock { contents in
            contents.byNumber[root.number] = Slot(node: root, lookups: 1, holds: 1)
            contents.byInode[root.key] = root.number
        }
    }

    /// A deeper tree is taken apart one by one. Each directory is held by the one below it, and a stack has an end.
    private static let deepestAtOnce = 1024

    /// Changes the table, and then gives the memory of removed directories back.
    private func change<Result>(_ body: (inout Contents) -> Result) -> Result {
        var removed: [Node?] = []
        let result = contents.withLock { contents in
            let result = body(&contents)
            swap(&removed, &contents.removed)
            return result
        }
        if removed.count > Self.deepestAtOnce {
            for index in removed.indices { removed[index].take()?.state.withLock { $0.place = nil } }
        }
        return result
    }

    /// Gives memory back after most nodes were forgotten: a dictionary keeps its room.
    func shrink() {
        contents.withLock { contents in
            let capacity = contents.byNumber.capacity
            guard capacity > Self.usualCapacity, contents.byNumber.count < capacity / 4 else { return }
            contents.byNumber = Dictionary(uniqueKeysWithValues: contents.byNumber.map { ($0, $1) })
            contents.byInode = Dictionary(uniqueKeysWithValues: contents.byInode.map { ($0, $1) })
        }
    }

    /// The serial number that the next new node gets; later ones are higher.
    var nextSerial: UInt64 { contents.withLock { $0.nextSerial } }

    func node(_ number: UInt64) -> Node? {
        contents.withLock { $0.byNumber[number]?.node }
    }

    /// Returns the node of an inode just seen at `place`, and counts one more lookup. Creates the node if it is new.
    ///
    /// A known inode number with another kind is a new object. The old node then belongs only to its open handles.
    func remember(_ status: Status, kind: NodeKind, at place: Place) -> Node {
        let key = InodeKey(status)
        return change { contents in
            if let number = contents.byInode[key], let node = contents.byNumber[number]?.node {
                if node.kind == kind {
                    contents.add(to: number, lookups: 1)
                    if node !== root { updatePlaces(of: node, seenAt: place, links: status.links, in: &contents) }
                    return node
                }
                contents.byInode[key] = nil
            }
            let node = make(status, kind: kind, at: place, in: &contents)
            contents.byInode[key] = node.number
            contents.hold(place.parent)
            return node
        }
    }

    /// Makes a node, and counts one lookup.
    private func make(_ status: Status, kind: NodeKind, at place: Place?, in contents: inout Contents) -> Node {
        let serial = contents.nextSerial
        var number = NodeNumber(serial: serial, ofMount: generation)
        if let lasting = NodeNumber(lasting: status, on: root.key.device), contents.byNumber[lasting.number] == nil {
            number = lasting
        }
        let node = Node(
            number: number, serial: serial, kind: kind, key: InodeKey(status), place: place,
            nodesWithCachedPages: withCachedPages)
        contents.nextSerial += 1
        contents.byNumber[node.number] = Slot(node: node, lookups: 1)
        return node
    }

    /// Counts one more lookup of a node; false if the kernel has forgotten it.
    func countLookup(_ node: Node) -> Bool {
        contents.withLock { contents in
            guard contents.knows(node) else { return false }
            contents.add(to: node.number, lookups: 1)
            return true
        }
    }

    /// Makes the node of a regular file that was made without a name, and counts one lookup.
    func rememberNameless(_ status: Status) -> Node {
        contents.withLock { contents in
            let node = make(status, kind: .file, at: nil, in: &contents)
            node.state.withLock { $0.isUnlinked = true }
            return node
        }
    }

    /// Records that a file without a name got one, and counts one more lookup.
    func named(_ node: Node, at place: Place) {
        contents.withLock { contents in
            contents.add(to: node.number, lookups: 1)
            contents.byInode[node.key] = node.number
            node.state.withLock { $0.isUnlinked = false }
            add(place, to: node, in: &contents)
        }
    }

    /// Adds a place just seen. It is a further name of a hard link, or else the only name after an external change.
    private func updatePlaces(of node: Node, seenAt place: Place, links: UInt64, in contents: inout Contents) {
        let isHardLink = links > 1 && node.kind != .directory
        let isKnown = node.state.withLock { $0.place == place || $0.otherPlaces.contains(place) }
        if isKnown { return }
        if isHardLink {
            add(place, to: node, in: &contents)
        } else {
            let old = node.state.withLock { state in
                let old = state.allPlaces
                state.place = nil
                state.otherPlaces = []
                return old
            }
            add(place, to: node, in: &contents)
            for place in old { drop(place.parent, in: &contents, by: 1, lookups: 0) }
        }
    }

    /// Adds a place. A node that is no longer in the table, but whose request still runs, does not hold its directory.
    private func add(_ place: Place, to node: Node, in contents: inout Contents) {
        let (isNew, pin) = node.state.withLock { state in
            var pin: UnlinkedInodeHandle?
            swap(&pin, &state.pin)
            if state.place == nil {
                state.place = place
                return (true, pin)
            }
            return (state.place != place && state.otherPlaces.insert(place).inserted, pin)
        }
        _ = pin
        if isNew, contents.knows(node) { contents.hold(place.parent) }
    }

    /// Removes a place. Another known name replaces it, if there is one.
    private func remove(_ place: Place, from node: Node, in contents: inout Contents) {
        let isRemoved = node.state.withLock { state in
            if state.place == place {
                state.place = state.otherPlaces.popFirst()
                return true
            }
            return state.otherPlaces.remove(place) != nil
        }
        if isRemoved, contents.knows(node) { drop(place.parent, in: &contents, by: 1, lookups: 0) }
    }

    /// Records that the name at `old` is now at `new`.
    func moved(_ node: Node, from old: Place, to new: Place) {
        change { contents in
            let isOnly = node.state.withLock { state in
                guard state.place == old, state.otherPlaces.isEmpty, old != new else { return false }
                state.place = new
                return true
            }
            guard isOnly else {
                add(new, to: node, in: &contents)
                remove(old, from: node, in: &contents)
                return
            }
            guard old.parent !== new.parent, contents.knows(node) else { return }
            contents.hold(new.parent)
            drop(old.parent, in: &contents, by: 1, lookups: 0)
        }
    }

    /// Records that two names have exchanged their objects.
    func exchanged(_ first: Node?, at firstPlace: Place, _ second: Node?, at secondPlace: Place) {
        change { contents in
            if let first {
                add(secondPlace, to: first, in: &contents)
                remove(firstPlace, from: first, in: &contents)
            }
            if let second {
                add(firstPlace, to: second, in: &contents)
                remove(secondPlace, from: second, in: &contents)
            }
        }
    }

    /// Records that the name at `place` is gone. If no other name is known, `pin` keeps the node reachable. After the last
    /// name is gone, another object may get the inode number.
    func unlinked(_ node: Node, at place: Place, pin: UnlinkedInodeHandle?, isLast: Bool) {
        change { contents in
            if isLast, contents.byInode[node.key] == node.number { contents.byInode[node.key] = nil }
            remove(place, from: node, in: &contents)
            node.state.withLock { state in
                if state.place == nil { state.pin = pin }
                if isLast { state.isUnlinked = true }
            }
        }
    }

    /// Forgets a wrong place and returns true. Keeps it and returns false if no other place is known.
    func forgetPlace(_ place: Place, of node: Node) -> Bool {
        change { contents in
            let hasOther = node.state.withLock { !$0.otherPlaces.isEmpty }
            if hasOther { remove(place, from: node, in: &contents) }
            return hasOther
        }
    }

    /// Records that another object has taken the node's inode number.
    func replaced(_ node: Node) {
        contents.withLock { contents in
            if contents.byInode[node.key] == node.number { contents.byInode[node.key] = nil }
        }
    }

    /// The node of an inode, if known. Does not count a lookup.
    func known(_ key: InodeKey) -> Node? {
        contents.withLock { contents in
            contents.byInode[key].flatMap { contents.byNumber[$0]?.node }
        }
    }

    /// Keeps the node in the table while its content is open.
    func hold(_ node: Node) {
        contents.withLock { $0.hold(node) }
    }

    func unhold(_ node: Node) {
        change { drop(node, in: &$0, by: 1, lookups: 0) }
    }

    func forget(_ node: Node, count: UInt64) {
        change { drop(node, in: &$0, by: 0, lookups: count) }
    }

    /// Subtracts from a node's counts. Removes the node when they reach 0, and then its directories in the same way.
    private func drop(_ node: Node, in contents: inout Contents, by holds: Int, lookups: UInt64) {
        guard removes(node, in: &contents, by: holds, lookups: lookups) else { return }
        var above = node.state.withLock { $0.allPlaces }
        while let directory = above.popLast()?.parent {
            guard removes(directory, in: &contents, by: 1, lookups: 0) else { continue }
            contents.removed.append(directory)
            above += directory.state.withLock { $0.allPlaces }
        }
    }

    /// Subtracts from a node's counts, and removes the node when they reach 0. Whether it did.
    private func removes(_ node: Node, in contents: inout Contents, by holds: Int, lookups: UInt64) -> Bool {
        let number = node.number
        guard var slot = contents.byNumber[number], slot.node === node else { return false }
        slot.holds -= min(holds, slot.holds)
        slot.lookups -= min(lookups, slot.lookups)
        guard slot.holds == 0, slot.lookups == 0, slot.node !== root else {
            contents.byNumber[number] = slot
            return false
        }
        contents.byNumber[number] = nil
        if node.mayHavePages { withCachedPages.remove(number) }
        if contents.byInode[node.key] == number { contents.byInode[node.key] = nil }
        return true
    }

    /// Whether the kernel knows the node, or something holds it.
    func knows(_ node: Node) -> Bool { contents.withLock { $0.knows(node) } }

    var count: Int { contents.withLock { $0.byNumber.count } }

    /// The numbers of the known regular files.
    var files: [UInt64] { contents.withLock { $0.byNumber.filter { $0.value.node.kind == .file }.map(\.key) } }
}

extension NodeState {
    /// All known names.
    fileprivate var allPlaces: [Place] { (place.map { [$0] } ?? []) + otherPlaces }
}
