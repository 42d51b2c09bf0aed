// The state of a directory's node: its record, and whether the backing directory needs a sync.

internal import HostSystem
internal import VolumeFormat

/// A directory's record as far as it was read.
enum RecordState: Sendable {
    /// Not read yet.
    case unread
    /// The record verified.
    case known(ObjectID, defaultClass: ProtectionClass?)
    /// There is none (a sync tool may deliver it later), so it is looked for again each time.
    case missing
}

/// The part of a node that only directories have.
final class DirectoryState: Sendable {
    struct Contents {
        var record = RecordState.unread
        /// Counts changes that need a sync of the directory: a new record, companion of a long name, or directory.
        var changes: UInt64 = 0
        /// The changes that a sync has made durable. One that is under way does not count: another fsync that skipped its
        /// part would promise what is not there yet.
        var syncedChanges: UInt64 = 0
        /// Whether the backing directory has a default ACL; nil: ask.
        var hasDefaultACL: Bool?
        /// The families of its names.
        var families = KnownFamilies()
    }

    let contents = Lock(Contents())
    /// Held across the store's I/O while long names are created or deleted, and while records of subdirectories are
    /// set aside or put back.
    let structure = Lock(())

    func setNeedsSync() {
        contents.withLock { $0.changes += 1 }
    }
}
