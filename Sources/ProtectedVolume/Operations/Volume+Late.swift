// Uses late records in a mount: before a lock, while locked, and at an unlock.

package import BackingStore
package import FileContents
package import KeyFiles
package import Keybag
internal import HostSystem
package import VolumeFormat

extension Volume {
    /// Handles a write from the page cache after its keys are gone. Seals it as a late record, or writes it to the file
    /// if an unlock has come meanwhile. It is durable after `synchronize`, and in the store after `persistLateRecords`.
    package func writeLate(_ data: Span<UInt8>, at offset: UInt64, to content: FileContent) throws(VolumeError) {
        // No unlock could write it to the file.
        let (end, overflow) = offset.addingReportingOverflow(UInt64(data.count))
        guard !overflow, end <= self.content.geometry.maximumSize else { throw .refused(.EFBIG) }
        while true {
            if let log = late.current {
                if try log.append(data, to: content.fileID, at: offset, keys) { return }
                // An unlock is applying the records. The write will be an ordinary one soon.
                keys.waitWhileOpening()
            }
            do throws(VolumeError) {
                return try content.write(data, at: offset, access: .writeBack)
            } catch {
                guard case .locked = error, late.current != nil || keys.isOpening else { throw error }
            }
        }
    }

    /// Writes late records that wait in memory to the store. Quick if there are none.
    package func persistLateRecords() throws(VolumeError) {
        if let log = late.current, log.hasUnwritten { try log.persist() }
    }

    /// Whether late records wait to be written to the store.
    package var hasLateRecordsInMemory: Bool { late.current?.hasUnwritten ?? false }

    /// The number of late records of the current lock.
    package var lateRecordCount: Int { late.current?.count ?? 0 }

    /// Waits until a file's late records are in the file or durable. fsync(2) needs this.
    func synchronizeLateRecords(of content: FileContent?) throws(VolumeError) {
        if let content, content.owesLateRecords, keys.state == .unlocked { try late.apply(to: content) }
        guard let content else { return }
        try late.synchronize(recordsOf: content.fileID)
    }

    /// The late files that a new state file lists: all of them, because it is not known which were used.
    package static func openLocks(of volume: VolumeID, in root: BackingDirectory) -> [StateFileLayout.OpenLock] {
        let own = LateRecords.numbers(in: root).filter { number in
            guard let file = try? root.openFile(BackingName.known(LateFileName.bytes(of: number)), .readOnly),
                let header = try? LateFileContent.header(of: file)
            else { return false }
            return header.volumeID == volume && header.number == number
        }
        return own.suffix(StateFileLayout.maximumLocks).map { .init(number: $0) }
    }

    /// Installs keys. Open files get their late records before anything else is allowed, other files before they are
    /// opened.
    package func unlock(
        with given: consuming VolumeKeys, onlyIfUnlocked: Bool = false
    ) throws(KeyError) -> UnlockOutcome {
        try keys.unlock(with: given, onlyIfUnlocked: onlyIfUnlocked) { takeLateRecords() }
    }

    /// Runs with the keys in memory, before the classes are open.
    func takeLateRecords() {
        if options.isReadOnly {
            late.look()
        } else {
            // An inode that a change of class has replaced has the same ID as its successor. The records belong to the
            // successor.
            late.unlock {
                opened.all.filter { !$0.state.withLock { $0.isSuperseded } }
                    .compactMap { content(of: $0) }
            }
        }
    }
}

extension LateRecords {
    /// Whether records may wait for a file that is opened while its class is closed. Those of earlier mounts are read at the
    /// first unlock; before it, any late file counts.
    func mayOwe(_ file: ObjectID) -> Bool {
        if owes(file) { return true }
        if !isLoaded, (try? listed())?.isEmpty != true { return true }
        return current?.take(from: 0).contains { $0.header.fileID == file } ?? false
    }
}
