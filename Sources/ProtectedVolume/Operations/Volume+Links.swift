// Symbolic links. A target that has no room in the store's link is an overflow object.

internal import BackingStore
internal import HostSystem
package import KeyFiles
package import VolumeFormat

extension Volume {
    /// Makes a symbolic link.
    package func symlink(
        _ name: [UInt8], in parent: Node, target: [UInt8], caller: Caller
    ) throws(VolumeError) -> Entry {
        let (directory, encoded) = try prepare(name.span, in: parent)
        defer { noteChange(parent) }
        let status = try making(encoded, in: parent, directory) { () throws(VolumeError) in
            try makeLink(encoded.entry, to: target, in: directory)
            return try finish(encoded.entry, directory, mode: 0, caller: caller)
        }
        return try entry(status, in: parent, encoded.entry, isNew: true)
    }

    private func makeLink(
        _ name: EntryName, to target: [UInt8], in directory: BackingDirectory
    ) throws(VolumeError) {
        do throws(Errno) {
            return try directory.createLink(name, target: names.sealTarget(target))
        } catch {
            guard error == .ENAMETOOLONG, target.count <= LongTarget.longest else { throw .store(error) }
        }
        let reference = try overflow.add(target.span)
        try below { () throws(Errno) in
            do throws(Errno) {
                try directory.createLink(name, target: names.sealTarget(reference))
            } catch {
                // A link that may be there needs it.
                if error == .EEXIST || directory.isGone(name) { overflow.remove(reference.id) }
                throw error
            }
        }
    }

    /// The target of a symbolic link.
    package func readlink(_ node: Node) throws(VolumeError) -> [UInt8] {
        guard node.kind == .symlink else { throw .invalid }
        let stored = try storedTarget(of: node)
        if let target = names.openTarget(stored) { return target }
        guard let reference = names.openLongTarget(stored) else {
            throw names.isNewerTarget(stored) ? newer(.symlink, inode: node.inode) : damaged(.symlink, node)
        }
        do throws(VolumeError) {
            return try overflow.content(of: reference, owner: .symlink)
        } catch {
            switch error {
            case .damaged(let damage): throw damaged(damage, node)
            case .newer(let object): throw newer(object, inode: node.inode)
            default: throw error
            }
        }
    }

    private func storedTarget(of node: Node) throws(VolumeError) -> [UInt8] {
        try reach(node) { (directory, name, _) throws(VolumeError) in
            try below { () throws(Errno) in try directory.readSymlink(name) }
        }
    }

    /// The overflow object of a link's target; nil if it has none, or does not verify.
    package func overflowReference(of link: Node) -> OverflowReference? {
        (try? storedTarget(of: link)).flatMap(names.openLongTarget)
    }

    /// The length of a target that is an overflow object; nil if it is none. A link never changes, so it is read once.
    func lengthOfLongTarget(of node: Node) -> UInt64? {
        if let length = node.state.withLock({ $0.longTargetLength }) { return length }
        let length = overflowReference(of: node).map { UInt64($0.contentLength) }
        node.state.withLock { $0.longTargetLength = length }
        return length
    }
}
