// Renames entries: over files and empty directories, without replacing, or exchanging. A save by rename keeps the class.

package import BackingStore
internal import FileContents
internal import HostSystem
package import KeyFiles
package import Keybag
internal import VolumeFormat

/// A rename with its resolved source and destination in the store.
private struct ResolvedRename {
    let parent: Node
    let directory: BackingDirectory
    let source: LocatedEntry
    let newParent: Node
    let newDirectory: BackingDirectory
    let name: EncodedName
    let status: Status
    /// The object that is replaced or exchanged.
    let target: Status?
    /// The number of copies before both were looked at.
    let copies: UInt64

    var oldPlace: Place { Place(parent: parent, name: source.name.entry) }
    var newPlace: Place { Place(parent: newParent, name: name.entry) }
    var isDirectory: Bool { status.kind == .directory }
}

/// What needs former class keys although a look through the store may not show it.
package struct FormerKeyUse: Equatable, Sendable {
    /// The moves of headers so far (`KeyRing.quietMoves`). Nil while one runs.
    package var moves: UInt64?
    /// The former keys that open files need, those without a name too.
    package var keys: Set<FormerKey>
    /// Whether late records wait.
    package var hasLateRecords: Bool
}

extension Volume {
    /// Renames an entry. Rewrites no content.
    ///
    /// A file that replaces one of a stronger class takes that class first, unless its own class was explicitly set. If
    /// the keys for that are not in memory, the rename is refused and nothing changes.
    /// - Returns: those whose names have changed, if they are known: the object that moved, and the one that was replaced or
    ///   exchanged.
    @discardableResult
    package func rename(
        _ name: Span<UInt8>, in parent: Node, to newName: Span<UInt8>, in newParent: Node, mode: RenameMode,
        caller: Caller? = nil
    ) throws(VolumeError) -> (moved: ChangedName?, target: ChangedName?) {
        try requireWritable()
        return try copies.retrying { (number) throws(VolumeError) in
            try renameEntry(
                name, in: parent, to: newName, in: newParent, mode: mode, caller: caller, copies: number)
        }
    }

    private func renameEntry(
        _ name: Span<UInt8>, in parent: Node, to newName: Span<UInt8>, in newParent: Node, mode: RenameMode,
        caller: Caller?, copies number: UInt64
    ) throws(VolumeError) -> (moved: ChangedName?, target: ChangedName?) {
        let newID = try idForCreating(in: newParent)
        defer {
            noteChange(parent)
            noteChange(newParent)
        }
        if parent !== newParent { try requireChangeable(parent) }
        let directory = try directory(parent)
        let newDirectory = try self.directory(newParent)
        let source = try locate(name, in: parent, directory)
        guard let status = source.status else { throw .noEntry }
        var encoded = try encode(newName, in: newParent, newID, newDirectory)
        var target = try self.status(of: encoded.entry, in: newDirectory)
        if target == nil, newName.hasText(ReservedName.undecryptablePrefix) {
            let located = try locate(newName, in: newParent, newDirectory)
            if located.isUndecryptable { (encoded, target) = (located.name, located.status) }
        }
        rememberFamily(newName, in: newParent)
        let move = ResolvedRename(
            parent: parent, directory: directory, source: source, newParent: newParent, newDirectory: newDirectory,
            name: encoded, status: status, target: target, copies: number)
        switch mode {
        case .exchange: try exchange(move)
        case .noReplace, .whiteoutNoReplace:
            guard target == nil else { throw .exists }
            try placeFree(move, mode: mode)
        case .replace, .whiteout:
            // The names belong to one inode. POSIX keeps both.
            if let target, InodeKey(target) == InodeKey(status) { return (nil, nil) }
            try replace(move, mode: mode)
        }
        if mode.leavesWhiteout, let caller, let whiteout = try? directory.node(source.name.entry) {
            // The store has given it to the daemon. Its mode is 0.
            _ = try? own(whiteout, mode: 0, isDirectory: false, caller: caller, in: directory)
        }
        return (
            changed(nodes.known(InodeKey(status)), status), target.flatMap { changed(nodes.known(InodeKey($0)), $0) }
        )
    }

    /// - Parameter status: from before the change.
    func changed(_ node: Node?, _ status: Status) -> ChangedName? {
        node.map { ChangedName(node: $0, attributes: $0.kind == .file ? attributes($0, status) : nil) }
    }

    private func exchange(_ move: ResolvedRename) throws(VolumeError) {
        guard let target = move.target else { throw .noEntry }
        let isMoving = move.isDirectory || target.kind == .directory
        try whileMoving(isMoving) { () throws(VolumeError) in
            try whileMovingFormer(move.source.name.entry, move.status, in: move.directory) { () throws(VolumeError) in
                try whileMovingFormer(move.name.entry, target, in: move.newDirectory) { () throws(VolumeError) in
                    try call(move, mode: .exchange)
                }
            }
            nodes.exchanged(
                nodes.known(InodeKey(move.status)), at: move.oldPlace, nodes.known(InodeKey(target)), at: move.newPlace)
        }
        showReplaced(target, by: move.status, at: move.name.entry, in: move.newDirectory)
        showReplaced(move.status, by: target, at: move.source.name.entry, in: move.directory)
    }

    /// Renames to a free name. A file takes the class of the last file that had the name, as if it replaced that file.
    private func placeFree(_ move: ResolvedRename, mode: RenameMode) throws(VolumeError) {
        var undo: (() -> Void)?
        if move.status.kind == .regular {
            countAsChoice(move)
            rememberFreed(move.source.name.entry, move.status, in: move.parent, move.directory)
            if let (wanted, own) = try classToTakeOver(move) { undo = try strengthen(move, own, to: wanted) }
        }
        do throws(VolumeError) {
            try holdingStructure(move) { () throws(VolumeError) in try place(move, mode: mode) }
        } catch {
            undo?()
            throw error
        }
    }

    /// A rename relies on the class that the file has now. A change of it that fails later must not take it back.
    private func countAsChoice(_ move: ResolvedRename) {
        nodes.known(InodeKey(move.status))?.state.withLock { $0.classChoices += 1 }
    }

    private func replace(_ move: ResolvedRename, mode: RenameMode) throws(VolumeError) {
        guard let target = move.target else { return try placeFree(move, mode: mode) }
        countAsChoice(move)
        if target.kind == .directory {
            guard move.isDirectory else { throw .refused(.EISDIR) }
            let child = try below { () throws(Errno) in try move.newDirectory.openDirectory(move.name.entry) }
            try requireKnownAttributes(of: child, target) { recordedID(in: child) }
            let owner = overflowOwner(move.name.entry, target, in: move.newDirectory)
            let node = nodes.known(InodeKey(target))
            try holdingStructure(move) { () throws(VolumeError) in
                try withRecordAside(of: move.name.entry, (target, child), in: move.newParent, move.newDirectory) {
                    () throws(VolumeError) in
                    try place(move, mode: mode, replaced: (target, child))
                }
            }
            removeOverflow(of: owner, node, in: move.newDirectory)
            return
        }
        guard !move.isDirectory else { throw .refused(.ENOTDIR) }
        rememberFreed(move.source.name.entry, move.status, in: move.parent, move.directory)
        let undo = try carryClass(move, over: target)
        do throws(VolumeError) {
            // Before the rename: afterwards the store may give another file the same inode number.
            let node = nodes.known(InodeKey(target))
            let pin = node.flatMap { _ in
                pins.pin { () throws(Errno) in try move.newDirectory.node(move.name.entry) }
            }
            let owner = overflowOwner(move.name.entry, target, in: move.newDirectory)
            let seen = seenFile(move.name.entry, target, in: move.newDirectory)
            try holdingStructure(move) { () throws(VolumeError) in try place(move, mode: mode) }
            forgetSeen(seen)
            showReplaced(target, by: move.status, at: move.name.entry, in: move.newDirectory)
            removeOverflow(of: owner, node, in: move.newDirectory)
            if let node {
                nodes.unlinked(node, at: move.newPlace, pin: pin, isLast: target.links <= 1)
            }
        } catch {
            undo?()
            throw error
        }
    }

    /// Performs the rename with companions and tables, under the `structure` locks that it needs.
    private func place(
        _ move: ResolvedRename, mode: RenameMode, replaced: (Status, BackingDirectory)? = nil
    ) throws(VolumeError) {
        func perform() throws(VolumeError) {
            try whileMovingFormer(move.source.name.entry, move.status, in: move.directory) { () throws(VolumeError) in
                try call(move, mode: mode)
            }
        }
        try whileMoving(move.isDirectory) { () throws(VolumeError) in
            if let companion = move.name.companion, let state = move.newParent.directory {
                try makingLocked(move.name, companion, in: state, move.newDirectory, perform)
            } else {
                try perform()
            }
            if let (status, handle) = replaced { forgetDirectory(status, handle, at: move.newPlace) }
            if let node = nodes.known(InodeKey(move.status)) {
                nodes.moved(node, from: move.oldPlace, to: move.newPlace)
                node.state.withLock { $0.isUndecryptable = false }
                if move.isDirectory { node.directory?.setNeedsSync() }
            }
        }
        // A whiteout has the old name, and its companion.
        if !mode.leavesWhiteout, let companion = Self.companionName(of: move.source.name.entry) {
            try? move.directory.unlink(companion)
        }
        if move.isDirectory { move.newParent.directory?.setNeedsSync() }
    }

    /// The call to the store.
    private func call(_ move: ResolvedRename, mode: RenameMode) throws(VolumeError) {
        handles.noteName()
        defer { handles.noteName() }
        try copies.changing(since: move.copies) { () throws(VolumeError) in
            guard try isSame(move.source.name.entry, in: move.directory, move.status) else { return false }
            return try isSame(move.name.entry, in: move.newDirectory, move.target)
        } _: { () throws(Errno) in
            try move.directory.rename(
                move.source.name.entry, of: move.status, to: move.newDirectory, move.name.entry, mode: mode)
        }
    }

    /// Holds the `structure` locks that a rename needs, if a long name is made or removed, or a record is set aside.
    private func holdingStructure(_ move: ResolvedRename, _ body: () throws(VolumeError) -> Void) throws(VolumeError) {
        var needed: [Node] = []
        if Self.companionName(of: move.source.name.entry) != nil { needed.append(move.parent) }
        let replacesDirectory = move.target?.kind == .directory
        if move.name.companion != nil || replacesDirectory, !needed.contains(where: { $0 === move.newParent }) {
            needed.append(move.newParent)
        }
        let locks = needed.sorted { $0.serial < $1.serial }.compactMap(\.directory)
        switch locks.count {
        case 0: try body()
        case 1: try locks[0].structure.withLock { (_) throws(VolumeError) in try body() }
        default:
            try locks[0].structure.withLock { (_) throws(VolumeError) in
                try locks[1].structure.withLock { (_) throws(VolumeError) in try body() }
            }
        }
    }

    /// Makes walks that fail during the move of a directory wait until its node has its new place.
    private func whileMoving(_ isMoving: Bool, _ body: () throws(VolumeError) -> Void) throws(VolumeError) {
        guard isMoving else { return try body() }
        try keys.movingHeaders { () throws(VolumeError) in
            try directories.moving(body)
        }
    }

    /// Gives the new file the class of a stronger file that it will replace, unless its own class was explicitly set. Refuses
    /// the rename if a newer version has made one of the two objects.
    /// - Returns: a closure that undoes it; nil if nothing was changed.
    private func carryClass(_ move: ResolvedRename, over target: Status) throws(VolumeError) -> (() -> Void)? {
        try requireKnownGeneration(of: move.source.name.entry, move.status, in: move.directory)
        try requireKnownGeneration(of: move.name.entry, target, in: move.newDirectory)
        guard move.status.kind == .regular, target.kind == .regular else {
            try requireKnown(move.source.name.entry, move.status, in: move.directory)
            try requireKnown(move.name.entry, target, in: move.newDirectory, isReplaced: true)
            return nil
        }
        guard let (wanted, new) = try classToCarry(move, over: target) else { return nil }
        return try strengthen(move, new, to: wanted)
    }

    /// Gives `new`, the file that moves, the class `wanted`.
    /// - Returns: a closure that undoes it.
    private func strengthen(
        _ move: ResolvedRename, _ new: VerifiedClass, to wanted: ProtectionClass
    ) throws(VolumeError) -> () -> Void {
        let node = try entry(move.status, in: move.parent, move.source.name.entry).node
        defer { forget(node, count: 1) }
        try withContent(node, writable: true) { (content) throws(VolumeError) in
            try content.changeClass(to: wanted, explicit: false)
        }
        node.remember(class: wanted)
        return { [self] in
            // Looks the file up again. Otherwise every rename that succeeds would keep a lookup for this.
            guard let node = try? entry(move.status, in: move.parent, move.source.name.entry).node else { return }
            defer { forget(node, count: 1) }
            try? withContent(node, writable: true) { (content) throws(VolumeError) in
                // Then someone has chosen the class meanwhile.
                guard !content.header.flags.contains(.explicit) else { return }
                try content.changeClass(
                    to: new.protectionClass, explicit: false, clearingExposure: !new.flags.contains(.keyExposed))
                node.remember(class: new.protectionClass)
            }
        }
    }

    /// The class that a file must take from the last file of its new name, and its own class; nil if it keeps its own.
    private func classToTakeOver(
        _ move: ResolvedRename
    ) throws(VolumeError) -> (wanted: ProtectionClass, own: VerifiedClass)? {
        guard options.keepsFamilyClass, let wanted = recentlyFreed.protectionClass(of: move.name.entry) else {
            return nil
        }
        do throws(VolumeError) {
            guard let own = try classForNames(of: move.source.name.entry, move.status, in: move.directory),
                !own.flags.contains(.explicit), !own.flags.areReadableOnly,
                wanted.isStronger(than: own.protectionClass)
            else { return nil }
            return (wanted, own)
        } catch {
            // A damaged or newer file can still be moved.
            if case .locked = error { throw error }
            return nil
        }
    }

    /// The class that the new file must take from the file it replaces, and its own class; nil if it keeps its own.
    ///
    /// Both classes are proven if possible. Otherwise an attacker could decide the class by putting the header of
    /// another file over one of them for a moment.
    private func classToCarry(
        _ move: ResolvedRename, over target: Status
    ) throws(VolumeError) -> (wanted: ProtectionClass, new: VerifiedClass)? {
        let source = try classForNames(of: move.source.name.entry, move.status, in: move.directory)
        try requireKnown(source, move.status)
        guard let new = source, !new.flags.contains(.explicit), new.protectionClass != .complete else {
            try requireKnown(move.name.entry, target, in: move.newDirectory, isReplaced: true)
            return nil
        }
        let old = try classForNames(of: move.name.entry, target, in: move.newDirectory, isReplaced: true)
        try requireKnown(old, target)
        // A file without header after a crash is empty and has its parent's default class.
        let wanted = if let old { old.protectionClass } else { try classForNewFile(in: move.newParent) }
        return wanted.isStronger(than: new.protectionClass) ? (wanted, new) : nil
    }

    // MARK: files that look alike to backups

    /// Called after a rename has put the file of `status` in the place of that of `former`. Two files never have the same
    /// ciphertext, and perhaps not the same class. A backup that compares lengths and seconds must not take one for the other,
    /// and one that copies later files only must not find the new one earlier because the former one's stored time had moved.
    func showReplaced(_ former: Status, by status: Status, at name: EntryName, in directory: BackingDirectory) {
        guard former.kind == .regular, status.kind == .regular else { return }
        let isAlike = former.size == status.size && former.stored.seconds == status.stored.seconds
        guard isAlike || former.isMarked && status.stored.seconds <= former.stored.seconds else { return }
        let node = nodes.known(InodeKey(status))
        if let node, let content = content(of: node) {
            guard let now = try? content.backing.status() else { return }
            try? content.renewTime(showing: now.modified, after: max(now.stored, former.stored))
        } else if let object = try? directory.node(name), let now = try? object.status(), now.inode == status.inode {
            if let node { forgetLastSeen(node) }
            try? object.renewTime(showing: now.modified, after: max(now.stored, former.stored))
        }
    }

    // MARK: what a rotation of keys must know

    /// What needs former keys now.
    package var formerKeyUse: FormerKeyUse {
        // Comes first: what begins after it is counted the next time.
        let moves = keys.quietMoves
        let former = keys.formerKeys
        var needed: Set<FormerKey> = []
        for node in opened.all {
            guard let header = content(of: node)?.header else { continue }
            let key = FormerKey(number: header.protectionClass.rawValue, generation: header.keyGeneration)
            if former.contains(key) { needed.insert(key) }
        }
        return FormerKeyUse(moves: moves, keys: needed, hasLateRecords: late.owes || late.current != nil)
    }

    /// Runs the move of an entry in the store. It is counted if the entry is a file whose header may name a former key.
    func whileMovingFormer(
        _ name: EntryName, _ status: Status, in directory: BackingDirectory, _ body: () throws(VolumeError) -> Void
    ) throws(VolumeError) {
        guard status.kind == .regular else { return try body() }
        // If new keys come after the look at the former ones, `storing` counts the move.
        try keys.storing { () throws(VolumeError) in
            let former = keys.formerKeys
            guard !former.isEmpty else { return try body() }
            if let header = try? header(of: name, status, in: directory),
                !former.contains(FormerKey(number: header.protectionClass.rawValue, generation: header.keyGeneration))
            {
                return try body()
            }
            try keys.movingHeaders(body)
        }
    }
}
