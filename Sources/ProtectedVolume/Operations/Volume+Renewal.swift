// Notices that another program has replaced a directory's record in the store, and forgets what the former one told.
//
// A directory that another machine has removed and made again gets here by a sync client, which keeps the directory and
// replaces what is in it. A name made under the former ID could never be read again.

internal import BackingStore
internal import FileContents
internal import HostSystem
internal import KeyFiles
internal import VolumeFormat

extension Volume {
    /// How long a record is believed where a mistake does not last, in nanoseconds.
    private static let recordLifetime: UInt64 = 100_000_000

    /// Compares what is known of a directory's record with the store, and forgets it if another record is there now.
    ///
    /// Do not call it with a `structure` lock: it may wait for a removal of the directory.
    /// - Parameter always: whether to do so even if it was done a moment ago, because something is made by the record.
    /// - Returns: whether the directory's ID is another one now, or is not known any more.
    @discardableResult
    func renewRecord(of node: Node, always: Bool) throws(VolumeError) -> Bool {
        guard let state = node.directory, !options.isShared, !node.isUnlinked else { return false }
        let (known, stamp, lastLook) = state.contents.withLock { ($0.record, $0.stamp, $0.lastLook) }
        // Otherwise each use reads it.
        guard case .known(let former) = known else { return false }
        let now = monotonicNanoseconds()
        guard always || nanoseconds(from: lastLook, to: now) >= Self.recordLifetime else { return false }
        let directory = try directory(node)
        var found = try recordStamp(in: directory)
        if found == nil {
            guard try !isBeingRemoved(node, directory) else { return false }
            found = try recordStamp(in: directory)
        }
        if let found, found == stamp {
            state.contents.withLock { $0.lastLook = now }
            return false
        }
        let current = try recordIfVerified(directory, node)
        let hasOtherID = current?.directoryID != former.directoryID
        state.contents.withLock { contents in
            // Else another thread has read it, or replaced it, meanwhile.
            guard case .known(former) = contents.record else { return }
            contents.record = current.map { .known($0) } ?? .unread
            contents.stamp = found
            contents.lastLook = now
            if hasOtherID {
                contents.families = KnownFamilies()
                contents.hasDefaultACL = nil
            }
        }
        guard hasOtherID else { return false }
        node.state.withLock { $0.attributes.changed() }
        tellRenewed(node)
        return true
    }

    private func recordStamp(in directory: BackingDirectory) throws(VolumeError) -> ChangeStamp? {
        try status(of: BackingName.record, in: directory).map(ChangeStamp.init)
    }

    /// Whether a directory without a record is gone, or about to go. Waits for a removal that has set the record aside.
    private func isBeingRemoved(_ node: Node, _ directory: BackingDirectory) throws(VolumeError) -> Bool {
        node.state.withLock { $0.place?.parent }?.directory?.structure.withLock { _ in }
        if node.isUnlinked { return true }
        // Some network file systems have no status of what is removed.
        return ((try? directory.status().links) ?? 0) == 0
    }

    /// The record in the store; nil if it is missing or does not verify, which the next use reports.
    func recordIfVerified(_ directory: BackingDirectory, _ node: Node) throws(VolumeError) -> VerifiedRecord? {
        do throws(VolumeError) { return try readRecord(directory, node) } catch {
            guard case .damaged = error else { throw error }
            return nil
        }
    }

    /// The directory of a node and its name there, as programs see it; nil for the root, and if it has no name.
    package func shownPlace(of node: Node) -> (parent: Node, name: [UInt8])? {
        guard let place = node.state.withLock({ $0.place }), let directory = try? directory(place.parent),
            let id = try? directoryID(place.parent),
            let name = Self.nameShown(for: place.name, decode(place.name, in: directory, id))
        else { return nil }
        return (place.parent, name)
    }
}
