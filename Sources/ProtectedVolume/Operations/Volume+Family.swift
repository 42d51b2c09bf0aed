// Chooses the class of a new file from its directory, its name's family, and the last file of that name.

internal import BackingStore
internal import FileContents
internal import HostSystem
internal import KeyFiles
internal import VolumeFormat

extension Volume {
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
            guard let encoded = try? names.encode(relative, in: id) else { continue }
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
