// Makes backups see that a name belongs to another file now, if both files have the same length and time.

internal import BackingStore
internal import HostSystem

extension Volume {
    /// Called after a rename has put the file of `status` in the place of that of `former`. Two files never have the same
    /// ciphertext, and perhaps not the same class. A backup that compares lengths and whole seconds must not take one for the other.
    func showReplaced(_ former: Status, by status: Status, at name: EntryName, in directory: BackingDirectory) {
        guard former.kind == .regular, status.kind == .regular, former.size == status.size,
            former.stored.seconds == status.stored.seconds
        else { return }
        let node = nodes.known(InodeKey(status))
        if let node, let content = content(of: node) {
            guard let now = try? content.backing.status() else { return }
            try? content.renewTime(showing: now.modified, after: now)
        } else if let object = try? directory.node(name), let now = try? object.status(), now.inode == status.inode {
            if let node { forgetLastSeen(node) }
            try? object.renewTime(showing: now.modified, after: now)
        }
    }
}
