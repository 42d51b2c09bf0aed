// Proves what a file is, and keeps what a newer version has made: it is not replaced, and nothing is changed where it decides.

package import BackingStore
package import FileContents
internal import HostSystem
package import KeyFiles
internal import Keybag
package import VolumeFormat

extension Volume {
    // MARK: the class of a file

    /// The proven class of an entry's file; nil for a file without header (rule R0).
    ///
    /// The proof is the open content, or block 0. While the class is closed it is an earlier proof of this mount, if the header
    /// still agrees with it.
    ///
    /// - Parameters:
    ///   - isReplaced: whether the file is about to be replaced, so that its last block and its attributes must be known, too.
    ///   - opened: the file, if the caller has opened it.
    /// - Throws: `.locked(.complete)` if the class cannot be proven now, because the file may be of class A, whatever
    ///   the header claims. `.damaged` if header or block 0 does not verify. `.newer`.
    package func verifiedClass(
        of name: EntryName, _ status: Status, in directory: BackingDirectory, isReplaced: Bool = false,
        opened: BackingFile? = nil
    ) throws(VolumeError) -> VerifiedClass? {
        let node = nodes.known(InodeKey(status))
        if let content = node?.state.withLock({ $0.content }) {
            if isReplaced { try requireKnownAttributes(of: content.backing, status) { content.header.fileID } }
            return VerifiedClass(content.header)
        }
        let file = try below { () throws(Errno) in
            if let opened { opened } else { try directory.openFile(name, .readOnly, seen: status) }
        }
        if isReplaced {
            try requireKnownAttributes(of: file, status) { [content] in
                try? FileContent.header(in: content, backing: file)?.fileID
            }
        }
        do throws(VolumeError) {
            return try FileContent.verifiedHeader(in: content, backing: file, isReplaced: isReplaced).map {
                VerifiedClass($0)
            }
        } catch {
            guard case .locked = error else { throw error }
            guard let node, let header = try FileContent.header(in: content, backing: file) else {
                throw .locked(.complete)
            }
            let (known, id) = node.state.withLock { ($0.verified, $0.fileID) }
            guard let known, id == header.fileID, known.agrees(with: header) else { throw .locked(.complete) }
            return known
        }
    }

    /// The class that a file passes on to others through its name: the proven one. If the class is closed, and this mount has
    /// proven nothing of the file, the header's class.
    ///
    /// Only a closed class cannot be proven. So a forged header can only pass on a class that is closed in this state too. An
    /// attacker who can forge it can also remove the file.
    /// - Throws: `.locked(.complete)` if the header differs from the one that this mount has proven. `.damaged` if
    ///   header or block 0 does not verify.
    func classForNames(
        of name: EntryName, _ status: Status, in directory: BackingDirectory, isReplaced: Bool = false,
        opened: BackingFile? = nil
    ) throws(VolumeError) -> VerifiedClass? {
        do throws(VolumeError) {
            return try verifiedClass(of: name, status, in: directory, isReplaced: isReplaced, opened: opened)
        } catch {
            let known = nodes.known(InodeKey(status))?.state.withLock { $0.verified }
            guard case .locked = error, known == nil, let header = try header(of: name, status, in: directory) else {
                throw error
            }
            return VerifiedClass(header)
        }
    }

    /// Opens an empty file of a closed class under a new key, if it can have one. A header that differs from the one that this
    /// mount has proven is no proof of the class. One that late records may wait for is not certainly empty.
    func openEmpty(_ node: Node, _ backing: BackingFile, _ status: Status) throws(VolumeError) -> FileContent? {
        let (known, id) = node.state.withLock { ($0.verified, $0.fileID) }
        return try FileContent.openEmpty(in: content, backing: backing, status) { header in
            (known?.agrees(with: header) ?? true) && (id ?? header.fileID) == header.fileID
                && !late.mayOwe(header.fileID)
        }
    }

    // MARK: older versions

    /// Accepts a file, or all files, although this machine has seen later versions of them.
    package func accept(_ node: Node?) throws(VolumeError) {
        try requireWritable()
        guard let seen = content.seen else { throw .notSupported }
        var file: ObjectID?
        if let node {
            // One that was never written, after a crash, has no version.
            guard let header = try header(of: node) else { return }
            file = header.fileID
        }
        do throws(Errno) { try seen.accept(file) } catch { throw .refused(error) }
        notices.acceptOlder(inode: node?.inode)
    }

    /// The number of files that were opened, are older than this machine has seen them, and are not accepted.
    package var olderFiles: Int { notices.olderFiles }

    /// The ID of a file that is about to lose its last name, if this machine knows versions.
    ///
    /// - Parameter opened: the file, if it is open already.
    func seenFile(
        _ name: EntryName, _ status: Status, in directory: BackingDirectory, opened: BackingFile? = nil
    ) -> ObjectID? {
        guard status.kind == .regular, status.links <= 1, let seen = content.seen, !seen.isEmpty else { return nil }
        if let id = nodes.known(InodeKey(status))?.state.withLock({ $0.content?.fileID ?? $0.fileID }) { return id }
        guard let file = opened ?? (try? directory.openFile(name, .readOnly, seen: status)) else { return nil }
        do throws(VolumeError) { return try FileContent.header(in: content, backing: file)?.fileID } catch {
            return nil
        }
    }

    /// A file has lost its last name.
    func forgetSeen(_ file: ObjectID?) {
        if let file { content.seen?.forget(file) }
    }

    // MARK: newer versions

    /// Refuses a change in a directory whose record a newer version has made. A directory without a record can still lose
    /// entries.
    func requireChangeable(_ directory: Node) throws(VolumeError) {
        try renewRecord(of: directory, always: false)
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
        _ name: EntryName, _ status: Status, in directory: BackingDirectory, isReplaced: Bool = false
    ) throws(VolumeError) {
        switch status.kind {
        case .regular:
            do throws(VolumeError) {
                let file = try verifiedClass(of: name, status, in: directory, isReplaced: isReplaced)
                try requireKnown(file, status)
            } catch {
                if case .newer = error { throw error }
            }
        case .symlink:
            if let target = try? directory.readSymlink(name), names.isNewerTarget(target) {
                throw newer(.symlink, inode: status.inode)
            }
            fallthrough
        default:
            guard isReplaced else { return }
            let object = try below { () throws(Errno) in try directory.node(name) }
            try requireKnownAttributes(of: object, status) { .absent }
        }
    }

    /// The same for a file whose header has been read. `nil` is a file without header (rule R0).
    func requireKnown(_ file: VerifiedClass?, _ status: Status) throws(VolumeError) {
        if file?.flags.areReadableOnly ?? false { throw newer(.header, inode: status.inode) }
    }

    /// Refuses a file whose key has a generation of which nothing tells, before the first unlock, whether it is newer. Later it
    /// is judged whenever the header is read.
    func requireKnownGeneration(
        of name: EntryName, _ status: Status, in directory: BackingDirectory
    ) throws(VolumeError) {
        guard keys.state == .beforeFirstUnlock, status.kind == .regular else { return }
        let header: FileHeader?
        do throws(VolumeError) { header = try self.header(of: name, status, in: directory) } catch {
            // What is damaged or newer is refused elsewhere.
            return
        }
        guard let header else { return }
        let isKnown = keys.withState { (keys: borrowing HeldKeys) in
            keys.isKnown(generation: header.keyGeneration, of: header.protectionClass)
        }
        guard isKnown else { throw .locked(header.protectionClass) }
    }

    /// Refuses to replace an object with an attribute whose value a newer version has set.
    ///
    /// - Parameter id: the ID that the attributes are bound to; nil if it is not known. Is asked only if a value is not of this
    ///   version.
    func requireKnownAttributes(
        of object: BackingNode, _ status: Status, _ id: () -> ObjectID?
    ) throws(VolumeError) {
        if try hasNewerAttribute(object, id) { throw newer(.attribute, inode: status.inode) }
    }

    /// The ID of a directory, by its record; nil if that does not verify.
    func recordedID(in directory: BackingDirectory) -> ObjectID? {
        (try? directory.readSymlink(BackingName.record)).flatMap { names.record(target: $0)?.directoryID }
    }

    /// Whether a newer version has set the value of an attribute.
    package func hasNewerAttribute(_ object: BackingNode, _ id: () -> ObjectID?) throws(VolumeError) -> Bool {
        do throws(Errno) {
            for stored in try object.attributeNames() where NameCipher.isEncryptedAttribute(stored) {
                let value: [UInt8]
                do throws(Errno) { value = try object.attribute(stored) } catch {
                    if error == .ENODATA { continue }
                    throw error
                }
                guard NameCipher.mayBeNewer(value: value), let id = id(),
                    let name = names.decodeAttribute(stored, of: id)
                else { continue }
                if names.isNewerValue(value, name: name, of: id) { return true }
            }
        } catch {
            // A store without attributes.
            guard error == .EOPNOTSUPP else { throw .store(error) }
        }
        return false
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
