// Extended attributes: encrypts names and values, passes ACLs through, and answers the volume's own names.

package import BackingStore
internal import HostSystem
internal import VolumeFormat

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
        let (stored, id) = try sealedXattr(node, name)
        guard let length = Envelope.contentLength(stored: stored.count) else { throw damaged(.attribute, node) }
        guard length <= buffer.count else { throw .refused(.ERANGE) }
        guard names.openValue(stored, name: name, of: id, into: &buffer) else {
            throw refusal(of: stored, name: name, of: id, node)
        }
        return length
    }

    /// The same into an array, which is not wiped. Only for a check, whose process ends soon, and not for a mount.
    package func getXattr(_ node: Node, _ name: [UInt8]) throws(VolumeError) -> [UInt8] {
        if let open = try openXattr(node, name) { return open }
        let (stored, id) = try sealedXattr(node, name)
        guard let value = names.openValue(stored, name: name, of: id) else {
            throw refusal(of: stored, name: name, of: id, node)
        }
        return value
    }

    /// The value of an attribute that is not stored encrypted; nil for an encrypted one.
    private func openXattr(_ node: Node, _ name: [UInt8]) throws(VolumeError) -> [UInt8]? {
        if let own = OwnAttribute(name) { return try ownValue(own, of: node) }
        guard Self.isACL(name) else { return nil }
        let object = try backing(node)
        return try below { () throws(Errno) in try object.attribute(name) }
    }

    /// The stored bytes of an encrypted attribute, and the ID that they are bound to.
    private func sealedXattr(
        _ node: Node, _ name: [UInt8]
    ) throws(VolumeError) -> (stored: [UInt8], id: ObjectID) {
        let object = try object(for: name, of: node)
        // Most files have no attribute, and then no header is read.
        guard try hasEncrypted(object) else { throw .noAttribute }
        let id = try objectID(of: node)
        let backingName = try names.encodeAttribute(name, of: id)
        return (try below { () throws(Errno) in try object.attribute(backingName) }, id)
    }

    /// The names of all attributes. The volume's own attributes come first.
    package func listXattr(_ node: Node) throws(VolumeError) -> [[UInt8]] {
        guard node.kind == .file || node.kind == .directory else {
            let object = try backing(node)
            let all = try below { () throws(Errno) in try object.attributeNames() }
            return all.filter(Self.isACL) + all.compactMap { names.decodeAttribute($0, of: .absent) }
        }
        var result: [[UInt8]] = []
        let protection = NameCipher.bytes(of: AttributeName.protection)
        if try listsProtection(of: node) { result.append(protection) }
        let object = try backing(node)
        let all = try below { () throws(Errno) in try object.attributeNames() }
        var id: ObjectID?
        for name in all where Self.isACL(name) { result.append(name) }
        for name in all where Self.isEncrypted(name) {
            do throws(VolumeError) {
                if id == nil { id = try objectID(of: node) }
            } catch {
                // The names in a newer file cannot be read. The others are listed.
                guard case .newer = error else { throw error }
                return result
            }
            guard let plain = id.flatMap({ names.decodeAttribute(name, of: $0) }) else {
                // Skips an attribute that does not decrypt, and lists the others.
                report(.damaged(.attribute, inode: node.inode))
                continue
            }
            result.append(plain)
        }
        return result
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
        if Self.isACL(name) {
            let object = try backing(node)
            let list = value.copiedBytes()
            try below { () throws(Errno) in try object.setAttribute(name, list, mode: mode) }
            node.directory?.contents.withLock { $0.hasDefaultACL = nil }
            return
        }
        let object = try object(for: name, of: node)
        // The ID must be on disk before an attribute depends on it.
        if let content = content(of: node) {
            try content.requireChangeable()
            try content.flushHeader()
        } else if node.kind == .directory {
            try requireChangeable(node)
        } else if node.kind != .file {
            // It has no ID.
        } else if let header = try header(of: node) {
            if header.flags.areReadableOnly { throw newer(.header, inode: node.inode) }
        } else {
            // The file has no header because of a crash. It is written now (rule R0).
            try withContent(node, writable: true) { (content) throws(VolumeError) in try content.repair() }
        }
        let id = try objectID(of: node)
        let backingName = try names.encodeAttribute(name, of: id)
        let stored = names.sealValue(value, name: name, of: id)
        // ext4 returns ENOSPC for a value that is too large for its block.
        try store(stored, at: backingName, of: object, mode) { (old) throws(VolumeError) in
            if names.isNewerValue(old, name: name, of: id) { throw newer(.attribute, inode: node.inode) }
        }
        if name == NameCipher.bytes(of: "security.capability") {
            node.state.withLock { $0.mayHavePrivileges = nil }
        }
    }

    /// Removes an attribute; ENODATA if it does not exist.
    package func removeXattr(_ node: Node, _ name: [UInt8]) throws(VolumeError) {
        try requireWritable()
        defer { noteChange(node) }
        if let own = OwnAttribute(name) { return try removeOwn(own, of: node) }
        if Self.isACL(name) {
            let object = try backing(node)
            try below { () throws(Errno) in try object.removeAttribute(name) }
            node.directory?.contents.withLock { $0.hasDefaultACL = nil }
            return
        }
        let object = try object(for: name, of: node)
        try requireChangeableAttributes(of: node)
        try removeAttribute(name, of: node, object)
    }

    func removeAttribute(_ name: [UInt8], of node: Node, _ object: BackingNode) throws(VolumeError) {
        guard try hasEncrypted(object) else { throw .noAttribute }
        let backingName = try names.encodeAttribute(name, of: try objectID(of: node))
        try below { () throws(Errno) in try object.removeAttribute(backingName) }
    }

    // MARK: helpers

    /// Stores a value. If there is one already, `judge` may refuse to replace it.
    private func store(
        _ value: [UInt8], at name: [UInt8], of object: BackingNode, _ mode: AttributeMode,
        _ judge: ([UInt8]) throws(VolumeError) -> Void
    ) throws(VolumeError) {
        if mode != .replace {
            do throws(Errno) {
                return try object.setAttribute(name, value, mode: .create)
            } catch {
                guard error == .EEXIST, mode == .set else { throw .store(error) }
            }
        }
        try judge(below { () throws(Errno) in try object.attribute(name) })
        try below { () throws(Errno) in try object.setAttribute(name, value, mode: mode) }
    }

    /// The backing object for an attribute that is stored encrypted. Refuses names that no object can have: those outside the
    /// namespaces, and, as ext4, a namespace alone. The kernel lets only files and directories have `user.*`.
    private func object(for name: [UInt8], of node: Node) throws(VolumeError) -> BackingNode {
        let bytes = name.span
        guard let namespace = AttributeName.namespaces.first(where: { bytes.hasText($0) }) else { throw .notSupported }
        guard bytes.count > namespace.utf8CodeUnitCount else { throw .invalid }
        return try backing(node)
    }

    private func hasEncrypted(_ object: BackingNode) throws(VolumeError) -> Bool {
        do throws(Errno) {
            return try object.attributeNames().contains { NameCipher.isEncryptedAttribute($0) }
        } catch {
            if error == .EOPNOTSUPP { return false }
            throw .store(error)
        }
    }

    /// The ID that names and values are bound to. It comes from the directory's record or the file's header. Other objects have
    /// none: their attributes are bound to each other only.
    func objectID(of node: Node) throws(VolumeError) -> ObjectID {
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

    private static func isEncrypted(_ name: [UInt8]) -> Bool {
        name.span.hasText(AttributeName.encryptedPrefix)
    }

    private static func isACL(_ name: [UInt8]) -> Bool {
        let bytes = name.span
        return bytes.equals(AttributeName.accessACL) || bytes.equals(AttributeName.defaultACL)
    }
}
