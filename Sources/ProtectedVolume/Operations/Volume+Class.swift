// Protection classes as attributes, and the class that a new file gets.

package import BackingStore
package import FileContents
internal import HostSystem
package import KeyFiles
internal import Keybag
package import VolumeFormat

extension Volume {
    // MARK: reading

    /// A file's class, or a directory's default class; nil if there is none. Reads a file's header if its class is not
    /// known.
    package func protectionClass(of node: Node) throws(VolumeError) -> ProtectionClass? {
        switch node.kind {
        case .directory:
            try renewRecord(of: node, always: false)
            return try defaultClass(node)
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
    package func header(
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
            return value.canonical.bytes
        case .state:
            guard node === root else { throw .noAttribute }
            return keys.state.attributeValue.bytes
        case .inactiveState:
            guard node === root else { throw .noAttribute }
            return keys.state(of: .completeWhenUserInactive).attributeValue.bytes
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
            guard ClassChange.isAllowed(from: current, to: wanted, states: held.states) else {
                throw .locked(current.isStronger(than: wanted) ? current : wanted)
            }
        }
        // Comes first, so that an undo that runs meanwhile learns of it.
        node.state.withLock { $0.classChoices += 1 }
        do throws(VolumeError) {
            try withContent(node, writable: true) { (content) throws(VolumeError) in
                let isNameless = node.state.withLock { $0.isUnlinked }
                try content.changeClass(to: wanted, explicit: true, isNameless: isNameless)
                node.remember(class: content.protectionClass)
            }
        } catch {
            // Setting the present class succeeds in every state. EXPLICIT is set if the key is available, as it is while a
            // file of a class that stays open is open.
            guard case .locked = error, current == wanted else { throw error }
            _ = try withOpenContent(node) { (content) throws(VolumeError) in
                if content.protectionClass == wanted { try content.changeClass(to: wanted, explicit: true) }
            }
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
                _ = try withOpenContent(node) { (content) throws(VolumeError) in try content.removeExplicit() }
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
    ///   - progress: is called often. If it returns false, the change ends with EINTR and changes nothing.
    /// - Returns: whether the file has a new inode.
    /// - Throws: EBUSY while the file is open for writing, EMLINK if it is not empty and has several names, `.locked` if a lock
    ///   closes the class of before or the new one.
    @discardableResult
    package func reencrypt(
        _ node: Node, to wanted: ProtectionClass, explicit: Bool = true,
        progress: (CopyProgress) -> Bool = { _ in true }
    ) throws(VolumeError) -> Bool {
        try keys.storing { () throws(VolumeError) in
            try reencryptFile(node, to: wanted, explicit: explicit, progress: progress)
        }
    }

    /// Gives a file a new key, as `reencrypt` does. Its class stays.
    @discardableResult
    package func renewKey(
        of node: Node, progress: (CopyProgress) -> Bool = { _ in true }
    ) throws(VolumeError) -> Bool {
        try keys.storing { () throws(VolumeError) in
            try reencryptFile(node, to: nil, explicit: false, progress: progress)
        }
    }

    /// Whether a former class key wraps the key of a file.
    package func hasFormerKey(_ node: Node) throws(VolumeError) -> Bool {
        guard let header = try header(of: node) else { return false }
        return header.keyGeneration != keys.withState { $0.generation(of: header.protectionClass) }
    }

    /// Gives the file at a path a new key if it has a former one, and says whether it had. For a volume that no kernel knows.
    package func renewKey(
        at path: [[UInt8]], progress: (_ copy: CopyProgress, _ total: UInt64) -> Bool
    ) throws(VolumeError) -> Bool {
        try withNode(at: path) { (node, _) throws(VolumeError) in
            guard try hasFormerKey(node) else { return false }
            let total = try attributes(of: node).size
            try renewKey(of: node) { progress($0, total) }
            return true
        }
    }

    private func reencryptFile(
        _ node: Node, to target: ProtectionClass?, explicit: Bool, progress: (CopyProgress) -> Bool
    ) throws(VolumeError) -> Bool {
        try requireWritable()
        guard node.kind == .file else { throw .notSupported }
        return try withContent(node, writable: false) { (content) throws(VolumeError) in
            try Reencryption.run(self, node, content, to: target, explicit: explicit, progress: progress)
        }
    }

    // MARK: the class of a new file

    /// The limit of entries that one creation reads, so that it does not take long in a large directory.
    private static let entriesAtOnce = 512

    /// The class of a new file: the strongest of its inherited class, the classes of its name's family, and the class of the
    /// file that had this name within the last minute.
    func classForNewFile(
        _ name: Span<UInt8>, _ entry: EntryName, in parent: Node, _ directory: BackingDirectory
    ) throws(VolumeError) -> ProtectionClass {
        var strongest = try classForNewFile(in: parent)
        guard options.keepsFamilyClass, strongest != .complete else { return strongest }
        if let former = recentlyFreed.protectionClass(of: entry), former.isStronger(than: strongest) {
            strongest = former
        }
        let sources = NameFamily.derivation(of: name).sources.map { name.extracting($0).copiedBytes() }
        let derived = NameFamily.derived(from: name, by: patterns(for: name, in: parent, directory))
        guard !sources.isEmpty || !derived.isEmpty, let id = try directoryID(parent) else { return strongest }
        for relative in sources + derived where strongest != .complete {
            guard let encoded = try? encode(relative.span, in: parent, id, directory) else { continue }
            if let found = relativeClass(encoded.entry, directory), found.isStronger(than: strongest) {
                strongest = found
            }
        }
        return strongest
    }

    /// The class of the file that a new name belongs to, even if the file has just lost its name.
    private func relativeClass(_ name: EntryName, _ directory: BackingDirectory) -> ProtectionClass? {
        do throws(VolumeError) {
            guard let status = try status(of: name, in: directory) else {
                return recentlyFreed.protectionClass(of: name)
            }
            return keptClass(of: name, status, in: directory)
        } catch {
            return .complete
        }
    }

    /// The class that a file passes on to its successor and its family; nil if it has none to pass on.
    ///
    /// A file that cannot be read or does not verify counts as the strongest class, because damage must not make a
    /// class weaker.
    private func keptClass(
        of name: EntryName, _ status: Status, in directory: BackingDirectory, opened: BackingFile? = nil
    ) -> ProtectionClass? {
        guard status.kind == .regular else { return nil }
        if opened == nil, let proven = provenClass(status) { return proven }
        do throws(VolumeError) {
            return try classForNames(of: name, status, in: directory, opened: opened)?.protectionClass
        } catch {
            return error == .store(.ENOENT) ? nil : .complete
        }
    }

    /// The class that this mount has proven of a file before. Other machines may have changed it in a shared store.
    private func provenClass(_ status: Status) -> ProtectionClass? {
        guard !options.isShared, let node = nodes.known(InodeKey(status)) else { return nil }
        return node.state.withLock { $0.content?.protectionClass ?? $0.verified?.protectionClass }
    }

    /// Remembers the class of a file that is about to lose a name, for the next file of that name. Call it before the name is
    /// free, so that no creation comes between.
    /// - Returns: the file, if it was opened for this.
    @discardableResult
    func rememberFreed(
        _ name: EntryName, _ status: Status, in parent: Node, _ directory: BackingDirectory
    ) -> BackingFile? {
        guard options.keepsFamilyClass, status.kind == .regular,
            let inherited = try? classForNewFile(in: parent), inherited != .complete
        else { return nil }
        let proven = provenClass(status)
        let file = proven == nil ? try? directory.openFile(name, .readOnly, seen: status) : nil
        let kept = proven ?? keptClass(of: name, status, in: directory, opened: file)
        recentlyFreed.remember(name, kept.flatMap { $0.isStronger(than: inherited) ? $0 : nil })
        return file
    }

    // MARK: patterns in use

    /// The patterns by which names in a directory may be derived from `name`.
    private func patterns(
        for name: Span<UInt8>, in parent: Node, _ directory: BackingDirectory
    ) -> NameFamily.Patterns {
        // The mount does not see names that other machines make.
        guard !options.isShared, let state = parent.directory else { return .all }
        let (start, known) = state.contents.withLock { ($0.families.next, $0.families.patterns(for: name)) }
        guard let start else { return known }
        // Nothing can be created in a directory without a record.
        guard let id = try? directoryID(parent) else { return .all }
        var found = KnownFamilies()
        var next: UInt64?
        var count = 0
        do throws(Errno) {
            try directory.forEachEntry(from: start) { entry, cookie in
                if count == Self.entriesAtOnce { return false }
                count += 1
                next = cookie
                if case .name(let name) = decode(entry.name, in: directory, id) { found.take(name.span) }
                return true
            }
        } catch { return .all }
        let isWhole = count < Self.entriesAtOnce
        return state.contents.withLock { contents in
            contents.families.formUnion(found)
            // Another creation may have read further meanwhile.
            if contents.families.next == start { contents.families.next = isWhole ? nil : next }
            return contents.families.patterns(for: name)
        }
    }

    /// Remembers the family of a name that is about to be made in a directory.
    func rememberFamily(_ name: Span<UInt8>, in parent: Node) {
        guard options.keepsFamilyClass, !options.isShared,
            !NameFamily.derivation(of: name).roots.isEmpty
        else { return }
        parent.directory?.contents.withLock { $0.families.take(name) }
    }
}
