// Protection classes as attributes: a file's class, a directory's default class, and the state of the mount.

internal import BackingStore
internal import Keybag
internal import HostSystem
package import VolumeFormat

/// The volume's own attributes.
enum OwnAttribute {
    case protection
    case state
    case flags
    /// A reserved name without a value.
    case reserved

    init?(_ name: [UInt8]) {
        let bytes = name.span
        if bytes.equals(AttributeName.protection) {
            self = .protection
        } else if bytes.equals(AttributeName.state) {
            self = .state
        } else if bytes.equals(AttributeName.flags) {
            self = .flags
        } else if bytes.hasText(AttributeName.ownPrefix) {
            self = .reserved
        } else {
            return nil
        }
    }
}

extension Volume {
    // MARK: reading

    /// A file's class, or a directory's default class; nil if there is none. Reads a file's header if its class is not
    /// known.
    package func protectionClass(of node: Node) throws(VolumeError) -> ProtectionClass? {
        switch node.kind {
        case .directory: return try defaultClass(node)
        case .file:
            if !options.isShared, let known = node.protectionClass { return known }
            guard let header = try header(of: node) else {
                let parent = node.state.withLock { $0.place?.parent }
                return try parent.map { (parent) throws(VolumeError) in try classWithoutHeader(in: parent) }
            }
            return header.protectionClass
        default: return nil
        }
    }

    /// A file's class, or the class that a directory gives new files. Nil if it cannot be read.
    package func classInForce(of node: Node) -> ProtectionClass? {
        node.kind == .directory ? try? classForNewFile(in: node) : try? protectionClass(of: node)
    }

    /// A file's header; nil if it has none because of a crash (rule R0). Needs no key of the file.
    ///
    /// If the file is not open, this verifies only the header's MAC, which is enough to show the class. Decisions need
    /// `verifiedClass`.
    package func header(of node: Node) throws(VolumeError) -> FileHeader? {
        guard node.kind == .file else { return nil }
        if let content = content(of: node) {
            try content.refresh(always: true)
            node.remember(claimed: content.protectionClass)
            return content.header
        }
        if node.state.withLock({ $0.isUndecryptable }) { throw damaged(.name, node) }
        let header = try FileContent.header(in: content, backing: try openBacking(node))
        if let header { node.remember(claimed: header.protectionClass) }
        return header
    }

    /// The header of a backing entry that need not be a known node.
    func header(
        of name: EntryName, _ status: Status, in directory: BackingDirectory
    ) throws(VolumeError) -> FileHeader? {
        if let content = nodes.known(InodeKey(status))?.state.withLock({ $0.content }) { return content.header }
        let file = try below { () throws(Errno) in try directory.openFile(name, .readOnly) }
        return try FileContent.header(in: content, backing: file)
    }

    /// Whether a listing names the class, so that copies carry it: someone has chosen it, or a copy without it may get a weaker
    /// one. What cannot be read is listed, so that a copy fails and does not weaken.
    func listsProtection(of node: Node) throws(VolumeError) -> Bool {
        guard node.kind == .directory else { return (try? listsClass(ofFile: node)) ?? true }
        guard let record = try record(of: node) else { return false }
        if record.known == .names { return true }
        guard let own = record.defaultClass else { return false }
        guard node !== root, let parent = node.state.withLock({ $0.place?.parent }),
            (try? self.record(of: parent))?.defaultClass == own
        else { return true }
        return (try? own.isStronger(than: leastDefault())) ?? true
    }

    private func listsClass(ofFile node: Node) throws(VolumeError) -> Bool {
        let header = try header(of: node)
        if header?.flags.contains(.explicit) == true { return true }
        var own = header?.protectionClass
        if own == nil { own = try protectionClass(of: node) }
        guard let own else { return false }
        return try own.isStronger(than: leastDefault())
    }

    /// The weakest class that a new file gets without a directory's default. Another mount may have another option than this.
    private func leastDefault() throws(VolumeError) -> ProtectionClass {
        if let stored = try record(of: root)?.defaultClass { return stored }
        let usual = ProtectionClass.volumeDefault
        return options.defaultClass.isStronger(than: usual) ? usual : options.defaultClass
    }

    func ownValue(_ attribute: OwnAttribute, of node: Node) throws(VolumeError) -> [UInt8] {
        switch attribute {
        case .protection:
            guard node.kind == .file || node.kind == .directory else { throw .notSupported }
            guard let value = try protectionClass(of: node) else { throw .noAttribute }
            return NameCipher.bytes(of: value.canonical)
        case .state:
            guard node === root else { throw .noAttribute }
            return NameCipher.bytes(of: keys.state.attributeValue)
        case .flags:
            guard node.kind == .file else { throw .noAttribute }
            guard let flags = try header(of: node)?.flags else { return [] }
            var words: [String] = []
            if flags.contains(.explicit) { words.append("explicit") }
            if flags.contains(.keyExposed) { words.append("key-exposed") }
            if flags.contains(.holes) { words.append("holes") }
            return Array(words.joined(separator: ",").utf8)
        case .reserved: throw .noAttribute
        }
    }

    // MARK: writing

    func setOwn(
        _ attribute: OwnAttribute, of node: Node, value: Span<UInt8>, mode: AttributeMode
    ) throws(VolumeError) {
        guard case .protection = attribute else { throw .refused(.EPERM) }
        guard node.kind == .file || node.kind == .directory else { throw .notSupported }
        let wanted: ProtectionClass
        switch ProtectionClass.request(value) {
        case .known(let known): wanted = known
        case .inherit:
            guard node.kind == .directory else { throw .invalid }
            return try setDefault(nil, of: node, mode: mode)
        case .reserved: throw .notSupported
        case .invalid: throw .invalid
        }
        if node.kind == .directory { return try setDefault(wanted, of: node, mode: mode) }
        if mode == .create { throw .exists }
        try changeClass(of: node, to: wanted)
    }

    /// Changes a file's class, for `setxattr`. Rewrites only page 0, and marks the class as explicitly set.
    package func changeClass(of node: Node, to wanted: ProtectionClass) throws(VolumeError) {
        try requireWritable()
        guard let current = try protectionClass(of: node) else { throw .notSupported }
        try keys.withState { (held) throws(VolumeError) in
            guard ClassChange.isAllowed(from: current, to: wanted, state: held.state) else {
                throw .locked(current.isStronger(than: wanted) ? current : wanted)
            }
        }
        do throws(VolumeError) {
            try withContent(node, writable: true) { (content) throws(VolumeError) in
                try content.changeClass(to: wanted, explicit: true)
                node.remember(class: content.protectionClass)
            }
        } catch {
            // Setting the present class succeeds in every state. EXPLICIT is set if the key is available.
            guard case .locked = error, current == wanted else { throw error }
        }
    }

    private func setDefault(
        _ wanted: ProtectionClass?, of node: Node, mode: AttributeMode
    ) throws(VolumeError) {
        if let wanted, options.leastDefault.isStronger(than: wanted) { throw .refused(.EPERM) }
        var record = try recordForCreating(in: node)
        guard let state = node.directory else { throw .refused(.ENOTDIR) }
        try state.structure.withLock { (_) throws(VolumeError) in
            let current = try defaultClass(node)
            if mode == .create, current != nil { throw .exists }
            if mode == .replace, current == nil { throw .noAttribute }
            if current == wanted { return }
            record.defaultClass = wanted
            try replaceRecord(record, of: node)
        }
    }

    func removeOwn(_ attribute: OwnAttribute, of node: Node) throws(VolumeError) {
        guard case .protection = attribute else { throw .noAttribute }
        switch node.kind {
        // A copying program removes what its source does not have. That changes no class, and must not fail.
        case .directory:
            guard try defaultClass(node) != nil else { throw .noAttribute }
            _ = try recordForCreating(in: node)
        case .file:
            // EXPLICIT is cleared if the key is available.
            do throws(VolumeError) {
                try withContent(node, writable: true) { (content) throws(VolumeError) in
                    try content.removeExplicit()
                }
            } catch {
                guard case .locked = error else { throw error }
            }
        default: throw .notSupported
        }
    }

    // MARK: re-encryption

    /// Gives a file a new key and class. Writes a new backing file under a temporary name and renames it over the old
    /// one. The file ID, attributes, owner, mode and times stay the same. The node then has no name, and a lookup finds
    /// the new inode.
    ///
    /// An empty file has nothing to encrypt, so it keeps its inode and gets the new key in place.
    ///
    /// If the new class is stronger, the old inode takes it first, so that it also applies to handles that are open
    /// already.
    ///
    /// - Parameters:
    ///   - explicit: marks the class as chosen by someone. False leaves the mark as it is.
    ///   - progress: gets the number of bytes done. If it returns false, the change ends with EINTR and changes nothing.
    /// - Returns: whether the file has a new inode.
    /// - Throws: EBUSY while the file is open for writing, EMLINK if it is not empty and has several names.
    @discardableResult
    package func reencrypt(
        _ node: Node, to wanted: ProtectionClass, explicit: Bool = true, progress: (UInt64) -> Bool = { _ in true }
    ) throws(VolumeError) -> Bool {
        try requireWritable()
        guard node.kind == .file else { throw .notSupported }
        guard let place = node.state.withLock({ $0.place }) else { throw .stale }
        return try withContent(node, writable: false) { (content) throws(VolumeError) in
            let (writers, opens) = node.state.withLock { ($0.writableHandles, $0.writableOpens) }
            guard writers == 0 else { throw .refused(.EBUSY) }
            if try content.renewIfEmpty(class: wanted, explicit: explicit) {
                node.remember(class: content.protectionClass)
                return false
            }
            let former = content.header
            try reach(node) { (directory, name, status) throws(VolumeError) in
                guard status.links == 1 else { throw .refused(.EMLINK) }
                let temporary = BackingName.temporary()
                let made = try below { () throws(Errno) in try directory.createFile(temporary, mode: 0o600) }
                do throws(VolumeError) {
                    try content.reencrypt(into: made, class: wanted, explicit: explicit) { done in
                        // A handle is open for writing, so the copy may be outdated.
                        progress(done) && node.state.withLock { $0.writableOpens } == opens
                    }
                    try copyMetadata(from: content.backing, to: made)
                    try below { () throws(Errno) in try made.synchronize(dataOnly: false) }
                    if ClassChange.isTightening(from: former.protectionClass, to: wanted) {
                        // After a power cut before the rename, the file may as well have its class of before.
                        try content.changeClass(to: wanted, explicit: false, isDurable: false)
                        node.remember(class: wanted)
                    }
                    // This lock lets no open come between the last test and the rename, or find the old inode after it.
                    try stripe(node).withLock { (_) throws(VolumeError) in
                        try below { () throws(Errno) in
                            // The file may have been written, linked or removed meanwhile, even if no writer has it
                            // open now.
                            let now = try directory.status(of: name)
                            guard node.state.withLock({ $0.writableOpens }) == opens, now.inode == status.inode,
                                now.links == 1
                            else { throw .EBUSY }
                            try directory.rename(temporary, to: directory, name)
                        }
                        let pin = pins.pin { () throws(Errno) in content.backing }
                        nodes.unlinked(node, at: place, pin: pin, isLast: true)
                        node.state.withLock { $0.isSuperseded = true }
                    }
                } catch {
                    try? directory.unlink(temporary)
                    if content.protectionClass != former.protectionClass {
                        try? content.changeClass(
                            to: former.protectionClass, explicit: false,
                            clearingExposure: !former.flags.contains(.keyExposed))
                        node.remember(class: content.protectionClass)
                    }
                    let isWritten = node.state.withLock { $0.writableOpens } != opens
                    throw error == .store(.EBUSY) || error == .refused(.EINTR) && isWritten ? .refused(.EBUSY) : error
                }
                try? directory.synchronize()
            }
            return true
        }
    }

    private func copyMetadata(from old: BackingFile, to new: BackingFile) throws(VolumeError) {
        try below { () throws(Errno) in
            // Reads them now, because they may have changed while the content was encrypted.
            let status = try old.status()
            // An attribute that comes from the directory does not belong to the file.
            try? new.removeAttribute(NameCipher.bytes(of: AttributeName.accessACL))
            for name in try old.attributeNames() {
                let bytes = name.span
                guard bytes.hasText(AttributeName.encryptedPrefix) || bytes.equals(AttributeName.accessACL) else {
                    continue
                }
                try new.setAttribute(name, try old.attribute(name))
            }
            if givesOwnership { try new.setOwner(status.owner, group: status.group) }
            try new.setMode(status.mode & 0o7777)
            try new.setTimes(accessed: .set(status.accessed), modified: .set(status.modified))
        }
    }
}
