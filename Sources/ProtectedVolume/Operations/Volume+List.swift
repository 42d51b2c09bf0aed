// Lists a directory without a handle. Each call gives the position to continue from, so OPENDIR needs no answer.

internal import BackingStore
internal import FileContents
internal import HostSystem
package import KeyFiles
internal import VolumeFormat

/// The entries of a listing that come with their node and attributes.
package enum ListedAttributes: Sendable {
    case none
    /// Directories and symbolic links, and what cannot be told from one. Also names that do not tell their entry, because to
    /// look one up later takes a listing.
    case ofDirectoriesAndLinks
    case all
}

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
    /// Node and attributes if they were wanted, with one lookup counted. Nil for `.` and `..`, and if they cannot be read.
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
    ///   - attributes: the entries whose nodes and attributes are returned.
    ///   - body: returns false if the entry did not fit. The entry is then not consumed, and its lookup is taken back.
    package func list(
        _ node: Node, from cookie: UInt64, attributes: ListedAttributes, _ body: (ListedEntry) -> Bool
    ) throws(VolumeError) {
        let directory = try directory(node)
        if cookie == 0 { try renewRecord(of: node, always: false) }
        let id = try directoryID(node)
        let attributes = maySearch(directory) ? attributes : .none
        var failure: VolumeError?
        func pass(_ held: HeldEntry) -> Bool {
            switch held.object {
            case .itself: return body(.dot(".", node.inode, held.next))
            case .parent:
                let parent = node.state.withLock { $0.place?.parent } ?? node
                return body(.dot("..", parent.inode, held.next))
            case .entry(let found):
                do throws(VolumeError) {
                    return try hand(found, held, of: node, directory, attributes, to: body)
                } catch {
                    failure = error
                    return false
                }
            }
        }
        // Two entries take turns, so that their names' room is used again.
        var held = HeldEntry()
        var now = HeldEntry()
        var isHolding = false
        try below { () throws(Errno) in
            try directory.list(from: cookie) { object, next in
                now.object = object
                now.next = next
                now.isUndecryptable = false
                if case .entry(let found) = object, !show(found.name, in: directory, id, as: &now) {
                    held.next = next
                    return true
                }
                if isHolding, !pass(held) {
                    isHolding = false
                    return false
                }
                swap(&held, &now)
                isHolding = true
                return true
            }
        }
        if isHolding { _ = pass(held) }
        if let failure { throw failure }
        if cookie == 0 { noteAccess(to: directory) }
    }

    /// Sets the name under which an entry is shown; false for reserved names.
    private func show(
        _ entry: EntryName, in directory: BackingDirectory, _ id: ObjectID?, as held: inout HeldEntry
    ) -> Bool {
        // Nearly all names are such.
        if let id, ReservedName.kind(of: entry.bytes.span) == .encoded,
            names.decode(entry.bytes.span, in: id, into: &held.name), held.name.count <= NameLimits.longestDirect
        {
            return true
        }
        let decoded = decode(entry, in: directory, id)
        guard let shown = Self.nameShown(for: entry, decoded) else { return false }
        held.name = shown
        if case .undecryptable = decoded { held.isUndecryptable = true }
        return true
    }

    /// Whether the status of an entry can be read without raising the directory's mode for a moment.
    private func maySearch(_ directory: BackingDirectory) -> Bool {
        guard !givesOwnership, let mode = try? directory.status().mode else { return true }
        return mode & 0o100 != 0
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

    /// Passes one entry on; true if the listing continues.
    private func hand(
        _ found: DirectoryEntry, _ held: HeldEntry, of parent: Node, _ directory: BackingDirectory,
        _ attributes: ListedAttributes, to body: (ListedEntry) -> Bool
    ) throws(VolumeError) -> Bool {
        if held.isUndecryptable { notices.tellUndecryptable(found.name, in: parent) }
        var entry: Entry?
        let kind = NodeKind(found.kind)
        let isWanted =
            switch attributes {
            case .none: false
            case .ofDirectoriesAndLinks: [.directory, .symlink, nil].contains(kind) || held.isUndecryptable
            case .all: true
            }
        if isWanted {
            let status: Status?
            do throws(VolumeError) {
                status = try self.status(of: found.name, in: directory)
                if status == nil { return true }
            } catch {
                // The names can be listed all the same, as in a directory that may be read but not searched.
                status = nil
            }
            // Else the object is gone, or a volume cannot have its kind. Only its name is listed.
            if let status { entry = try? seen(status, in: parent, found.name) }
            if held.isUndecryptable { entry?.node.state.withLock { $0.isUndecryptable = true } }
        }
        let isTaken = body(
            ListedEntry(
                name: held.name, inode: found.inode, kind: kind ?? entry?.node.kind, next: held.next,
                entry: entry))
        if !isTaken, let entry { forget(entry.node, count: 1) }
        return isTaken
    }
}

/// An entry of the store's listing that waits for the position of the next one.
private struct HeldEntry {
    var object = ListedObject.itself
    var next: UInt64 = 0
    /// Its name as programs see it; has no meaning for `.` and `..`.
    var name: [UInt8] = []
    var isUndecryptable = false
}
