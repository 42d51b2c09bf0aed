// The state of an open file, grouped by purpose.

internal import HostSystem
internal import VolumeFormat

/// The state of an open file. Guarded by `FileContent.state`.
///
/// The size and the last page change only under an exclusive hold of the range lock from the last page on. The header
/// changes only under an exclusive hold of page 0.
struct FileState: Sendable {
    /// The current header, even while it waits to be written.
    var header: FileHeader
    /// The file's size in bytes.
    var size: UInt64
    /// Whether page 0 is on disk.
    var pageZero: PageZero
    /// The part of the file that has reached the disk.
    var durability = Durability()
    /// The damage from a crash, and the progress of its repair.
    var recovery = Recovery()
    /// Another machine has changed the header, and its class is closed here, so that nothing proves it. It counts.
    var isUnproven = false
}

/// Whether page 0 is on disk.
enum PageZero: Sendable {
    /// On disk.
    case written
    /// Created in this mount and not written yet: the backing file is one page of zeros.
    case pending
    /// Rule R0: a mount that crashed never wrote it. Nothing on disk can be used.
    case missing
}

/// The parts of an open file that have reached the disk.
struct Durability: Sendable {
    /// The file is on the list of changed files, or this mount has made it.
    var isListed = false
    /// The last page 0 written has an epoch of this mount or, while the middle waits, one that ended badly.
    var pageZeroIsOurs = false
    /// The file is marked: a page 0 with an epoch of this mount is durable, or the file was created in this mount and
    /// is durable.
    var isMarked = false
    /// Counts growth; equal to `syncedGrowth` when nothing grew since the last sync.
    var growth: UInt64 = 1
    /// `growth` at the last sync.
    var syncedGrowth: UInt64 = 0
    /// Pages written since the last sync. For a file that was just opened the number is unknown, so it is set to a
    /// large one.
    var unsyncedPages = UInt64.max / 2
    /// The page 0 with HOLES may not be durable yet. No hole may be punched before it is.
    var holesMayBeLost = false
    /// The file has no name and was given a class that is not durable yet. It must be durable before it gets a name.
    var owesClass = false
}

/// The damage that a crash has left in an open file, and the progress of its repair.
struct Recovery: Sendable {
    /// The repair that must come before the first modification.
    var repair: RepairNeed = .none
    /// The end of the file showed that a writer has crashed.
    var hasEvidence = false
    /// Crash damage of rule R4 is tolerated and reads as the rule says.
    var isTolerant = false
    /// The epoch that ended badly, of page 0 or of the last page, whose crash evidence is tolerated.
    var suspectEpoch: UInt32?
    /// Rule R5 is done except for the middle, which `mendSome` mends. Changes only under an exclusive hold of page 0.
    var unmended: UnmendedRange?
}

/// The repairs that can be needed before the first modification.
enum RepairNeed: Sendable {
    /// Nothing.
    case none
    /// Cut the backing file, whose length does not fit the last page.
    case end
    /// Rule R5, all of it.
    case full
}
