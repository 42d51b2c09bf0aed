// Looks at single objects of a store with the code that mounts use. It claims nothing and never writes, so the volume may be
// mounted, and the store may be a copy.

package import BackingStore
package import FileContents
internal import HostSystem
package import KeyFiles
package import Keybag
package import ProtectedVolume
internal import SodiumKit
package import VolumeFormat

/// What a regular file of a store is, apart from its pages.
package struct InspectedFile: Sendable {
    /// The length of the backing file, in bytes.
    package var length: UInt64
    /// The first bytes of the file, as many as a header has. Shorter if the file is.
    package var headerBytes: [UInt8]
    /// The header. Only a claim if `headerError` is set. Nil if it cannot be parsed, or was never written.
    package var header: FileHeader?
    /// The reason why the header is refused. Nil if it verifies, or was never written (rule R0).
    package var headerError: VolumeError?
    /// What this program does not know in a header that verifies. Nil if that is nothing, or the header does not verify.
    package var unknown: FormatError?
    /// The reason why a mount would refuse to open the file. Nil if it would not.
    package var error: VolumeError?
    /// The file's size, by its last block. Nil if the file was not opened.
    package var size: UInt64?
    /// The file's version: the higher one of the epochs of its ends. Nil if the file was not opened.
    package var version: UInt32?
    /// The version that this machine has seen last, as far as it is on disk. Nil if it knows none.
    package var seenVersion: UInt32?
    /// Whether the file is older than that.
    package var isOlder: Bool { version.map { $0 < seenVersion ?? 0 } ?? false }
    /// The traces of a crash at the file's ends, which are tolerated.
    package var evidence: [CrashEvidence] = []
    /// Whether the file was changed while it was read, so that damage may be none.
    package var wasChanged = false

    /// Whether rule R0 applies: a crash came before the header was written. The file is empty.
    package var hasNoHeader: Bool { header == nil && headerError == nil }
}

/// What a directory's record is. Its parts are only claims if it is damaged.
package struct InspectedRecord: Sendable {
    /// The directory's ID. Nil if the record is missing or cannot be parsed.
    package var directoryID: ObjectID?
    /// The class of new entries. Nil if the record sets none, or it is not known.
    package var defaultClass: ProtectionClass?
    /// The reason why the record is refused.
    package var error: VolumeError?
}

/// What a symbolic link is.
package struct InspectedTarget: Sendable {
    /// The target. Nil if it does not verify.
    package var path: [UInt8]?
    /// The reason why the target is refused.
    package var error: VolumeError?
}

/// Looks at single objects of a store.
package final class Inspector: Sendable {
    private let volume: Volume
    private let context: ContentContext
    private let evidence = Lock<[CrashEvidence]>([])

    /// - Parameters:
    ///   - store: the root of a store, for names.
    ///   - keys: the keys of the volume. More classes can be unlocked later.
    ///   - state: the file that lists the open epochs, of the volume whose rules count. Nil: crash damage is tolerated.
    ///   - living: gives the epochs of the volume's mounts. No crash of theirs explains damage.
    package init(
        store: BackingDirectory, keys: KeyRing, state: StateFileStore?, living: () -> Set<UInt32> = { [] }
    ) throws(VolumeError) {
        var options = VolumeOptions()
        options.isReadOnly = true
        volume = try Volume(
            directory: store, keys: keys, state: state, options: options, living: living, report: { _ in })
        let evidence = evidence
        context = ContentContext(keys: keys, epochs: volume.content.epochs, options: options) { found in
            evidence.withLock { $0.append(found) }
        }
    }

    /// Both paths of an object of the store, or why it has none on a mount.
    package func place(of path: [EntryName]) throws(VolumeError) -> Result<NamedPlace, NamelessPlace> {
        try NamedPlace.find(backing: path, in: volume)
    }

    /// Looks at a regular file, and calls `begin`, then `report` with its pages in order, in runs of equal ones.
    ///
    /// - Parameters:
    ///   - alone: whether to report each page by itself.
    ///   - begin: gets the file before its pages are read; `wasChanged` is not known then. Returns whether to go on.
    ///   - report: returns whether to go on.
    /// - Throws: the store's error if the file cannot be read at all.
    package func look(
        at file: BackingFile, alone: Bool = false, begin: (InspectedFile) -> Bool, report: (InspectedRun) -> Bool
    ) throws(VolumeError) -> InspectedFile {
        let before = try status(file)
        var result = InspectedFile(length: before.size, headerBytes: try start(of: file))
        readHeader(of: file, into: &result)
        _ = takeEvidence()
        var opened: FileContent?
        if result.headerError == nil, result.header != nil {
            do throws(VolumeError) {
                let content = try FileContent.open(in: context, backing: file)
                result.size = content.size
                result.version = content.version
                result.seenVersion = volume.content.seen?.version(of: content.fileID)
                opened = content
            } catch { result.error = error }
        } else if result.hasNoHeader {
            result.size = 0
        } else {
            result.error = result.headerError
        }
        if case .store(let errno)? = result.error { throw .store(errno) }
        result.evidence = evidence.withLock { $0 }
        guard begin(result) else { return result }
        let isOpen = opened != nil
        let content: FileContent
        if let opened { content = opened } else { content = try closed(result, file, before) }
        defer { content.wipeKeys() }
        let inspector = PageInspector(
            content, hasKey: content.hasKey, isOpen: isOpen, takeEvidence: takeEvidence)
        if !result.hasNoHeader { try inspector.run(length: before.size, alone: alone, report) }
        let after = try status(file)
        result.wasChanged =
            after.size != before.size || after.modified != before.modified || after.changed != before.changed
        return result
    }

    /// The content of a file that a mount would not open: with its key if the header verifies, else without.
    private func closed(
        _ file: InspectedFile, _ backing: BackingFile, _ status: Status
    ) throws(VolumeError) -> FileContent {
        if file.headerError == nil, file.header != nil {
            do throws(VolumeError) {
                return try FileContent.openDamaged(in: context, backing: backing)
            } catch {
                // No key: the pages show what they claim.
            }
        }
        return FileContent.openUnverified(in: context, backing: backing, inode: status.inode, header: file.header)
    }

    private func readHeader(of file: BackingFile, into result: inout InspectedFile) {
        do throws(VolumeError) {
            result.header = try FileContent.header(in: context, backing: file)
        } catch {
            result.headerError = error
            var unknown: FormatError?
            do throws(FormatError) { result.header = try FileHeader(parsing: result.headerBytes.span) } catch {
                unknown = error
            }
            guard case .newer = result.headerError else { return }
            // The MAC is right, and every field is one that this version knows: the keybag does not agree.
            let isOtherSuite = result.header.map { $0.suite != context.geometry.suite } ?? false
            result.unknown = unknown ?? (isOtherSuite ? .suite : .unsupported("generation of the class key"))
        }
    }

    private func start(of file: BackingFile) throws(VolumeError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: FileHeader.length)
        let count: Int
        do throws(Errno) {
            var span = bytes.mutableSpan
            count = try file.read(into: &span, at: 0)
        } catch { throw .store(error) }
        return Array(bytes.prefix(count))
    }

    private func status(_ node: BackingNode) throws(VolumeError) -> Status {
        do throws(Errno) { return try node.status() } catch { throw .store(error) }
    }

    private func takeEvidence() -> CrashEvidence.Kind? {
        evidence.withLock { evidence in
            defer { evidence = [] }
            return evidence.last?.kind
        }
    }

    /// Looks at the record of a directory.
    ///
    /// - Parameter isRoot: whether it is the store's root, whose ID comes from the keys.
    package func record(of directory: BackingDirectory, isRoot: Bool) throws(VolumeError) -> InspectedRecord {
        let target: [UInt8]
        do throws(Errno) {
            target = try directory.readSymlink(BackingName.record)
        } catch .ENOENT {
            return InspectedRecord(error: .damaged(.missingRecord))
        } catch .EINVAL {
            return InspectedRecord(error: .damaged(.record))
        } catch { throw .store(error) }
        if target.isEmpty { return InspectedRecord(error: .damaged(.missingRecord)) }
        if let record = volume.names.record(target: target) {
            var found = InspectedRecord(directoryID: record.directoryID, defaultClass: record.defaultClass)
            if record.isNewer { found.error = .newer(.record) }
            if isRoot, record.directoryID != volume.keys.metadata.rootID { found.error = .damaged(.record) }
            return found
        }
        let claims = DirectoryRecord.decode(target: target.span).flatMap { try? DirectoryRecord(parsing: $0.span) }
        return InspectedRecord(
            directoryID: claims?.directoryID, defaultClass: claims?.defaultClass, error: .damaged(.record))
    }

    /// Looks at the target of a symbolic link of the volume.
    package func target(of link: EntryName, in directory: BackingDirectory) throws(VolumeError) -> InspectedTarget {
        let stored: [UInt8]
        do throws(Errno) { stored = try directory.readSymlink(link) } catch { throw .store(error) }
        if let target = volume.names.openTarget(stored) { return InspectedTarget(path: target) }
        if let reference = volume.names.openLongTarget(stored) {
            do throws(VolumeError) {
                return InspectedTarget(path: try volume.overflow.content(of: reference, owner: .symlink))
            } catch {
                if case .store = error { throw error }
                return InspectedTarget(error: error)
            }
        }
        let isNewer = volume.names.isNewerTarget(stored)
        return InspectedTarget(error: isNewer ? .newer(.symlink) : .damaged(.symlink))
    }
}
