// Looks names up, and lists them without a handle. A name that does not decrypt appears as a hash.

package import BackingStore
package import FileContents
package import HostSystem
package import KeyFiles
internal import SodiumKit
package import VolumeFormat

/// A name in a directory, as far as it could be resolved.
package struct LocatedEntry {
    /// The backing name.
    package let name: EncodedName
    /// The status of the entry; nil if there is none.
    package let status: Status?
    /// Whether the name does not decrypt.
    var isUndecryptable = false
}

extension Volume {
    // MARK: looking up

    /// Finds an entry; ENOENT if there is none.
    package func lookup(_ name: Span<UInt8>, in parent: Node) throws(VolumeError) -> Entry {
        let directory = try directory(parent)
        let located = try locate(name, in: parent, directory)
        guard let status = located.status else { throw .noEntry }
        let entry = try seen(status, in: parent, located.name.entry)
        try judge(located, entry.node, in: parent, directory)
        return entry
    }

    /// Notes whether a node's name decrypts. If a companion could not be read once, the file does not stay unreadable.
    /// But if a file's companion does not verify, a lookup by the file's real name is refused too.
    private func judge(
        _ located: LocatedEntry, _ node: Node, in parent: Node, _ directory: BackingDirectory
    ) throws(VolumeError) {
        if located.isUndecryptable { return node.state.withLock { $0.isUndecryptable = true } }
        guard node.state.withLock({ $0.isUndecryptable }) else { return }
        switch decode(located.name.entry, in: directory, try directoryID(parent)) {
        case .name, .unverified: node.state.withLock { $0.isUndecryptable = false }
        case .undecryptable, .reserved: break
        }
    }

    /// Looks a path from the root up, and keeps its nodes known while `body` runs.
    package func withNode<Result>(
        at path: [[UInt8]], _ body: (_ node: Node, _ parent: Node) throws(VolumeError) -> Result
    ) throws(VolumeError) -> Result {
        guard !path.isEmpty else { throw .notSupported }
        var nodes = [root]
        defer { for node in nodes.dropFirst() { forget(node, count: 1) } }
        for component in path { nodes.append(try lookup(component, in: nodes[nodes.count - 1]).node) }
        return try body(nodes[nodes.count - 1], nodes[nodes.count - 2])
    }

    /// The backing entry of `name`, and its status.
    func locate(
        _ name: Span<UInt8>, in parent: Node, _ directory: BackingDirectory
    ) throws(VolumeError) -> LocatedEntry {
        guard name.count <= NameLimits.longest else { throw .nameTooLong }
        guard let id = try directoryID(parent) else {
            return try locateUnverified(name.copiedBytes(), in: parent, directory)
        }
        let encoded = try encode(name, in: parent, id, directory)
        let status = try status(of: encoded.entry, in: directory)
        // Another program may have put the directory there anew. A second time it is not compared.
        if status == nil, try renewRecord(of: parent, always: false) { return try locate(name, in: parent, directory) }
        if status == nil, name.hasText(ReservedName.undecryptablePrefix),
            let entry = try undecryptable(name.copiedBytes(), in: parent, directory)
        {
            return LocatedEntry(
                name: EncodedName(entry: entry, companion: nil), status: try self.status(of: entry, in: directory),
                isUndecryptable: true)
        }
        return LocatedEntry(name: encoded, status: status)
    }

    /// The backing name of `name` in `parent`, which has the ID `id`.
    func encode(
        _ name: Span<UInt8>, in parent: Node, _ id: ObjectID, _ directory: BackingDirectory
    ) throws(VolumeError) -> EncodedName {
        if let entry = parent.directory?.contents.withLock({ $0.lastName.entry(for: name, in: id) }) {
            return EncodedName(entry: entry, companion: nil)
        }
        let encoded = try names.encode(name, in: id)
        if encoded.companion == nil {
            if let other = try formOfOtherStore(name, id, encoded.entry, in: directory) { return other }
            parent.directory?.contents.withLock { $0.lastName = LastName(name, in: id, encoded.entry) ?? $0.lastName }
        }
        return encoded
    }

    /// The entry of a name that a store with shorter names has kept as a long one. Nil if there is none, or `entry` exists.
    func formOfOtherStore(
        _ name: Span<UInt8>, _ id: ObjectID, _ entry: EntryName, in directory: BackingDirectory
    ) throws(VolumeError) -> EncodedName? {
        guard name.count > NameLimits.longestNeverLong, try status(of: entry, in: directory) == nil else { return nil }
        let other = try names.encode(name, in: id, isLong: true)
        return try status(of: other.entry, in: directory) == nil ? nil : other
    }

    /// The same as `locate` for an array.
    package func locate(
        _ name: [UInt8], in parent: Node, _ directory: BackingDirectory
    ) throws(VolumeError) -> LocatedEntry {
        try locate(name.span, in: parent, directory)
    }

    /// In a directory without a record names decrypt, but the store may have chosen the result. So entries are found
    /// only under their marked names.
    private func locateUnverified(
        _ name: [UInt8], in parent: Node, _ directory: BackingDirectory
    ) throws(VolumeError) -> LocatedEntry {
        let found = try shownEntry(name, in: parent, directory) { entry in
            Self.nameShown(for: entry, decode(entry, in: directory, nil))
        }
        guard let found else { throw .noEntry }
        var located = LocatedEntry(
            name: EncodedName(entry: found, companion: nil), status: try status(of: found, in: directory))
        if case .undecryptable = decode(found, in: directory, nil) { located.isUndecryptable = true }
        return located
    }

    /// The backing entry that is shown under an `.undecryptable-` name.
    private func undecryptable(
        _ name: [UInt8], in parent: Node, _ directory: BackingDirectory
    ) throws(VolumeError) -> EntryName? {
        try shownEntry(name, in: parent, directory) { entry in
            ReservedName.kind(of: entry.bytes.span).isHidden ? nil : Self.nameShown(for: entry)
        }
    }

    /// The backing entry for which `shown` gives this name.
    private func shownEntry(
        _ name: [UInt8], in parent: Node, _ directory: BackingDirectory, _ shown: (EntryName) -> [UInt8]?
    ) throws(VolumeError) -> EntryName? {
        if let entry = shownNames.content(of: parent.serial)?.entry(name), shown(entry) == name,
            try status(of: entry, in: directory) != nil
        {
            return entry
        }
        let stamp = ChangeStamp(try below { () throws(Errno) in try directory.status() })
        if let names = shownNames.content(of: parent.serial, stamp), names.isWhole, names.entry(name) == nil {
            return nil
        }
        var names = ShownNames()
        var result: EntryName?
        for entry in try below({ () throws(Errno) in try directory.entries() }) {
            guard let shown = shown(entry.name) else { continue }
            names.add(shown, entry.name)
            if shown == name { result = entry.name }
        }
        shownNames.keep(names, of: parent.serial, stamp, weight: names.count + 1)
        return result
    }

    /// `.undecryptable-` and a hash of the backing name.
    package static func nameShown(for backing: EntryName) -> [UInt8] {
        let hash = hash256(backing.bytes.span)
        return ReservedName.undecryptablePrefix.bytes
            + Base64URL.encode(hash.span.extracting(0..<16))
    }

    /// The name under which an entry is shown; nil for reserved names.
    package static func nameShown(for backing: EntryName, _ decoded: DecodedName) -> [UInt8]? {
        switch decoded {
        case .name(let name): name
        case .unverified(let name): UnverifiedName.bytes(for: backing, name)
        case .undecryptable: nameShown(for: backing)
        case .reserved: nil
        }
    }

    /// Decodes a backing name. Without the directory's ID the result is unverified.
    package func decode(_ entry: EntryName, in directory: BackingDirectory, _ id: ObjectID?) -> DecodedName {
        (try? decodeOrFail(entry, in: directory, id)) ?? .undecryptable
    }

    /// The same, but throws if a companion cannot be read. That must not count as a companion that does not verify.
    package func decodeOrFail(
        _ entry: EntryName, in directory: BackingDirectory, _ id: ObjectID?
    ) throws(Errno) -> DecodedName {
        switch ReservedName.kind(of: entry.bytes.span) {
        case .keybag, .record, .temporary, .aside, .companion, .late, .lostAndFound, .overflow, .unknownReserved:
            return .reserved
        case .foreign: return .undecryptable
        case .long:
            guard let name = try decodeLong(entry, in: directory, id) else { return .undecryptable }
            return id == nil ? .unverified(name) : .name(name)
        case .encoded:
            guard let name = names.decode(entry.bytes.span, in: id), name.count <= NameLimits.longestDirect else {
                return .undecryptable
            }
            return id == nil ? .unverified(name) : .name(name)
        }
    }

    /// Reads a long name from its companion. Verifies both the hash and the encoding.
    func decodeLong(
        _ entry: EntryName, in directory: BackingDirectory, _ id: ObjectID?
    ) throws(Errno) -> [UInt8]? {
        let companion = BackingName.known(Array(entry.bytes) + NameLimits.companionSuffix.bytes)
        let encoding: [UInt8]
        do throws(Errno) { encoding = try directory.readSymlink(companion) } catch {
            if error == .ENOENT || error == .EINVAL { return nil }
            throw error
        }
        if let id, names.longName(of: encoding, in: id) != Array(entry.bytes) { return nil }
        guard let name = names.decode(encoding, in: id), name.count > NameLimits.longestNeverLong else { return nil }
        guard name.count <= names.longestDirect, let direct = EntryName(encoding) else { return name }
        // The entry that is found under this name is not this one.
        do throws(Errno) { _ = try directory.status(of: direct) } catch {
            guard error == .ENOENT else { throw error }
            return name
        }
        return nil
    }

    // MARK: listing

    // Each call gives the position to continue from, so OPENDIR needs no answer.

    /// Calls `body` with each entry from `cookie` on (0 for the start), until it returns false.
    ///
    /// All positions are the store's own. Positions of ours could not be told from them, as a store may use any number.
    /// So `.` and `..` come where the store lists them.
    ///
    /// The position after an entry is that of the next entry that is listed, and not that of a hidden one between them. The
    /// kernel keeps listings, and looks for a position that a program returns to among those that it has seen. It may have seen
    /// that of a hidden entry in front of a name that was removed since.
    /// - Parameters:
    ///   - attributes: the entries whose nodes and attributes are returned.
    ///   - body: returns false if the entry did not fit. The entry is then not consumed, and its lookup is taken back.
    package func list(
        _ node: Node, from cookie: UInt64, attributes: ListedAttributes, _ body: (ListedEntry) -> Bool
    ) throws(VolumeError) {
        let directory = try directory(node)
        if cookie == 0 { try renewRecord(of: node, always: false) }
        let id = try directoryID(node)
        let attributes = maySearch(directory) ? attributes : .none
        var failure: VolumeError?
        func pass(_ held: HeldEntry) -> Bool {
            switch held.object {
            case .itself: return body(.dot(".", node.inode, held.next))
            case .parent:
                let parent = node.state.withLock { $0.place?.parent } ?? node
                return body(.dot("..", parent.inode, held.next))
            case .entry(let found):
                do throws(VolumeError) {
                    return try hand(found, held, of: node, directory, attributes, to: body)
                } catch {
                    failure = error
                    return false
                }
            }
        }
        // Two entries take turns, so that their names' room is used again.
        var held = HeldEntry()
        var now = HeldEntry()
        var isHolding = false
        try below { () throws(Errno) in
            try directory.list(from: cookie) { object, next in
                now.object = object
                now.next = next
                now.isUndecryptable = false
                if case .entry(let found) = object, !show(found.name, in: directory, id, as: &now) {
                    held.next = next
                    return true
                }
                if isHolding, !pass(held) {
                    isHolding = false
                    return false
                }
                swap(&held, &now)
                isHolding = true
                return true
            }
        }
        if isHolding { _ = pass(held) }
        if let failure { throw failure }
        if cookie == 0 { noteAccess(to: directory) }
    }

    /// Sets the name under which an entry is shown; false for reserved names.
    private func show(
        _ entry: EntryName, in directory: BackingDirectory, _ id: ObjectID?, as held: inout HeldEntry
    ) -> Bool {
        // Nearly all names are such.
        if let id, ReservedName.kind(of: entry.bytes.span) == .encoded,
            names.decode(entry.bytes.span, in: id, into: &held.name), held.name.count <= NameLimits.longestDirect
        {
            return true
        }
        let decoded = decode(entry, in: directory, id)
        guard let shown = Self.nameShown(for: entry, decoded) else { return false }
        held.name = shown
        if case .undecryptable = decoded { held.isUndecryptable = true }
        return true
    }

    /// Whether the status of an entry can be read without raising the directory's mode for a moment.
    private func maySearch(_ directory: BackingDirectory) -> Bool {
        guard !givesOwnership, let mode = try? directory.status().mode else { return true }
        return mode & 0o100 != 0
    }

    /// Moves the access time of a directory that was listed, if the mount's options say so.
    private func noteAccess(to directory: BackingDirectory) {
        guard !options.isReadOnly else { return }
        switch options.directoryAccessTimes {
        case .never: return
        case .always: break
        case .relative:
            guard let status = try? directory.status(), status.accessTimeIsDue(at: WallClock.seconds) else { return }
        }
        directory.touchAccessTime()
    }

    /// Passes one entry on; true if the listing continues.
    private func hand(
        _ found: DirectoryEntry, _ held: HeldEntry, of parent: Node, _ directory: BackingDirectory,
        _ attributes: ListedAttributes, to body: (ListedEntry) -> Bool
    ) throws(VolumeError) -> Bool {
        if held.isUndecryptable { notices.tellUndecryptable(found.name, in: parent) }
        var entry: Entry?
        let kind = NodeKind(found.kind)
        let isWanted =
            switch attributes {
            case .none: false
            case .ofDirectoriesAndLinks: [.directory, .symlink, nil].contains(kind) || held.isUndecryptable
            case .all: true
            }
        if isWanted {
            let status: Status?
            do throws(VolumeError) {
                status = try self.status(of: found.name, in: directory)
                if status == nil { return true }
            } catch {
                // The names can be listed all the same, as in a directory that may be read but not searched.
                status = nil
            }
            // Else the object is gone, or a volume cannot have its kind. Only its name is listed.
            if let status { entry = try? seen(status, in: parent, found.name) }
            if held.isUndecryptable { entry?.node.state.withLock { $0.isUndecryptable = true } }
        }
        let isTaken = body(
            ListedEntry(
                name: held.name, inode: found.inode, kind: kind ?? entry?.node.kind, next: held.next,
                entry: entry))
        if !isTaken, let entry { forget(entry.node, count: 1) }
        return isTaken
    }

    // MARK: names as arrays

    /// `lookup`, for an array.
    package func lookup(_ name: [UInt8], in parent: Node) throws(VolumeError) -> Entry {
        try lookup(name.span, in: parent)
    }

    /// `create`, for an array.
    package func create(
        _ name: [UInt8], in parent: Node, mode: UInt32, caller: Caller
    ) throws(VolumeError) -> (entry: Entry, content: FileContent) {
        try create(name.span, in: parent, mode: mode, caller: caller)
    }

    /// `mkdir`, for an array.
    package func mkdir(
        _ name: [UInt8], in parent: Node, mode: UInt32, caller: Caller
    ) throws(VolumeError) -> Entry {
        try mkdir(name.span, in: parent, mode: mode, caller: caller)
    }

    /// `unlink`, for an array.
    @discardableResult
    package func unlink(_ name: [UInt8], in parent: Node) throws(VolumeError) -> ChangedName? {
        try unlink(name.span, in: parent)
    }

    /// `rename`, for arrays.
    @discardableResult
    package func rename(
        _ name: [UInt8], in parent: Node, to newName: [UInt8], in newParent: Node, mode: RenameMode,
        caller: Caller? = nil
    ) throws(VolumeError) -> (moved: ChangedName?, target: ChangedName?) {
        try rename(name.span, in: parent, to: newName.span, in: newParent, mode: mode, caller: caller)
    }
}
