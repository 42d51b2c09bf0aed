// Gives a file a new key, and perhaps a new class, by a copy that takes the file's name.

internal import BackingStore
internal import FileContents
internal import HostSystem
internal import KeyFiles
internal import VolumeFormat

/// The steps of one such change. `run` has their order.
///
/// A value of one thread. It holds no lock between its steps. `takeName` holds the file's stripe and then the lock of `Copies`.
struct Reencryption {
    /// What the node had counted before the file was looked at.
    private struct Counts {
        let writableHandles: Int
        /// A class that is set from here on counts as an open for writing.
        let writableOpens: Int
        let classChoices: UInt64

        init(_ node: Node) {
            (writableHandles, writableOpens, classChoices) = node.state.withLock {
                ($0.writableHandles, $0.writableOpens, $0.classChoices)
            }
        }
    }

    /// The state of the metadata that the copy has.
    private struct Metadata {
        let changes: UInt64
        let status: Status
    }

    private let volume: Volume
    private let node: Node
    private let content: FileContent
    private let counts: Counts
    /// The header of before.
    private let former: FileHeader
    private let wanted: ProtectionClass
    private let explicit: Bool

    private let directory: BackingDirectory
    private let name: EntryName
    private let status: Status
    private let temporary: EntryName
    private let made: BackingFile
    /// An epoch of this mount that is not above that of the copy's pages.
    private let version: UInt32
    /// The moment of which this is the copy, if other machines may write the file.
    private var moment: FileMoment?
    /// Only what this change has done is undone: another program may have tightened the class meanwhile.
    private var isTightened = false

    /// - Parameters:
    ///   - target: nil keeps the class.
    ///   - explicit: marks the class as chosen by someone. False leaves the mark as it is.
    ///   - progress: is called often. If it returns false, the change ends with EINTR and changes nothing.
    /// - Returns: whether the file has a new inode. An empty one keeps its own.
    static func run(
        _ volume: Volume, _ node: Node, _ content: FileContent, to target: ProtectionClass?, explicit: Bool,
        progress: (CopyProgress) -> Bool
    ) throws(VolumeError) -> Bool {
        // Comes first, so that later opens are seen.
        let counts = Counts(node)
        let former = content.header
        guard counts.writableHandles == 0 else { throw .refused(.EBUSY) }
        if try content.renewIfEmpty(class: target, explicit: explicit) {
            node.remember(class: content.protectionClass)
            return false
        }
        let temporary = BackingName.temporary()
        volume.copies.begin(temporary)
        defer { volume.copies.end(temporary) }
        var change = try Reencryption(
            volume, node, content, counts, former, to: target, explicit: explicit, temporary)
        do throws(VolumeError) {
            try change.copy(progress)
            try change.tighten()
            // Comes last, so that hardly anything can change afterwards. Stores keep the order of such changes and the rename.
            let metadata = try change.copyMetadata()
            try change.takeName(unchangedSince: metadata)
        } catch {
            throw change.undo(after: error)
        }
        try? change.directory.synchronize()
        // The copy has the file's ID.
        volume.content.seen?.wrote(content.fileID, change.version)
        return true
    }

    /// Prepares: finds the file's only name, and makes an empty copy beside it.
    private init(
        _ volume: Volume, _ node: Node, _ content: FileContent, _ counts: Counts, _ former: FileHeader,
        to target: ProtectionClass?, explicit: Bool, _ temporary: EntryName
    ) throws(VolumeError) {
        (self.volume, self.node, self.content, self.counts, self.former) = (volume, node, content, counts, former)
        (wanted, self.explicit, self.temporary) = (target ?? former.protectionClass, explicit, temporary)
        try volume.content.epochs.begin(above: content.version)
        version = try volume.content.epochs.epoch(encryptions: 0)
        (directory, name, status) = try volume.reach(node) {
            (directory, name, status) throws(VolumeError) -> (BackingDirectory, EntryName, Status) in
            (directory, name, status)
        }
        guard status.links == 1 else { throw .refused(.EMLINK) }
        do throws(Errno) { made = try directory.createOwnFile(temporary, mode: 0o600) } catch { throw .store(error) }
    }

    /// Whether a handle was opened for writing since, so that the copy may be outdated.
    private var isWritten: Bool { node.state.withLock { $0.writableOpens } != counts.writableOpens }

    /// Encrypts the content into the copy, durably.
    private mutating func copy(_ progress: (CopyProgress) -> Bool) throws(VolumeError) {
        moment = try content.reencrypt(into: made, class: wanted, explicit: explicit) { progress($0) && !isWritten }
        try volume.below { () throws(Errno) in try made.synchronize(dataOnly: false) }
    }

    /// Gives the old inode a stronger class, so that it applies to handles that are open already.
    private mutating func tighten() throws(VolumeError) {
        guard ClassChange.isTightening(from: former.protectionClass, to: wanted) else { return }
        // After a power cut before the rename, the file may as well have its class of before.
        isTightened = true
        moment = try content.changeClass(to: wanted, copiedAt: moment, made)
        node.remember(class: wanted)
    }

    /// Gives the copy what the file has beside its content.
    private func copyMetadata() throws(VolumeError) -> Metadata {
        let changes = node.state.withLock { $0.metadataChanges }
        let (old, new) = (content.backing, made)
        let status = try volume.below { () throws(Errno) in
            // Reads them now, because they may have changed while the content was encrypted.
            let before = try old.status()
            // An attribute that comes from the directory does not belong to the file.
            try? new.removeAttribute(AttributeName.accessACL.bytes)
            for name in try old.attributeNames() {
                let bytes = name.span
                guard bytes.hasText(AttributeName.encryptedPrefix) || bytes.equals(AttributeName.accessACL) else {
                    continue
                }
                try new.setAttribute(name, try old.attribute(name))
            }
            // Without root, the store lets the owner's attributes be read after a change of such a mode only.
            let status = before.mode & 0o400 == 0 ? try old.status() : before
            try new.setMode(volume.giveOwner(of: status, to: new))
            // The copy has other ciphertext of the same length.
            try new.renewTime(showing: status.modified, after: status.stored, accessed: .set(status.accessed))
            // Stores without flags have nothing to copy. An immutable file is not replaced.
            if let flags = try? old.flags(), let own = try? new.flags(),
                flags.intersection(.settable) != own.intersection(.settable)
            {
                try new.setFlags(flags.intersection(.settable).subtracting(.immutable))
            }
            return status
        }
        return Metadata(changes: changes, status: status)
    }

    /// Puts the copy in the file's place, if nothing has changed.
    ///
    /// The stripe lets no open come between the last test and the rename, or find the old inode after it. It is not kept while
    /// another machine holds the file.
    private func takeName(unchangedSince metadata: Metadata) throws(VolumeError) {
        try volume.content.patiently { () throws(VolumeError) in
            try volume.opened.stripe(node).withLock { (_) throws(VolumeError) -> Bool? in
                try replace(unchangedSince: metadata) ? true : nil
            }
        }
    }

    /// `takeName` with the stripe held.
    /// - Returns: false if another machine holds the file, and nothing was done.
    private func replace(unchangedSince metadata: Metadata) throws(VolumeError) -> Bool {
        // Comes before the test: a change of metadata after it then learns that it came too late.
        node.state.withLock { $0.isBeingReplaced = true }
        defer { node.state.withLock { $0.isBeingReplaced = false } }
        let isDone = try volume.copies.replacing { () throws(VolumeError) in
            try content.replace(unchangedSince: moment) { () throws(VolumeError) in
                try requireUnchanged(since: metadata)
            } rename: { () throws(VolumeError) in
                try rename()
            }
        }
        guard isDone else { return false }
        let pin = volume.pins.pin { () throws(Errno) in content.backing }
        if let place = node.state.withLock({ $0.place }) {
            volume.nodes.unlinked(node, at: place, pin: pin, isLast: true)
        }
        node.state.withLock { ($0.isSuperseded, $0.isReplaced) = (true, true) }
        return true
    }

    /// The file may have been written, linked, moved or removed meanwhile, even if no writer has it open now.
    private func requireUnchanged(since metadata: Metadata) throws(VolumeError) {
        guard let now = try volume.status(of: name, in: directory) else { throw .noEntry }
        guard now.inode == status.inode, now.links == 1, now.changed == metadata.status.changed,
            node.state.withLock({
                $0.writableOpens == counts.writableOpens && $0.metadataChanges == metadata.changes
            })
        else { throw .refused(.EBUSY) }
    }

    private func rename() throws(VolumeError) {
        defer { volume.handles.noteName() }
        try volume.below { () throws(Errno) in
            try directory.placing(temporary, at: name) {
                (try? made.status()).map { directory.isObject(name, $0) } ?? false
            }
        }
    }

    /// Removes the copy, and gives the file its class of before back.
    /// - Returns: the error to throw.
    private func undo(after error: VolumeError) -> VolumeError {
        try? directory.unlink(temporary)
        // Another machine may have changed the class, too.
        try? content.refresh(always: true)
        let isChosenMeanwhile = content.header.flags.contains(.explicit) && !former.flags.contains(.explicit)
        if isTightened, !isChosenMeanwhile, content.protectionClass == wanted { undoTightening() }
        return error == .refused(.EINTR) && isWritten ? .refused(.EBUSY) : error
    }

    /// A class that someone has chosen since stays.
    private func undoTightening() {
        func isChosen() -> Bool { node.state.withLock { $0.classChoices } != counts.classChoices }
        guard !isChosen() else { return }
        try? content.changeClass(
            to: former.protectionClass, explicit: false, clearingExposure: !former.flags.contains(.keyExposed))
        if isChosen(), content.protectionClass == former.protectionClass {
            try? content.changeClass(to: wanted, explicit: false)
        }
        node.remember(class: content.protectionClass)
    }
}
