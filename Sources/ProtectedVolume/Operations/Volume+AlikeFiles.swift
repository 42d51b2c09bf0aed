// Makes backups see that a name belongs to another file now, if its length and time do not say so.

internal import BackingStore
internal import FileContents
internal import HostSystem

extension Volume {
    /// Called after a rename has put the file of `status` in the place of that of `former`. Two files never have the same
    /// ciphertext, and perhaps not the same class. A backup that compares lengths and seconds must not take one for the other,
    /// and one that copies later files only must not find the new one earlier because the former one's stored time had moved.
    func showReplaced(_ former: Status, by status: Status, at name: EntryName, in directory: BackingDirectory) {
        guard former.kind == .regular, status.kind == .regular else { return }
        let isAlike = former.size == status.size && former.stored.seconds == status.stored.seconds
        guard isAlike || former.isMarked && status.stored.seconds <= former.stored.seconds else { return }
        let node = nodes.known(InodeKey(status))
        if let node, let content = content(of: node) {
            guard let now = try? content.backing.status() else { return }
            try? content.renewTime(showing: now.modified, after: max(now.stored, former.stored))
        } else if let object = try? directory.node(name), let now = try? object.status(), now.inode == status.inode {
            if let node { forgetLastSeen(node) }
            try? object.renewTime(showing: now.modified, after: max(now.stored, former.stored))
        }
    }
}
