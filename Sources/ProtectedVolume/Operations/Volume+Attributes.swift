// Extended attributes: encrypts names and values, passes ACLs through, and answers the volume's own names. Removes their overflow
// objects.

package import BackingStore
internal import FileContents
internal import HostSystem
package import KeyFiles
package import VolumeFormat

/// An object with overflow objects, which is about to lose a name.
struct OverflowOwner {
    let object: BackingNode
    /// That of a link's target. Nothing can read it without a name.
    let target: ObjectID?
    /// That of the attribute record, which programs can read as long as they have the object open.
    let record: ObjectID?
}

extension Volume {
    /// Writes the value of an extended attribute to the beginning of `buffer`. The buffer is in locked memory, and no
    /// other place has the plaintext.
    ///
    /// - Returns: its length.
    /// - Throws: ENODATA if the attribute does not exist, ERANGE if the buffer is too small.
    package func getXattr(_ node: Node, _ name: [UInt8], into buffer: inout MutableSpan<UInt8>) throws(VolumeError)
        -> Int
    {
        if let open = try openXattr(node, name) {
            guard open.count <= buffer.count else { throw .refused(.ERANGE) }
            buffer.copy(open.span, to: 0)
            return open.count
        }
        let (attributes, all) = try storedAttributes(node, name)
        if let single = try attributes.single(name, in: all) {
            let stored = try below { () throws(Errno) in try attributes.object.attribute(single) }
            guard let length = Envelope.contentLength(stored: stored.count) else { throw damaged(.attribute, node) }
            guard length <= buffer.count else { throw .refused(.ERANGE) }
            guard names.openValue(stored, name: name, of: attributes.id, into: &buffer) else {
                throw refusal(of: stored, name: name, of: attributes.id, node)
            }
            return length
        }
        let record = try record(attributes, all, node)
        guard let length = try record.copyValue(of: name, into: &buffer) else { throw .noAttribute }
        return length
    }

    /// The same into an array, which is not wiped. Only for a check, whose process ends soon, and not for a mount.
    package func getXattr(_ node: Node, _ name: [UInt8]) throws(VolumeError) -> [UInt8] {
        if let open = try openXattr(node, name) { return open }
        let (attributes, all) = try storedAttributes(node, name)
        if let single = try attributes.single(name, in: all) {
            let stored = try below { () throws(Errno) in try attributes.object.attribute(single) }
            guard let value = names.openValue(stored, name: name, of: attributes.id) else {
                throw refusal(of: stored, name: name, of: attributes.id, node)
            }
            return value
        }
        let record = try record(attributes, all, node)
        guard let value = record.value(of: name) else { throw .noAttribute }
        return value
    }

    /// The value of an attribute that is not stored encrypted; nil for an encrypted one.
    private func openXattr(_ node: Node, _ name: [UInt8]) throws(VolumeError) -> [UInt8]? {
        try requireShown(node)
        if let own = OwnAttribute(name) { return try ownValue(own, of: node) }
        guard NameCipher.isACL(name) else { return nil }
        if known(node, \.hasACL) == false { throw .noAttribute }
        let object = try backing(node)
        if known(node, \.hasACL) == nil, !(try allNames(object, of: node)).contains(where: NameCipher.isACL) {
            throw .noAttribute
        }
        return try below { () throws(Errno) in try object.attribute(name) }
    }

    /// The encrypted attributes of an object, and the names that the store has of them.
    private func storedAttributes(
        _ node: Node, _ name: [UInt8]
    ) throws(VolumeError) -> (StoredAttributes, all: [[UInt8]]) {
        try requirePossible(name)
        if known(node, \.hasEncrypted) == false { throw .noAttribute }
        let object = try backing(node)
        // Most files have no attribute, and then no header is read.
        let all = try encryptedNames(object, of: node)
        guard !all.isEmpty else { throw .noAttribute }
        return (storedAttributes(object, try objectID(of: node)), all)
    }

    /// The encrypted attributes of an object in the store, whose ID is `id`.
    package func storedAttributes(_ object: BackingNode, _ id: ObjectID) -> StoredAttributes {
        StoredAttributes(object: object, id: id, names: names, overflow: overflow)
    }

    /// An object's attribute record. Reports one that is damaged or newer.
    private func record(
        _ attributes: StoredAttributes, _ all: [[UInt8]], _ node: Node
    ) throws(VolumeError) -> AttributeRecord {
        do throws(VolumeError) { return try attributes.record(in: all) } catch { throw reported(error, node) }
    }

    private func reported(_ error: VolumeError, _ node: Node) -> VolumeError {
        switch error {
        // Its overflow object belongs to the inode that has taken its place.
        case .damaged where node.state.withLock({ $0.isReplaced }): .stale
        case .damaged(let damage): damaged(damage, node)
        case .newer(let object): newer(object, inode: node.inode)
        default: error
        }
    }

    /// The names of all attributes. The volume's own attributes come first.
    package func listXattr(_ node: Node) throws(VolumeError) -> [[UInt8]] {
        try requireShown(node)
        var result: [[UInt8]] = []
        let hasClass = node.kind == .file || node.kind == .directory
        if hasClass, try listsProtection(of: node) { result.append(AttributeName.protection.bytes) }
        let object = try backing(node)
        let all = try allNames(object, of: node)
        result += all.filter(NameCipher.isACL)
        guard all.contains(where: NameCipher.isEncryptedAttribute) else { return result }
        do throws(VolumeError) {
            return result + (try encryptedNames(of: node, storedAttributes(object, try objectID(of: node)), all))
        } catch {
            // The names in a newer file cannot be read. The others are listed.
            guard case .newer = error else { throw error }
            return result
        }
    }

    /// The names of the encrypted attributes. Skips one that does not decrypt, and a record that does not or is newer.
    private func encryptedNames(
        of node: Node, _ attributes: StoredAttributes, _ all: [[UInt8]]
    ) throws(VolumeError) -> [[UInt8]] {
        var result: [[UInt8]] = []
        for name in all where NameCipher.isEncryptedAttribute(name, of: attributes.id) {
            if let plain = names.decodeAttribute(name, of: attributes.id) {
                if !plain.span.equals(AttributeName.record) { result.append(plain) }
            } else {
                notices.tell(.damaged(.attribute, inode: node.inode))
            }
        }
        do throws(VolumeError) {
            let record = try record(attributes, all, node)
            return result + record.names.filter { !result.contains($0) }
        } catch {
            if case .store = error { throw error }
            return result
        }
    }

    /// Sets an attribute.
    package func setXattr(
        _ node: Node, _ name: [UInt8], value: [UInt8], mode: AttributeMode
    ) throws(VolumeError) {
        try setXattr(node, name, value: value.span, mode: mode)
    }

    /// Sets an attribute. Makes no plaintext copy of the value, unless it is stored unencrypted.
    package func setXattr(
        _ node: Node, _ name: [UInt8], value: Span<UInt8>, mode: AttributeMode
    ) throws(VolumeError) {
        try requireWritable()
        defer { noteChange(node) }
        if let own = OwnAttribute(name) { return try setOwn(own, of: node, value: value, mode: mode) }
        try requireCurrent(node)
        if NameCipher.isACL(name) {
            let object = try backing(node)
            let list = value.copiedBytes()
            // Before the change too: a file that is made after it may have an ACL.
            node.directory?.contents.withLock { $0.hasDefaultACL = nil }
            defer {
                node.directory?.contents.withLock { $0.hasDefaultACL = nil }
                node.state.withLock { $0.attributes.changed() }
            }
            try below { () throws(Errno) in try object.setAttribute(name, list, mode: mode) }
            return try settleChange(of: node)
        }
        try requirePossible(name)
        let object = try backing(node)
        defer { node.state.withLock { $0.attributes.changed() } }
        let attributes = storedAttributes(object, try durableID(of: node))
        try changeAttributes(of: node) { (isOver) throws(VolumeError) in
            try attributes.set(name, to: value, mode: mode, isOver: isOver)
        }
        if name == AttributeName.capability.bytes {
            node.state.withLock { $0.mayHavePrivileges = nil }
        }
    }

    /// Removes an attribute; ENODATA if it does not exist.
    package func removeXattr(_ node: Node, _ name: [UInt8]) throws(VolumeError) {
        try requireWritable()
        defer { noteChange(node) }
        if let own = OwnAttribute(name) { return try removeOwn(own, of: node) }
        try requireCurrent(node)
        if NameCipher.isACL(name) {
            let object = try backing(node)
            try below { () throws(Errno) in try object.removeAttribute(name) }
            node.directory?.contents.withLock { $0.hasDefaultACL = nil }
            return try settleChange(of: node)
        }
        try requirePossible(name)
        if known(node, \.hasEncrypted) == false { throw .noAttribute }
        let object = try backing(node)
        try requireChangeableAttributes(of: node)
        try removeAttribute(name, of: node, object)
    }

    func removeAttribute(_ name: [UInt8], of node: Node, _ object: BackingNode) throws(VolumeError) {
        if known(node, \.hasEncrypted) == false { throw .noAttribute }
        guard try !encryptedNames(object, of: node).isEmpty else { throw .noAttribute }
        let attributes = storedAttributes(object, try objectID(of: node))
        try changeAttributes(of: node) { (isOver) throws(VolumeError) in try attributes.remove(name, isOver: isOver) }
    }

    // MARK: helpers

    /// Runs `change`, which gives the overflow object that the object has now, while nothing else changes its attributes. `change`
    /// gets the question whether a copy has taken the inode's place; to that one the former overflow object belongs, too.
    private func changeAttributes(
        of node: Node, _ change: (_ isOver: () -> Bool) throws(VolumeError) -> ObjectID?
    ) throws(VolumeError) {
        try attributeStripes[node].withLock { (_) throws(VolumeError) in
            do throws(VolumeError) {
                let overflow = try change { isReplacedAfterChange(node) }
                try settleChange(of: node)
                if node.isUnlinked { removeAtEnd(overflow, of: node) }
            } catch { throw reported(error, node) }
        }
    }

    /// What is known of an object's attributes; nil if nothing is.
    private func known(_ node: Node, _ field: KeyPath<KnownAttributes, Bool?>) -> Bool? {
        options.isShared ? nil : node.state.withLock { $0.attributes[keyPath: field] }
    }

    /// Refuses names that no encrypted attribute can have: those outside the namespaces, and, as ext4, a namespace alone. The
    /// kernel lets only files and directories have `user.*`.
    private func requirePossible(_ name: [UInt8]) throws(VolumeError) {
        let bytes = name.span
        guard let namespace = AttributeName.namespaces.first(where: { bytes.hasText($0) }) else { throw .notSupported }
        guard bytes.count > namespace.utf8CodeUnitCount else { throw .invalid }
        guard bytes.count <= NameLimits.longestAttribute else { throw .refused(.ERANGE) }
    }

    /// The names that the store has of encrypted attributes; none if the store has no attributes.
    private func encryptedNames(_ object: BackingNode, of node: Node) throws(VolumeError) -> [[UInt8]] {
        do throws(VolumeError) {
            return try allNames(object, of: node).filter { NameCipher.isEncryptedAttribute($0) }
        } catch {
            if error == .store(.EOPNOTSUPP) { return [] }
            throw error
        }
    }

    /// All names that the store has of an object's attributes. Notes what they tell.
    private func allNames(_ object: BackingNode, of node: Node) throws(VolumeError) -> [[UInt8]] {
        let number = node.state.withLock { $0.attributes.changes }
        let all = try below { () throws(Errno) in try object.attributeNames() }
        node.state.withLock { $0.attributes.note(all, seenAt: number) }
        return all
    }

    /// The ID that a new attribute is bound to. It is on disk before an attribute depends on it.
    private func durableID(of node: Node) throws(VolumeError) -> ObjectID {
        if let content = content(of: node) {
            try content.requireChangeable()
            try content.flushHeader()
        } else if node.kind == .directory {
            try renewRecord(of: node, always: true)
            try requireChangeable(node)
        } else if node.kind != .file {
            // It has no ID.
        } else if let header = try header(of: node) {
            if header.flags.areReadableOnly { throw newer(.header, inode: node.inode) }
            try checkIdentity(header.fileID, of: node)
            return header.fileID
        } else {
            // The file has no header because of a crash. It is written now (rule R0).
            try withContent(node, writable: true) { (content) throws(VolumeError) in try content.repair() }
        }
        return try objectID(of: node)
    }

    /// The ID that names and values are bound to. It comes from the directory's record or the file's header. Other objects have
    /// none: their attributes are bound to each other only.
    package func objectID(of node: Node) throws(VolumeError) -> ObjectID {
        guard node.kind == .file || node.kind == .directory else { return .absent }
        if node.kind == .directory {
            guard let id = try directoryID(node) else { throw damaged(.missingRecord, node) }
            return id
        }
        if let id = node.state.withLock({ $0.fileID }) { return id }
        guard let header = try header(of: node) else { throw damaged(.missingHeader, node) }
        try checkIdentity(header.fileID, of: node)
        return header.fileID
    }

    // MARK: overflow objects

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
