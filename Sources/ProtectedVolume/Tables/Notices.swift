// Tells the log what a mount meets, and each object once.

package import FileContents
internal import BackingStore
internal import HostSystem
package import KeyFiles
internal import VolumeFormat

/// An event of a volume, for the log.
package enum VolumeNotice: Sendable {
    /// Crash damage in a file was tolerated.
    case crashEvidence(CrashEvidence)
    /// A backing entry does not decrypt.
    case undecryptable(directoryInode: UInt64, backingName: [UInt8])
    /// A directory has no record. Nothing can be created in it, and its names are not verified.
    case missingRecord(directoryInode: UInt64)
    /// A record that a crash had left set aside was restored.
    case restoredRecord(directoryInode: UInt64)
    /// A stored object failed its check.
    case damaged(Damage, inode: UInt64)
    /// A newer version has made an object, so a request was refused. Reported once for each object, up to a limit.
    case newer(Damage, inode: UInt64)
    /// No unlock has verified the volume's public key on this machine yet, so a file of class B was not made. Reported
    /// once.
    case unprovenPublicKey
    /// A file is older than this machine has seen it. Reported once for each file, up to a limit.
    case older(inode: UInt64)
    /// The table of the versions that this machine has seen cannot be used. Reported once.
    case seenTable(SeenTableFault)
    /// An event of a lock's late records.
    case late(number: UInt64, LateNotice)
}

/// What was reported of a volume. Thread-safe: its lock guards what was reported, and is not held while it is reported.
final class Notices: Sendable {
    private struct Name: Hashable {
        let directory: UInt64
        let name: EntryName
    }

    private struct Told {
        /// Entries that do not decrypt, and records that are damaged.
        var names: Set<Name> = []
        /// The inodes of objects that a newer version has made.
        var newer: Set<UInt64> = []
        /// The inodes of files that are older than this machine has seen them.
        var older: Set<UInt64> = []
        var isUnprovenKey = false
    }

    /// The limit of names, and of newer objects. Further ones are not reported.
    private static let most = 4096

    private let told = Lock(Told())
    private let hand: @Sendable (VolumeNotice) -> Void

    /// - Parameter report: is called from any thread, with locks held.
    init(report: @escaping @Sendable (VolumeNotice) -> Void) { hand = report }

    /// Reports something each time.
    func tell(_ notice: VolumeNotice) { hand(notice) }

    /// Reports an object that a newer version has made.
    func tellNewer(_ object: Damage, inode: UInt64) {
        let isNews = told.withLock { $0.newer.count < Self.most && $0.newer.insert(inode).inserted }
        if isNews { hand(.newer(object, inode: inode)) }
    }

    /// Reports a file that is older than this machine has seen it.
    func tellOlder(inode: UInt64) {
        let isNews = told.withLock { $0.older.count < Self.most && $0.older.insert(inode).inserted }
        if isNews { hand(.older(inode: inode)) }
    }

    /// The number of files that were reported as older and not accepted since.
    var olderFiles: Int { told.withLock { $0.older.count } }

    /// A file, or each file if it is nil, is accepted as it is. An older version of it is reported again.
    func acceptOlder(inode: UInt64?) {
        told.withLock { told in
            if let inode { told.older.remove(inode) } else { told.older = [] }
        }
    }

    /// Reports a name that does not decrypt.
    func tellUndecryptable(_ name: EntryName, in parent: Node) {
        if isNews(name, in: parent) {
            hand(.undecryptable(directoryInode: parent.inode, backingName: Array(name.bytes)))
        }
    }

    /// Reports a directory's damaged record, although each lookup reads it again.
    func tellDamagedRecord(of node: Node) {
        if isNews(BackingName.record, in: node) { hand(.damaged(.record, inode: node.inode)) }
    }

    private func isNews(_ name: EntryName, in parent: Node) -> Bool {
        let name = Name(directory: parent.inode, name: name)
        return told.withLock { $0.names.count < Self.most && $0.names.insert(name).inserted }
    }

    /// Reports that class B makes no new file, which it otherwise does in every state.
    func tellUnprovenKey() {
        let isFirst = told.withLock { told in
            defer { told.isUnprovenKey = true }
            return !told.isUnprovenKey
        }
        if isFirst { hand(.unprovenPublicKey) }
    }
}
