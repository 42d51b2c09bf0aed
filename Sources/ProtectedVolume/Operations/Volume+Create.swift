// Creates files, directories, links and special files.

package import BackingStore
package import FileContents
internal import HostSystem
package import KeyFiles
internal import Keybag
package import VolumeFormat

extension Volume {
    /// Creates a regular file and opens it for reading and writing; EEXIST if the name is taken.
    ///
    /// The class is the directory's default, else the mount's, or a stronger one of the name's family. A refused
    /// creation leaves no entry. The caller must release the content with `release(_:writable: true)`.
    package func create(
        _ name: Span<UInt8>, in parent: Node, mode: UInt32, caller: Caller
    ) throws(VolumeError) -> (entry: Entry, content: FileContent) {
        let (directory, encoded) = try prepare(name, in: parent)
        defer { noteChange(parent) }
        let protectionClass = try classForNewFile(name, encoded.entry, in: parent, directory)
        try requireKey(forNew: protectionClass)
        let bits = self.mode(mode, for: caller, in: parent, directory)
        return try keys.storing { () throws(VolumeError) in
            let (status, content) = try making(encoded, in: parent, directory) { () throws(VolumeError) in
                try makeFile(encoded.entry, directory, mode: bits, class: protectionClass, caller: caller)
            }
            let entry = try entry(status, in: parent, encoded.entry, isNew: true)
            entry.node.remember(class: content.protectionClass)
            attachNew(content, to: entry.node, mode: status.mode, in: parent)
            wipeIfClosed(content)
            return (Entry(node: entry.node, attributes: attributes(entry.node, status)), content)
        }
    }

    /// Creates a regular file without a name (O_TMPFILE). It has the class of new files in `parent`, and is gone when its last
    /// handle is closed, or after a crash, unless `link` gives it a name. The caller releases it as after `create`.
    package func createNameless(
        in parent: Node, mode: UInt32, caller: Caller
    ) throws(VolumeError) -> (entry: Entry, content: FileContent) {
        try requireWritable()
        try renewRecord(of: parent, always: false)
        let protectionClass = try classForNewFile(in: parent)
        try requireKey(forNew: protectionClass)
        let directory = try directory(parent)
        let bits = self.mode(mode, for: caller, in: parent, directory)
        return try keys.storing { () throws(VolumeError) in
            let new = try FileContent.prepare(in: content, class: protectionClass, explicit: false)
            let file = try below { () throws(Errno) in try directory.createNamelessFile(mode: bits) }
            let (made, seen) = try FileContent.create(new, in: content, backing: file)
            let owned = try own(file, seen, mode: bits, isDirectory: false, caller: caller, in: directory)
            let status = try giveSetID(file, made, owned, mode: bits)
            let node = nodes.rememberNameless(status)
            node.remember(class: protectionClass)
            attachNew(made, to: node, mode: status.mode, in: parent)
            wipeIfClosed(made)
            return (Entry(node: node, attributes: attributes(node, status)), made)
        }
    }

    /// If a lock came during the creation, it has not visited this content. No other thread has it open yet.
    private func wipeIfClosed(_ content: FileContent) {
        let protectionClass = content.protectionClass
        let isOpen = keys.withState { held in
            Access.isAllowed(.handleSize, class: protectionClass, state: held.state(of: protectionClass))
        }
        guard !isOpen else { return }
        try? content.flushHeader()
        content.wipeKeys()
    }

    private func makeFile(
        _ name: EntryName, _ directory: BackingDirectory, mode: UInt32, class protectionClass: ProtectionClass,
        caller: Caller
    ) throws(VolumeError) -> (Status, FileContent) {
        // The key is wrapped and the epoch is durably open before an object is created in the store.
        let new = try FileContent.prepare(in: content, class: protectionClass, explicit: false)
        // Another machine would treat a file without header as empty, and give it a header of its own.
        let first = options.isShared ? BackingName.temporary() : name
        let file = try below { () throws(Errno) in
            if options.isShared { return try directory.createOwnFile(first, mode: mode) }
            return try directory.creating(name, .regular) { () throws(Errno) in
                try directory.createFile(name, mode: mode)
            } uncertain: {
                // An empty file that may be there must not look damaged.
                content.epochs.keepOpen()
            }
        }
        do throws(VolumeError) {
            let (made, seen) = try FileContent.create(new, in: content, backing: file)
            let owned = try own(file, seen, mode: mode, isDirectory: false, caller: caller, in: directory)
            let status = try giveSetID(file, made, owned, mode: mode)
            if options.isShared {
                try made.flushHeader()
                try below { () throws(Errno) in
                    try directory.placing(first, at: name, mode: .noReplace) { directory.isObject(name, seen) }
                }
            }
            return (status, made)
        } catch {
            do throws(Errno) {
                try directory.unlink(first)
            } catch {
                // The file that remains is empty (rule R0) and must not look damaged.
                content.epochs.keepOpen()
            }
            throw error
        }
    }

    /// Makes a directory with its record, under a temporary name, and renames it into place.
    package func mkdir(
        _ name: Span<UInt8>, in parent: Node, mode: UInt32, caller: Caller
    ) throws(VolumeError) -> Entry {
        let (directory, encoded) = try prepare(name, in: parent)
        defer { noteChange(parent) }
        let record = VerifiedRecord(
            directoryID: NameCipher.randomID(), defaultClass: try usableRecord(of: parent).defaultClass)
        let bits = self.mode(mode, for: caller, in: parent, directory)
        let (status, made) = try making(encoded, in: parent, directory) { () throws(VolumeError) in
            try makeDirectory(encoded.entry, directory, record, mode: bits, caller: caller)
        }
        let entry = try entry(status, in: parent, encoded.entry, isNew: true)
        entry.node.directory?.contents.withLock { contents in
            contents.record = .known(record)
            contents.changes += 1
            contents.families.next = nil
        }
        parent.directory?.setNeedsSync()
        directories.insert(made, for: entry.node.serial)
        noteChange(entry.node)
        return entry
    }

    private func makeDirectory(
        _ name: EntryName, _ directory: BackingDirectory, _ record: VerifiedRecord, mode: UInt32, caller: Caller
    ) throws(VolumeError) -> (Status, BackingDirectory) {
        let temporary = BackingName.temporary()
        let target = names.recordTarget(record)
        try below { () throws(Errno) in try directory.createOwnDirectory(temporary, mode: mode) }
        var opened: BackingDirectory?
        do throws(VolumeError) {
            let made = try below { () throws(Errno) in
                let made = try directory.openDirectory(temporary)
                opened = made
                try made.createLink(BackingName.record, target: target)
                if !directory.keepsNewLinks { try made.synchronize() }
                return made
            }
            // Before the directory is visible.
            let status = try own(made, mode: mode, isDirectory: true, caller: caller, in: directory)
            try below { () throws(Errno) in
                try directory.placing(temporary, at: name, mode: .noReplace) {
                    (try? directory.openDirectory(name).readSymlink(BackingName.record)) == target
                }
            }
            // Nothing may fail from here on: the error path removes the record.
            return ((try? made.status()) ?? status, made)
        } catch {
            // Uses the open directory, because descriptors may be scarce. What may have its name by now keeps its record.
            if (try? directory.status(of: temporary)) != nil { try? opened?.unlink(BackingName.record) }
            try? directory.removeDirectory(temporary)
            throw error == .store(.EEXIST) ? .exists : error
        }
    }

    /// Makes a FIFO, socket or device, or an empty regular file. `mode` includes the type bits.
    package func mknod(
        _ name: [UInt8], in parent: Node, mode: UInt32, device: UInt64, caller: Caller
    ) throws(VolumeError) -> Entry {
        switch FileKind(mode: mode) {
        case .regular, .unknown:
            let made = try create(name.span, in: parent, mode: mode, caller: caller)
            release(made.entry.node, writable: true)
            return made.entry
        case .fifo, .socket, .characterDevice, .blockDevice: break
        case .directory, .symlink: throw .invalid
        }
        let (directory, encoded) = try prepare(name.span, in: parent)
        defer { noteChange(parent) }
        let bits = self.mode(mode, for: caller, in: parent, directory)
        let type = FileKind(mode: mode).modeBits
        let status = try making(encoded, in: parent, directory) { () throws(VolumeError) in
            try below { () throws(Errno) in
                try directory.creating(encoded.entry, FileKind(mode: mode)) { () throws(Errno) in
                    try directory.createSpecial(encoded.entry, mode: type | bits, device: device)
                } uncertain: {
                }
            }
            return try finish(encoded.entry, directory, mode: bits, caller: caller)
        }
        return try entry(status, in: parent, encoded.entry, isNew: true)
    }

    /// Sets the owner of an object just made. Removes the object if that fails.
    func finish(
        _ name: EntryName, _ directory: BackingDirectory, mode: UInt32, caller: Caller
    ) throws(VolumeError) -> Status {
        do throws(VolumeError) {
            guard givesOwnership else { return try below { () throws(Errno) in try directory.status(of: name) } }
            let object = try below { () throws(Errno) in try directory.node(name) }
            return try own(object, mode: mode, isDirectory: false, caller: caller, in: directory)
        } catch {
            try? directory.unlink(name)
            throw error
        }
    }

    /// Makes a further name for an object.
    package func link(_ node: Node, _ name: [UInt8], in parent: Node) throws(VolumeError) -> Entry {
        guard node.kind != .directory else { throw .refused(.EPERM) }
        let (directory, encoded) = try prepare(name.span, in: parent)
        defer { noteChange(parent) }
        let (content, isSuperseded) = node.state.withLock { ($0.isUnlinked ? $0.content : nil, $0.isSuperseded) }
        // The kernel looks the name up again, and finds the new copy.
        if isSuperseded { throw .stale }
        if let content {
            return try nameFirst(node, content, name, encoded, in: parent, directory)
        }
        // A page 0 that waits is written before the file gets a second name.
        if let content = node.state.withLock({ $0.content }) { try content.flushHeader() }
        let number = copies.number
        try making(encoded, in: parent, directory) { () throws(VolumeError) in
            try reach(node) { (source, sourceName, status) throws(VolumeError) in
                try whileMovingFormer(sourceName, status, in: source) { () throws(VolumeError) in
                    do throws(VolumeError) {
                        try copies.changing(since: number) { () throws(VolumeError) in
                            try isSame(sourceName, in: source, status)
                        } _: { () throws(Errno) in
                            try directory.linking(encoded.entry, to: status) { () throws(Errno) in
                                try source.link(sourceName, to: directory, encoded.entry)
                            }
                        }
                    } catch {
                        // The kernel looks the name up again.
                        throw error == .refused(.EAGAIN) ? .stale : error
                    }
                }
            }
        }
        let status = try below { () throws(Errno) in try directory.status(of: encoded.entry) }
        return try entry(status, in: parent, encoded.entry)
    }

    /// Gives a file that was made without a name its first one, and the class of a new file of that name if it is stronger.
    private func nameFirst(
        _ node: Node, _ content: FileContent, _ name: [UInt8], _ encoded: EncodedName, in parent: Node,
        _ directory: BackingDirectory
    ) throws(VolumeError) -> Entry {
        guard try status(of: encoded.entry, in: directory) == nil else { throw .exists }
        let wanted = try classForNewFile(name.span, encoded.entry, in: parent, directory)
        if !content.header.flags.contains(.explicit), wanted.isStronger(than: content.protectionClass) {
            try content.changeClass(to: wanted, explicit: false)
            node.remember(class: wanted)
        }
        try content.flushHeader()
        try content.settleClass()
        try making(encoded, in: parent, directory) { () throws(VolumeError) in
            try keys.movingHeaders { () throws(VolumeError) in
                try below { () throws(Errno) in
                    try directory.linking(encoded.entry, to: try content.backing.status()) { () throws(Errno) in
                        try content.backing.link(to: directory, encoded.entry)
                    }
                }
            }
        }
        let status = try below { () throws(Errno) in try content.backing.status() }
        nodes.named(node, at: Place(parent: parent, name: encoded.entry))
        removeAtEnd(nil, of: node)
        noteChange(node)
        return Entry(node: node, attributes: attributes(node, status))
    }

    /// Begins every creation: requires a directory with a record, and encodes the name there.
    package func prepare(_ name: Span<UInt8>, in parent: Node) throws(VolumeError) -> (BackingDirectory, EncodedName) {
        try requireWritable()
        let id = try idForCreating(in: parent)
        rememberFamily(name, in: parent)
        let directory = try directory(parent)
        return (directory, try encode(name, in: parent, id, directory))
    }

    // MARK: keys of new files

    /// Refuses a class in which no file can be made now, because the state does not allow it or its key is not in
    /// memory.
    func requireKey(forNew protectionClass: ProtectionClass) throws(VolumeError) {
        let (isAllowed, canWrap) = keys.withState { held in
            (
                Access.isAllowed(.create, class: protectionClass, state: held.state(of: protectionClass)),
                held.canWrap(protectionClass)
            )
        }
        if isAllowed, canWrap { return }
        if isAllowed, protectionClass == .completeUnlessOpen { notices.tellUnprovenKey() }
        throw .locked(protectionClass)
    }

    // MARK: symbolic links

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
