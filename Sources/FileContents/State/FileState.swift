// The state of an open file, grouped by purpose.

internal import HostSystem
internal import VolumeFormat

/// The state of an open file. Guarded by `FileContent.state`.
///
/// The size and the last page change only under an exclusive hold of the range lock from the last page on. The header
/// changes only under an exclusive hold of page 0.
struct FileState: Sendable {
    /// The current header, even while it waits to be written.
    private(set) var header: FileHeader
    /// The file's size in bytes.
    private(set) var size: UInt64
    /// Whether page 0 is on disk.
    private(set) var pageZero: PageZero
    /// The part of the file that has reached the disk.
    private(set) var durability = Durability()
    /// The damage from a crash, and the progress of its repair.
    private(set) var recovery = Recovery()
    /// The file's version: the higher one of the epochs of page 0 and of the last page. Each session that writes one of them raises
    /// it, and no crash puts it back, because a file is marked before pages are dropped.
    private(set) var version: UInt32
    /// Another machine has changed the header, and its class is closed here, so that nothing proves it. It counts.
    private(set) var isUnproven = false

    init(
        header: FileHeader, size: UInt64 = 0, pageZero: PageZero, durability: Durability = Durability(),
        recovery: Recovery = Recovery(), version: UInt32 = 0
    ) {
        self.header = header
        self.size = size
        self.pageZero = pageZero
        self.durability = durability
        self.recovery = recovery
        self.version = version
    }

    // MARK: what was written

    /// Page 0 or the last page was written under `epoch`.
    /// - Returns: whether that is another version.
    mutating func wroteEnd(under epoch: UInt32) -> Bool {
        guard epoch > version else { return false }
        version = epoch
        return true
    }

    /// Page 0 was written with `header`, under an epoch of this mount.
    mutating func wrote(header: FileHeader) {
        if header.flags.contains(.holes), !self.header.flags.contains(.holes) || pageZero != .written {
            durability.holesMayBeLost = true
        }
        self.header = header
        pageZero = .written
        durability.pageZeroIsOurs = true
    }

    /// Page 0 was written with the header that it had.
    mutating func wrotePageZero() { durability.pageZeroIsOurs = true }

    /// Pages were written, page 0 perhaps among them, so that the file is at least `size` bytes long.
    mutating func wrote(pages count: Int, withPageZero isFirst: Bool, size: UInt64, grows: Bool) {
        self.size = max(self.size, size)
        if grows { durability.growth += 1 }
        durability.unsyncedPages += UInt64(count)
        if isFirst {
            pageZero = .written
            durability.pageZeroIsOurs = true
        }
    }

    /// The file on disk ends at `size`.
    mutating func wasCut(to size: UInt64) { self.size = size }

    /// A sync has begun in the state `before`, and ended.
    /// - Returns: the version, if it was not durable before.
    mutating func synced(since before: FileState) -> UInt32? {
        durability.syncedGrowth = max(durability.syncedGrowth, before.durability.growth)
        // Two syncs at the same time have counted the same pages.
        durability.unsyncedPages -= min(durability.unsyncedPages, before.durability.unsyncedPages)
        if before.durability.holesMayBeLost { durability.holesMayBeLost = false }
        if before.durability.owesClass { durability.owesClass = false }
        if before.durability.pageZeroIsOurs, before.pageZero == .written { durability.isMarked = true }
        guard before.version > durability.version else { return nil }
        durability.version = before.version
        return before.version
    }

    /// The file is listed as changed.
    mutating func listed() { durability.isListed = true }

    /// The class was changed, and is made durable when the file gets a name.
    mutating func owesClass() { durability.owesClass = true }

    // MARK: opening

    /// Rules R1 to R3 have found the end.
    /// - Parameters:
    ///   - isOurs: whether this mount has written page 0: the file was closed and opened again.
    ///   - version: the file's version, and whether it is durable.
    mutating func found(size: UInt64, isOurs: Bool, version: (UInt32, isDurable: Bool), _ recovery: Recovery) {
        self.size = size
        self.version = version.0
        durability.version = version.isDurable ? version.0 : 0
        pageZero = .written
        durability.pageZeroIsOurs = isOurs
        durability.isListed = isOurs
        // It may not be durable yet.
        durability.holesMayBeLost = isOurs && header.flags.contains(.holes)
        self.recovery = recovery
    }

    /// Another machine has changed the header; or has not, as it turned out.
    mutating func found(header: FileHeader) { self.header = header }

    /// The header that another machine has written is not proven.
    mutating func foundUnproven() { isUnproven = true }

    /// What another machine has written is known.
    /// - Parameter wasWhole: whether this machine had nothing to mend before.
    mutating func caughtUp(wasWhole: Bool) {
        if wasWhole, !recovery.hasEvidence { recovery.repair = .none }
        isUnproven = false
        durability.growth += 1
    }

    // MARK: mending

    /// Rule R0: the file has a new header in memory, and a durable page of zeros.
    mutating func startedAnew() {
        pageZero = .pending
        durability.pageZeroIsOurs = true
        durability.isMarked = true
    }

    /// The ends were written as rule R5 says, and wait for a sync.
    mutating func wroteEnds(leaving unmended: UnmendedRange?) {
        durability.pageZeroIsOurs = true
        recovery.unmended = unmended
    }

    /// The length is right, and durable.
    mutating func mendedLength() { recovery.repair = .none }

    /// The ends are right, and durable.
    /// - Parameter isTolerant: whether the middle waits.
    mutating func mendedEnds(isTolerant: Bool) {
        recovery.repair = .none
        recovery.isTolerant = isTolerant
    }

    /// The ends were mended when the file was open before in this mount.
    mutating func resumed(_ rest: UnmendedRange) {
        recovery.unmended = rest
        recovery.repair = .none
        // The page has been durable since the ends were mended.
        durability.pageZeroIsOurs = true
        durability.isMarked = true
        durability.holesMayBeLost = header.flags.contains(.holes)
    }

    /// The progress in the middle; nil when it is done.
    mutating func setUnmended(_ rest: UnmendedRange?) { recovery.unmended = rest }

    /// Changes the progress in the middle, if it waits.
    /// - Returns: what it is then.
    mutating func advance(_ change: (inout UnmendedRange) -> Void) -> UnmendedRange? {
        guard var rest = recovery.unmended else { return nil }
        change(&rest)
        recovery.unmended = rest
        return rest
    }

    /// The middle is mended, and page 0 says so.
    mutating func mendedAll() { recovery.isTolerant = false }

    /// The end on disk may be wrong.
    mutating func failedEnd() {
        recovery.repair = .full
        recovery.isTolerant = true
    }

    // MARK: copies to judge pages by

    /// The same, with crash damage tolerated or not.
    func tolerating(_ isTolerant: Bool) -> FileState {
        var copy = self
        copy.recovery.isTolerant = isTolerant
        return copy
    }

    /// The same, with this part of the middle unmended.
    func leaving(_ unmended: UnmendedRange?) -> FileState {
        var copy = self
        copy.recovery.unmended = unmended
        return copy
    }

    /// The same, with another header.
    func with(_ header: FileHeader) -> FileState {
        var copy = self
        copy.header = header
        return copy
    }
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
    /// The version that is durable; 0 if that is not known.
    var version: UInt32 = 0
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
