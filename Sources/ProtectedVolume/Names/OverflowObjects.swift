// Overflow objects: what has no room in its own object of the store, each in a file of the directory `.protectfs.overflow`.

package import BackingStore
internal import CLibrary
package import HostSystem
package import KeyFiles
internal import Keybag
internal import SodiumKit
package import VolumeFormat

/// The directory of overflow objects, and what is in it. Thread-safe.
///
/// An object is written once and never changed. It is durable before anything refers to it, and removed after nothing refers to
/// it any more; so a crash can only leave objects to which nothing refers, and a check finds them.
package final class OverflowObjects: Sendable {
    private let root: BackingDirectory
    private let keys: MetadataKeys
    private let opened = Lock<BackingDirectory?>(nil)
    /// Whether the volume has the directory; nil if that is not known.
    private let isKnownToExist = Lock<Bool?>(nil)
    /// Whether changes of names reach the disk in order.
    let keepsOrder: Bool
    /// Notes durably that this mount makes or replaces an object, so that a check after a crash may remove it.
    private let note: @Sendable (ObjectID) throws(VolumeError) -> Void

    init(
        root: BackingDirectory, keys: MetadataKeys,
        note: @escaping @Sendable (ObjectID) throws(VolumeError) -> Void = { (_) throws(VolumeError) in }
    ) {
        self.root = root
        self.keys = keys
        self.note = note
        keepsOrder = root.keepsOrder
    }

    /// Whether an object may have an overflow object: whether the volume ever had one.
    var isUsed: Bool {
        isKnownToExist.withLock { known in
            if let known { return known }
            let exists = (try? directory()) != nil
            known = exists
            return exists
        }
    }

    /// Writes `content` into a new object, which is durable when this returns.
    func add(_ content: Span<UInt8>) throws(VolumeError) -> OverflowReference {
        let id = NameCipher.randomID()
        try note(id)
        do throws(Errno) { return try add(content, id) } catch { throw .store(error) }
    }

    /// Called before a reference to an object is replaced.
    func willReplace(_ id: ObjectID) throws(VolumeError) { try note(id) }

    private func add(_ content: Span<UInt8>, _ id: ObjectID) throws(Errno) -> OverflowReference {
        let directory = try opened.withLock { (opened: inout BackingDirectory?) throws(Errno) -> BackingDirectory in
            if let opened { return opened }
            let directory = try make()
            opened = directory
            isKnownToExist.withLock { $0 = true }
            return directory
        }
        let sealed = Envelope.seal(content, key: keys.overflow, boundTo: NameCipher.bytes(of: id))
        let name = Self.name(of: id)
        let file = try directory.createOwnFile(name, mode: 0o600)
        do throws(Errno) {
            try file.giveToOwner(of: root)
            try file.write(sealed.span, at: 0)
            try file.synchronize(dataOnly: false)
            try directory.synchronize()
        } catch {
            try? directory.unlink(name)
            throw error
        }
        return OverflowReference(id: id, contentLength: content.count)
    }

    /// The content to which a reference leads.
    ///
    /// - Parameter owner: what refers to it, for the error if it is missing, does not verify, or is of a newer version.
    package func content(of reference: OverflowReference, owner: Damage) throws(VolumeError) -> [UInt8] {
        var content = [UInt8](repeating: 0, count: reference.contentLength)
        var room = content.mutableSpan
        try read(reference, owner: owner, into: &room)
        return content
    }

    /// The same in locked memory.
    func secret(of reference: OverflowReference, owner: Damage) throws(VolumeError) -> SecretBytes {
        var content = try NameCipher.memory(reference.contentLength)
        try content.withMutableBytes { (room) throws(VolumeError) in try read(reference, owner: owner, into: &room) }
        // The cipher leaves its last block on the stack.
        wipeStackBelow()
        return content
    }

    private func read(
        _ reference: OverflowReference, owner: Damage, into content: inout MutableSpan<UInt8>
    ) throws(VolumeError) {
        let stored: [UInt8]
        do throws(Errno) {
            let file = try directory().openFile(Self.name(of: reference.id), .readOnly)
            let length = Envelope.storedLength(content: reference.contentLength)
            guard try file.status().size == UInt64(length) else { throw .ENOENT }
            var bytes = [UInt8](repeating: 0, count: length)
            var room = bytes.mutableSpan
            guard try file.read(into: &room, at: 0) == length else { throw .ENOENT }
            stored = bytes
        } catch {
            throw Self.isMissing(error) ? .damaged(owner) : .store(error)
        }
        let isOpen = Envelope.open(
            stored, key: keys.overflow, boundTo: NameCipher.bytes(of: reference.id), into: &content)
        guard isOpen else { throw .damaged(owner) }
        guard Envelope.isOurs(stored) else { throw .newer(owner) }
    }

    /// Removes an object to which nothing refers any more.
    func remove(_ id: ObjectID) {
        try? directory().unlink(Self.name(of: id))
    }

    /// The directory; ENOENT if the volume never had an overflow object.
    package func directory() throws(Errno) -> BackingDirectory {
        try opened.withLock { (opened: inout BackingDirectory?) throws(Errno) -> BackingDirectory in
            if let opened { return opened }
            let directory = try root.openDirectory(BackingName.overflow)
            opened = directory
            return directory
        }
    }

    private func make() throws(Errno) -> BackingDirectory {
        do throws(Errno) {
            try root.createOwnDirectory(BackingName.overflow, mode: 0o700)
            try root.node(BackingName.overflow).giveToOwner(of: root)
            try root.synchronize()
        } catch { if error != .EEXIST { throw error } }
        return try root.openDirectory(BackingName.overflow)
    }

    private static func isMissing(_ error: Errno) -> Bool {
        switch error {
        case .ENOENT, .ENOTDIR, .ELOOP, .EISDIR, .ENXIO: true
        default: false
        }
    }

    /// The name of an object in the directory.
    static func name(of id: ObjectID) -> EntryName { BackingName.known(Base64URL.encode(id.bytes.span)) }

    /// The object with a name in the directory; nil for a name that no object has.
    package static func id(of name: EntryName) -> ObjectID? {
        guard let bytes = Base64URL.decode(Array(name.bytes).span), bytes.count == ObjectID.length else { return nil }
        return ObjectID(bytes.span)
    }
}

extension BackingNode {
    /// Gives an object of the volume's own, which root has made, to the owner of the volume.
    package func giveToOwner(of root: BackingDirectory) throws(Errno) {
        guard Credentials.isRoot else { return }
        let status = try root.status()
        try setOwner(status.owner, group: status.group)
    }
}
