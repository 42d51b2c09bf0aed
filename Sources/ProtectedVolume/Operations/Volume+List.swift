// Lists a directory without a handle. Each call gives the position to continue from, so OPENDIR needs no answer.

internal import BackingStore
internal import HostSystem
internal import VolumeFormat

/// One entry of a listing.
package struct ListedEntry: Sendable {
    /// Its name as programs see it.
    package let name: [UInt8]
    /// Its inode number.
    package let inode: UInt64
    /// Its kind; nil if the store did not tell it.
    package let kind: NodeKind?
    /// The position from which a later call continues after this entry.
    package let next: UInt64
    /// With `plus`, node and attributes, with one lookup counted. Nil for `.` and `..`, and if they cannot be read.
    package let entry: Entry?

    fileprivate static func dot(_ name: String, _ inode: UInt64, _ next: UInt64) -> ListedEntry {
        ListedEntry(name: Array(name.utf8), inode: inode, kind: .directory, next: next, entry: nil)
    }
}

extension Volume {
    /// Calls `body` with each entry from `cookie` on (0 for the start), until it returns false.
    ///
    /// All positions are the store's own. Positions of ours could not be told from them, as a store may use any number.
    /// So `.` and `..` come where the store lists them.
    ///
    /// The position after an entry is that of the next entry that is listed, and not that of a hidden one between them. The
    /// kernel keeps listings, and looks for a position that a program returns to among those that it has seen. It may have seen
    /// that of a hidden entry in front of a name that was removed since.
    /// - Parameters:
    ///   - plus: whether to return nodes and attributes.
    ///   - body: returns false if the entry did not fit. The entry is then not consumed, and its lookup is taken back.
    package func list(
        _ node: Node, from cookie: UInt64, plus: Bool, _ body: (ListedEntry) -> Bool
    ) throws(VolumeError) {
        let directory = try directory(node)
        let id = try directoryID(node)
        var failure: VolumeError?
        func pass(_ held: HeldEntry) -> Bool {
            switch held.object {
            case .itself: return body(.dot(".", node.inode, held.next))
            case .parent:
                let parent = node.state.withLock { $0.place?.parent } ?? node
                return body(.dot("..", parent.inode, held.next))
            case .entry(let found):
                do throws(VolumeError) {
                    return try hand(found, held, of: node, directory, plus, to: body)
                } catch {
                    failure = error
                    return false
                }
            }
        }
        var held: HeldEntry?
        try below { () throws(Errno) in
            try directory.list(from: cookie) { object, next in
                var now = HeldEntry(object: object, next: next)
                if case .entry(let found) = object {
                    let decoded = decode(found.name, in: directory, id)
                    guard let shown = Self.nameShown(for: found.name, decoded) else {
                        held?.next = next
                        return true
                    }
                    now.name = shown
                    if case .undecryptable = decoded { now.isUndecryptable = true }
                }
                if let before = held, !pass(before) {
                    held = nil
                    return false
                }
                held = now
                return true
            }
        }
        if let held { _ = pass(held) }
        if let failure { throw failure }
        if cookie == 0 { noteAccess(to: directory) }
    }

    /// Moves the access time of a directory that was listed, if the mount's options say so.
    private func noteAccess(to directory: BackingDirectory) {
        guard !options.isReadOnly else { return }
        switch options.directoryAccessTimes {
        case .never: return
        case .always: break
        case .relative:
            guard let status = try? directory.status(), status.accessTimeIsDue(at: WallClock.seconds) else { return }
        }
        directory.touchAccessTime()
    }

    /// Reports a name once per mount, up to a limit.
    private func tellUndecryptable(_ name: EntryName, in parent: Node) {
        let isNews = reportedNames.withLock {
            $0.count < Self.mostReportedNames && $0.insert(Place(parent: parent, name: name).reportedName).inserted
        }
        if isNews { report(.undecryptable(directoryInode: parent.inode, backingName: Array(name.bytes))) }
    }

    /// Passes one entry on; true if the listing continues.
    private func hand(
        _ found: DirectoryEntry, _ held: HeldEntry, of parent: Node, _ directory: BackingDirectory, _ plus: Bool,
        to body: (ListedEntry) -> Bool
    ) throws(VolumeError) -> Bool {
        if held.isUndecryptable { tellUndecryptable(found.name, in: parent) }
        var entry: Entry?
        if plus {
            // The object is gone, or a volume cannot have its kind. Only its name is listed.
            if let status = try status(of: found.name, in: directory) {
                entry = try? seen(status, in: parent, found.name)
            } else {
                return true
            }
            if held.isUndecryptable { entry?.node.state.withLock { $0.isUndecryptable = true } }
        }
        let isTaken = body(
            ListedEntry(
                name: held.name, inode: found.inode, kind: NodeKind(found.kind) ?? entry?.node.kind, next: held.next,
                entry: entry))
        if !isTaken, let entry { forget(entry.node, count: 1) }
        return isTaken
    }
}

/// An entry of the store's listing that waits for the position of the next one.
private struct HeldEntry {
    let object: ListedObject
    var next: UInt64
    /// Its name as programs see it; empty for `.` and `..`.
    var name: [UInt8] = []
    var isUndecryptable = false
}
