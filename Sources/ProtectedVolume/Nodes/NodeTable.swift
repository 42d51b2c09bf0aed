// The nodes that the kernel knows, by number and by backing inode, with their reference counts.
//
// Lock order (outermost first), for Nodes and Operations:
//   directories' `structure` locks (smaller node number first) → a file's opening stripe → KeyRing's state lock →
//   NodeTable → Node.state → DirectoryState.contents, DirectoryCache, Volume.opened.
// Only `structure` locks and stripes are held across the backing store's I/O. Nobody asks for the KeyRing's state lock
// with an inner one held: the thread with its exclusive side visits the nodes to wipe keys.

internal import BackingStore
internal import HostSystem

/// All known nodes of a mount.
final class NodeTable: Sendable {
    private struct Slot {
        let node: Node
        /// Lookups that the kernel got and has not forgotten.
        var lookups: UInt64 = 0
        /// Places of known nodes in this directory, and open contents.
        var holds = 0
    }

    private struct Contents {
        var byNumber: [UInt64: Slot] = [:]
        var byInode: [InodeKey: UInt64] = [:]
        var nextNumber: UInt64 = 2
    }

    private let contents = Lock(Contents())
    let root: Node
    /// The nodes that a lock visits.
    let withCachedPages: NodesWithCachedPages

    init(root: Node) {
        self.root = root
        withCachedPages = root.nodesWithCachedPages
        contents.withLock { contents in
            contents.byNumber[root.number] = Slot(node: root, lookups: 1, holds: 1)
            contents.byInode[root.key] = root.number
        }
    }

    /// The number that the next new node gets; later ones are higher.
    var nextNumber: UInt64 { contents.withLock { $0.nextNumber } }

    func node(_ number: UInt64) -> Node? {
        contents.withLock { $0.byNumber[number]?.node }
    }

    /// The node of an inode just seen at `place`, with one more lookup; made when it is new.
    ///
    /// A known inode number with another kind is another object: the old node is left to its handles.
    func remember(_ status: Status, kind: NodeKind, at place: Place) -> Node {
        let key = InodeKey(status)
        return contents.withLock { contents in
            if let number = contents.byInode[key], let node = contents.byNumber[number]?.node {
                if node.kind == kind {
                    contents.byNumber[number]?.lookups += 1
                    if node !== root { updatePlaces(of: node, seenAt: place, links: status.links, in: &contents) }
                    return node
                }
                contents.byInode[key] = nil
            }
            let node = Node(
                number: contents.nextNumber, kind: kind, key: key, place: place, nodesWithCachedPages: withCachedPages)
            contents.nextNumber += 1
            contents.byNumber[node.number] = Slot(node: node, lookups: 1)
            contents.byInode[key] = node.number
            contents.byNumber[place.parent.number]?.holds += 1
            return node
        }
    }

    /// Takes in a place just seen: a further name of a hard link, or the only one after a change from outside.
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
            for place in old { drop(place.parent.number, in: &contents, by: 1, lookups: 0) }
        }
    }

    /// Adds a place; a node that is no longer in the table (its request is still running) holds nothing.
    private func add(_ place: Place, to node: Node, in contents: inout Contents) {
        if contents.byNumber[node.number] != nil { contents.byNumber[place.parent.number]?.holds += 1 }
        let pin = node.state.withLock { state in
            if state.place == nil { state.place = place } else { state.otherPlaces.append(place) }
            var pin: Pin?
            swap(&pin, &state.pin)
            return pin
        }
        _ = pin
    }

    /// Takes a place away; another known name takes over.
    private func remove(_ place: Place, from node: Node, in contents: inout Contents) {
        let isRemoved = node.state.withLock { state in
            if state.place == place {
                state.place = state.otherPlaces.popLast()
                return true
            }
            guard let index = state.otherPlaces.firstIndex(of: place) else { return false }
            state.otherPlaces.remove(at: index)
            return true
        }
        if isRemoved, contents.byNumber[node.number] != nil {
            drop(place.parent.number, in: &contents, by: 1, lookups: 0)
        }
    }

    /// Tells that the name at `old` is now at `new`.
    func moved(_ node: Node, from old: Place, to new: Place) {
        contents.withLock { contents in
            add(new, to: node, in: &contents)
            remove(old, from: node, in: &contents)
        }
    }

    /// Tells that two names have exchanged their objects.
    func exchanged(_ first: Node?, at firstPlace: Place, _ second: Node?, at secondPlace: Place) {
        contents.withLock { contents in
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

    /// Tells that the name at `place` is gone; `pin` keeps the node reachable when no name is known any more. With no
    /// name left at all, its inode number may name another object from now on.
    func unlinked(_ node: Node, at place: Place, pin: Pin?, isLast: Bool) {
        contents.withLock { contents in
            if isLast, contents.byInode[node.key] == node.number { contents.byInode[node.key] = nil }
            remove(place, from: node, in: &contents)
            node.state.withLock { state in
                if state.place == nil { state.pin = pin }
                if isLast { state.isUnlinked = true }
            }
        }
    }

    /// Forgets a place that turned out to be wrong; false when it was the last one known.
    func forgetPlace(_ place: Place, of node: Node) -> Bool {
        contents.withLock { contents in
            let hasOther = node.state.withLock { $0.allPlaces.count > 1 }
            if hasOther { remove(place, from: node, in: &contents) }
            return hasOther
        }
    }

    /// Tells that another object has taken the node's inode number.
    func replaced(_ node: Node) {
        contents.withLock { contents in
            if contents.byInode[node.key] == node.number { contents.byInode[node.key] = nil }
        }
    }

    /// The node of an inode, if known; no lookup is counted.
    func known(_ key: InodeKey) -> Node? {
        contents.withLock { contents in
            contents.byInode[key].flatMap { contents.byNumber[$0]?.node }
        }
    }

    /// Keeps the node in the table while its content is open.
    func hold(_ node: Node) {
        contents.withLock { $0.byNumber[node.number]?.holds += 1 }
    }

    func unhold(_ node: Node) {
        contents.withLock { drop(node.number, in: &$0, by: 1, lookups: 0) }
    }

    func forget(_ node: Node, count: UInt64) {
        contents.withLock { drop(node.number, in: &$0, by: 0, lookups: count) }
    }

    /// Takes counts away and removes nodes that nobody needs, upwards.
    private func drop(_ number: UInt64, in contents: inout Contents, by holds: Int, lookups: UInt64) {
        guard var slot = contents.byNumber[number] else { return }
        slot.holds -= min(holds, slot.holds)
        slot.lookups -= min(lookups, slot.lookups)
        guard slot.holds == 0, slot.lookups == 0, slot.node !== root else {
            contents.byNumber[number] = slot
            return
        }
        contents.byNumber[number] = nil
        if slot.node.mayHavePages { withCachedPages.remove(number) }
        if contents.byInode[slot.node.key] == number { contents.byInode[slot.node.key] = nil }
        // Recursion is as deep as directories become unneeded at once, which is bounded by the depth of a path.
        for place in slot.node.state.withLock({ $0.allPlaces }) {
            drop(place.parent.number, in: &contents, by: 1, lookups: 0)
        }
    }

    var count: Int { contents.withLock { $0.byNumber.count } }
}

extension NodeState {
    /// Every name known.
    fileprivate var allPlaces: [Place] { (place.map { [$0] } ?? []) + otherPlaces }
}
