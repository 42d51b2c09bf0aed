// The state of a directory's node: record, pending syncs and name families.

internal import BackingStore
internal import HostSystem
internal import VolumeFormat

/// A directory's record, as far as it has been read.
enum RecordState: Sendable {
    /// Not read yet.
    case unread
    /// The record verified.
    case known(VerifiedRecord)
    /// The record is missing. Each use looks for it again, because a sync tool may deliver it later.
    case missing
    /// The record does not verify. Each use reads it again.
    case damaged
}

/// A short name with its backing name.
struct LastName: Sendable {
    private var bytes = InlineArray<64, UInt8>(repeating: 0)
    private var count = 0
    private var directory = ObjectID.absent
    private var entry: EntryName?

    /// No name.
    init() {}

    /// Nil if the name is too long to be kept.
    init?(_ name: Span<UInt8>, in directory: ObjectID, _ entry: EntryName) {
        guard name.count <= bytes.count else { return nil }
        for index in name.indices { bytes[index] = name[index] }
        count = name.count
        self.directory = directory
        self.entry = entry
    }

    /// The backing name; nil if this is another name, or the directory's ID was another one.
    func entry(for name: Span<UInt8>, in directory: ObjectID) -> EntryName? {
        guard let entry, directory == self.directory, name.hasSameBytes(as: bytes.span.extracting(0..<count)) else {
            return nil
        }
        return entry
    }
}

/// The part of a node that only directories have.
package final class DirectoryState: Sendable {
    struct Contents {
        var record = RecordState.unread { didSet { stamp = nil } }
        /// The stamp that the record had before it was read. Nil if it is not known, as after each change of ours.
        var stamp: ChangeStamp?
        /// When the record was read or compared with the store (CLOCK_MONOTONIC).
        var lastLook: UInt64 = 0
        /// Counts changes that need a sync of the directory: a new record, companion of a long name, or directory.
        var changes: UInt64 = 0
        /// The number of changes that a sync has made durable. A running sync does not count: another fsync that relied on it
        /// would return too early.
        var syncedChanges: UInt64 = 0
        /// Whether the backing directory has a default ACL; nil: ask.
        var hasDefaultACL: Bool?
        /// The modification time that a removed directory keeps: the store's moves when its record is taken out.
        var timeOfLastChange: Timestamp?
        /// The families of its names.
        var families = KnownFamilies()
        /// The name that was encoded last. A program looks a name up before it makes, renames or removes it.
        var lastName = LastName()
    }

    let contents = InPlaceLock(Contents())
    /// Held across the store's I/O while long names are created or deleted, and while records of subdirectories are
    /// set aside or put back.
    let structure = InPlaceLock(())

    /// Takes a record that was just written, and is not durable yet.
    package func set(record: VerifiedRecord) {
        contents.withLock { contents in
            contents.record = .known(record)
            contents.changes += 1
        }
    }

    func setNeedsSync() {
        contents.withLock { $0.changes += 1 }
    }
}
