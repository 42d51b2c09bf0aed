// Keeps what a newer version has made: it is not replaced, and nothing is changed where it decides.

package import BackingStore
internal import FileContents
internal import HostSystem
package import KeyFiles
internal import Keybag
package import VolumeFormat

extension Volume {
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
