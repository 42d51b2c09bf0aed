// Keeps what a newer version has made: it is not replaced, and nothing is changed where it decides.

internal import BackingStore
internal import HostSystem
internal import VolumeFormat

extension Volume {
    /// Refuses a change in a directory whose record a newer version has made. A directory without a record can still lose
    /// entries.
    func requireChangeable(_ directory: Node) throws(VolumeError) {
        let record: VerifiedRecord?
        do throws(VolumeError) { record = try self.record(of: directory) } catch {
            guard case .damaged = error else { throw error }
            return
        }
        if record?.isNewer ?? false { throw newer(.record, inode: directory.inode) }
    }

    /// Refuses a file or symlink that a newer version has made, for a rename that replaces it or puts it in the place of
    /// another object. An object that cannot be verified is not refused here.
    func requireKnown(
        _ name: EntryName, _ status: Status, in directory: BackingDirectory
    ) throws(VolumeError) {
        switch status.kind {
        case .regular:
            do throws(VolumeError) {
                try requireKnown(try verifiedClass(of: name, status, in: directory), status)
            } catch {
                if case .newer = error { throw error }
            }
        case .symlink:
            guard let target = try? directory.readSymlink(name), names.openTarget(target) == nil,
                names.isNewerTarget(target)
            else { return }
            throw newer(.symlink, inode: status.inode)
        default: return
        }
    }

    /// The same for a file whose header has been read. `nil` is a file without header (rule R0).
    func requireKnown(_ file: VerifiedClass?, _ status: Status) throws(VolumeError) {
        if file?.flags.areReadableOnly ?? false { throw newer(.header, inode: status.inode) }
    }

    /// Refuses a change of the encrypted attributes of an object that a newer version has made.
    func requireChangeableAttributes(of node: Node) throws(VolumeError) {
        if node.kind == .directory { return try requireChangeable(node) }
        if try header(of: node)?.flags.areReadableOnly ?? false { throw newer(.header, inode: node.inode) }
    }

    /// The error of a stored value that does not open.
    func refusal(
        of value: [UInt8], name: [UInt8], of id: ObjectID, _ node: Node
    ) -> VolumeError {
        names.isNewerValue(value, name: name, of: id)
            ? newer(.attribute, inode: node.inode) : damaged(.attribute, node)
    }
}
