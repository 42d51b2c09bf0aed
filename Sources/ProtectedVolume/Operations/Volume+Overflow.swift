// Removes the overflow objects of objects that lose their last name.

internal import BackingStore
internal import HostSystem
internal import VolumeFormat

/// An object with overflow objects, which is about to lose a name.
struct OverflowOwner {
    let object: BackingNode
    /// That of a link's target. Nothing can read it without a name.
    let target: ObjectID?
    /// That of the attribute record, which programs can read as long as they have the object open.
    let record: ObjectID?
}

extension Volume {
    /// The object `name`, which is about to lose this name, if it has an overflow object.
    func overflowOwner(_ name: EntryName, _ status: Status, in directory: BackingDirectory) -> OverflowOwner? {
        guard overflow.isUsed, status.links <= 1 || status.kind == .directory,
            let object = status.kind == .directory ? try? directory.openDirectory(name) : try? directory.node(name)
        else { return nil }
        var target: ObjectID?
        if status.kind == .symlink, status.size == LongTarget.storedLength {
            target = (try? directory.readSymlink(name)).flatMap(names.openLongTarget)?.id
        }
        let record = recordOverflow(of: object, name, status, in: directory)
        return target == nil && record == nil ? nil : OverflowOwner(object: object, target: target, record: record)
    }

    private func recordOverflow(
        of object: BackingNode, _ name: EntryName, _ status: Status, in directory: BackingDirectory
    ) -> ObjectID? {
        guard let all = try? object.attributeNames(), all.contains(where: { NameCipher.isEncryptedAttribute($0) })
        else { return nil }
        let id: ObjectID? =
            switch status.kind {
            case .regular: (try? header(of: name, status, in: directory))??.fileID
            case .directory: (object as? BackingDirectory).flatMap(recordedID)
            default: .absent
            }
        return id.flatMap { id in storedAttributes(object, id).overflowReference(in: all)?.id }
    }

    /// Removes the overflow objects of an object that has lost a name in `directory`, if that was the last one. The order of the
    /// removals reaches the disk.
    func removeOverflow(of owner: OverflowOwner?, _ node: Node?, in directory: BackingDirectory) {
        guard let owner, (try? owner.object.status().links) == 0 else { return }
        if !overflow.keepsOrder {
            guard (try? directory.synchronize()) != nil else { return }
        }
        if let target = owner.target { overflow.remove(target) }
        guard let record = owner.record else { return }
        if let node { removeAtEnd(record, of: node) } else { overflow.remove(record) }
    }

    /// Sets what is removed when a node without a name is forgotten.
    func removeAtEnd(_ record: ObjectID?, of node: Node) {
        let before = node.state.withLock { state in
            let before = state.overflowAtEnd
            state.overflowAtEnd = record.map { OverflowAtEnd($0, overflow) }
            return before
        }
        before?.keep()
    }
}
