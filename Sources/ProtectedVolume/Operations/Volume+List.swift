// Lists a directory without a handle: each call says where to continue, so OPENDIR needs no answer.

internal import BackingStore
internal import HostSystem
internal import VolumeFormat

/// One entry of a listing.
package struct ListedEntry: Sendable {
    /// Its name as programs see it.
    package let name: [UInt8]
    /// Its inode number.
    package let inode: UInt64
    /// Its kind; nil where the store did not say.
    package let kind: NodeKind?
    /// Where a later call goes on behind this entry.
    package let next: UInt64
    /// With `plus`: node and attributes, one lookup counted; nil for `.` and `..`, and where they cannot be had.
    package let entry: Entry?
}

extension Volume {
    /// Cookies 0 and 1 come before `.` and `..`, and 2 before the store's first entry. No store gives 1 or 2 itself: its own
    /// `.` and `..` come first there too.
    private static let firstEntry: UInt64 = 2

    /// Calls `body` with each entry from `cookie` on (0: the start), `.` and `..` first, until it gives false.
    ///
    /// - Parameters:
    ///   - plus: whether nodes and attributes are wanted.
    ///   - body: false when the entry did not fit: it is not consumed, and its lookup is given back.
    package func list(
        _ node: Node, from cookie: UInt64, plus: Bool, _ body: (ListedEntry) -> Bool
    ) throws(VolumeError) {
        let directory = try directory(node)
        let id = try directoryID(node)
        for (index, name) in [".", ".."].enumerated() where cookie <= UInt64(index) {
            let parent = node.state.withLock { $0.place?.parent } ?? node
            let dot = ListedEntry(
                name: Array(name.utf8), inode: index == 0 ? node.inode : parent.inode, kind: .directory,
                next: UInt64(index) + 1, entry: nil)
            if !body(dot) { return }
        }
        var failure: VolumeError?
        try below { () throws(Errno) in
            try directory.forEachEntry(from: cookie <= Self.firstEntry ? 0 : cookie) { found, next in
                do throws(VolumeError) {
                    return try hand(found, next, of: node, directory, id, plus, to: body)
                } catch {
                    failure = error
                    return false
                }
            }
        }
        if let failure { throw failure }
    }

    /// Reports a name once per mount, as long as there are not too many of them.
    private func tellUndecryptable(_ name: EntryName, in parent: Node) {
        let isNews = reportedNames.withLock {
            $0.count < Self.mostReportedNames && $0.insert(Place(parent: parent, name: name).reportedName).inserted
        }
        if isNews { report(.undecryptable(directoryInode: parent.inode, backingName: Array(name.bytes))) }
    }

    /// Decodes one backing entry and hands it on; true where the listing goes on.
    private func hand(
        _ found: DirectoryEntry, _ next: UInt64, of parent: Node, _ directory: BackingDirectory, _ id: ObjectID?,
        _ plus: Bool, to body: (ListedEntry) -> Bool
    ) throws(VolumeError) -> Bool {
        let decoded = decode(found.name, in: directory, id)
        guard let shown = Self.nameShown(for: found.name, decoded) else { return true }
        var isUndecryptable = false
        if case .undecryptable = decoded {
            isUndecryptable = true
            tellUndecryptable(found.name, in: parent)
        }
        var entry: Entry?
        if plus {
            // Gone since, or of no kind that a volume holds: listed by name alone.
            if let status = try status(of: found.name, in: directory) {
                entry = try? seen(status, in: parent, found.name)
            } else {
                return true
            }
            if isUndecryptable { entry?.node.state.withLock { $0.isUndecryptable = true } }
        }
        let isTaken = body(
            ListedEntry(
                name: shown, inode: found.inode, kind: NodeKind(found.kind) ?? entry?.node.kind, next: next,
                entry: entry))
        if !isTaken, let entry { forget(entry.node, count: 1) }
        return isTaken
    }
}
