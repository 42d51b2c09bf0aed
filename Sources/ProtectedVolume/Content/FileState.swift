// What is known in memory of a file that is open, by purpose.

internal import VolumeFormat

/// What is known of an open file. Guarded by `FileContent.state`.
///
/// The size and the last page change only under an exclusive hold of the range lock from the last page on, the header only
/// under one of page 0.
struct FileState: Sendable {
    /// The header as it is now, also while it waits to be written.
    var header: FileHeader
    /// The file's size in bytes.
    var size: UInt64
    /// Whether page 0 is on disk.
    var pageZero: PageZero
    /// What has reached the disk.
    var durability = Durability()
    /// What a crash has left.
    var recovery = Recovery()
    /// What must be done before the next request is let in.
    var access = AccessConditions()
    /// The modification time that was set last, to be put back after late writes from the page cache.
    var keptTime = KeptTime()
    /// The offsets of writes from the page cache that are running.
    var writeBacks: [UInt64] = []
}

/// Whether page 0 is on disk.
enum PageZero: Sendable {
    /// On disk.
    case written
    /// Created in this mount and not written yet: the backing file is one page of zeros.
    case pending
    /// Rule R0: never written by a session that crashed; nothing on disk is of use.
    case missing
}

/// What of an open file has reached the disk.
struct Durability: Sendable {
    /// Page 0, as last written, carries an epoch of this mount; or, while the middle waits, one that ended badly.
    var pageZeroIsOurs = false
    /// A page 0 with an epoch of this mount, or a file created in it, is durable: the file is marked.
    var isMarked = false
    /// Counts growth; equal to `syncedGrowth` when nothing grew since the last sync.
    var growth: UInt64 = 1
    /// `growth` at the last sync.
    var syncedGrowth: UInt64 = 0
    /// Pages written since the last sync. The number is not known for a file that was just opened, so it is large.
    var unsyncedPages = UInt64.max / 2
    /// The page 0 with HOLES may still be lost: nothing may be punched before it is durable.
    var holesMayBeLost = false
}

/// What a crash has left in an open file, and how far it is mended.
struct Recovery: Sendable {
    /// What must be mended before the first modification.
    var repair: RepairNeed = .none
    /// Departures of rule R4 are read as the rule says.
    var isTolerant = false
    /// The epoch that ended badly, of page 0 or of the last page, whose crash evidence is tolerated.
    var suspectEpoch: UInt32?
    /// Rule R5 is done except for the middle: `mendSome` goes on with it. Changes only under an exclusive hold of page 0.
    var unmended: Unmended?
}

/// What must be mended before the first modification.
enum RepairNeed: Sendable {
    /// Nothing.
    case none
    /// The backing file's length does not fit the last page: cut.
    case end
    /// Rule R5, all of it.
    case full
}

/// What must be done before the next request is let in.
struct AccessConditions: Sendable {
    /// The keys were wiped: the file ID is checked before they come back.
    var wasWiped = false
    /// Late records could not be put in: nothing is read or written before they are.
    var owesLateRecords = false
}
