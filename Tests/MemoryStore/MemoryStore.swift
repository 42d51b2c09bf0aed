// A backing store in memory for tests: records calls, fails on demand, and can lose power.

package import BackingStore
import Glibc
package import HostSystem

/// The sort of a recorded call of a `MemoryStore`.
package enum StoreCall: String, Sendable {
    /// Content.
    case read, write, truncate, fdatasync, fsync, allocate, punch, seek
    /// Status, times, mode, owner, extended attributes.
    case status, setMode, setOwner, setTimes, getAttribute, setAttribute, removeAttribute, listAttributes
    /// Opening and listing.
    case openFile, openDirectory, openNode, createFile, list, readSymlink
    /// Directory entries.
    case createDirectory, createSymlink, createSpecial, rename, link, unlink, removeDirectory
    /// A directory's fsync, syncfs, statvfs, flock.
    case synchronizeDirectory, synchronizeStore, statistics, lock

    /// Whether the call changes the store.
    package var changes: Bool {
        switch self {
        case .write, .truncate, .allocate, .punch, .setMode, .setOwner, .setTimes, .setAttribute, .removeAttribute,
            .createFile, .createDirectory, .createSymlink, .createSpecial, .rename, .link, .unlink, .removeDirectory:
            true
        default: false
        }
    }

    /// Whether the call changes names or attributes.
    var changesNames: Bool {
        switch self {
        case .setAttribute, .createFile, .createDirectory, .createSymlink, .createSpecial, .rename, .link, .unlink,
            .removeDirectory:
            true
        default: false
        }
    }

    /// Whether the call makes something durable.
    var synchronizes: Bool {
        switch self {
        case .fdatasync, .fsync, .synchronizeDirectory, .synchronizeStore: true
        default: false
        }
    }
}

/// One recorded call.
package struct StoreRecord: Hashable, Sendable {
    /// The sort of the call.
    package var call: StoreCall
    /// The object, as in `Status.inode`.
    package var object: UInt64
    /// Position in the file, or the new length of a truncation.
    package var offset: UInt64
    /// Length in bytes.
    package var length: UInt64
}

/// A tree of files in memory.
///
/// What survives a power cut: the calls that change metadata (sizes and punched holes included) reach the disk in order,
/// so a prefix of them, no shorter than what an fsync has forced; of page writes since the file's last fsync any subset,
/// but none to a page whose earlier cutting or punching did not arrive, nor to a hole at an end that was still to move:
/// giving a page its space is metadata too.
package final class MemoryStore: Sendable {
    struct Pending {
        var change: MemoryImage.Change
        var time: Timestamp
        /// An fsync has made this page write durable.
        var isForced = false
    }

    /// A call that fails.
    struct Fault {
        /// The sort of call that fails; nil for any call.
        var calls: Set<StoreCall>?
        /// 1: the next call of these.
        var countdown: Int
        var error: Errno
        /// Every such call from then on fails, or where these are told only those of them.
        var lasts = false
        var only: Set<StoreCall>?
        /// A read gives so many bytes and no error; of a write so many arrive before it fails. With any number, a change of
        /// names or attributes is done and fails then, as if the network had lost the reply.
        var bytes: Int?

        func strikes(_ call: StoreCall) -> Bool {
            countdown == 0 || lasts && countdown < 0 && only?.contains(call) ?? true
        }
    }

    struct State: Sendable {
        var live: MemoryImage
        /// The image that is certainly on the disk; `pending` came after it.
        var durable: MemoryImage
        var pending: [Pending] = []
        /// So many of `pending` contain all metadata that must survive.
        var forcedCount = 0
        var nextObject = 2
        var clock: Int64 = 0
        var isClockStopped = false
        var records: [StoreRecord] = []
        var isRecording = true
        var faults: [Fault] = []
        var strikes = 0
        /// The part of the current call that takes effect.
        var partial: (bytes: Int, error: Errno)?
        var changesUntilCut: Int?
        /// Holders of flock by object: handle identity → exclusive.
        var locks: [Int: [ObjectIdentifier: Bool]] = [:]
        /// The same of the locks on contents, where they are kept.
        var contentLocks: [Int: [ObjectIdentifier: Bool]]?
        var freeBytes: UInt64 = 1 << 40
        var keepsNewLinks = true
        var syncsWhole = true
        var listsAllAttributes = true
        /// The states before each sync, where they are kept, with those of `companion`.
        var moments: [(state: State, other: State?)]?
        weak var companion: MemoryStore?
    }

    let state: Lock<State>
    /// A flock was given back.
    let unlocked = Condition()
    /// Runs before the next rename, once.
    package let beforeRename = Lock<(@Sendable () -> Void)?>(nil)
    /// Runs before times are set the next time, once.
    package let beforeSetTimes = Lock<(@Sendable () -> Void)?>(nil)
    /// Runs before a file is synced the next time, once.
    package let beforeSync = Lock<(@Sendable () -> Void)?>(nil)
    /// Runs before an object's flags are asked for the next time, once.
    package let beforeFlags = Lock<(@Sendable () -> Void)?>(nil)
    /// Another store's `st_dev` is another one.
    let device: UInt64

    /// An empty store.
    package convenience init() {
        let time = Timestamp(seconds: 1_700_000_000, nanoseconds: 0)
        let root = MemoryImage.Object(
            mode: 0o40755, owner: geteuid(), group: getegid(), links: 2, accessed: time, modified: time, changed: time)
        self.init(MemoryImage(root: root), nextObject: 2)
    }

    init(_ image: MemoryImage, nextObject: Int) {
        var state = State(live: image, durable: image)
        state.nextObject = nextObject
        self.state = Lock(state)
        device = 0x4D45_4D00
    }

    /// The store's top directory.
    package var root: BackingDirectory { MemoryDirectory(self, 1) }

    // MARK: Records and faults

    /// The calls so far.
    package var records: [StoreRecord] { state.withLock { $0.records } }

    /// From now on all changes have the same time, as on a store whose clock is coarse.
    package func stopClock() { state.withLock { $0.isClockStopped = true } }

    /// From now on new symlinks do not reach the disk in order, as on F2FS: it says so, and leaves it to its user to sync.
    package func forgetOrderOfNewLinks() { state.withLock { $0.keepsNewLinks = false } }

    /// From now on lists of attributes leave `trusted.*` out, as for one who is not root.
    package func hideTrustedAttributes() { state.withLock { $0.listsAllAttributes = false } }

    /// From now on syncing the whole store makes nothing durable, as on FUSE.
    package func forgetWholeSyncs() { state.withLock { $0.syncsWhole = false } }

    /// From now on locks on contents exclude each other, as on a store that several machines use.
    package func keepContentLocks() { state.withLock { $0.contentLocks = [:] } }

    /// Forgets the calls recorded so far; `recording` says whether to go on.
    package func clearRecords(recording: Bool = true) {
        state.withLock {
            $0.records = []
            $0.isRecording = recording
        }
    }

    /// Makes the `count`-th call from now (1: the next) of that sort, or of any for nil, fail once with `error`.
    package func fail(_ call: StoreCall?, at count: Int = 1, with error: Errno) {
        state.withLock { $0.faults.append(Fault(calls: call.map { [$0] }, countdown: count, error: error)) }
    }

    func inject(_ fault: Fault) {
        state.withLock { $0.faults.append(fault) }
    }

    /// How often a fault has struck.
    var strikes: Int { state.withLock { $0.strikes } }

    /// Forgets faults that have not struck.
    package func clearFaults() {
        state.withLock {
            $0.faults = []
            $0.changesUntilCut = nil
        }
    }

    /// Lets `count` more changing calls happen, then fails every call with EIO, until `crash` makes the store anew.
    package func cutPower(after count: Int) {
        state.withLock { $0.changesUntilCut = count }
    }

    /// How many bytes can still be written to pages that hold no data; then writes are ENOSPC.
    package func limitSpace(to bytes: UInt64) {
        state.withLock { $0.freeBytes = bytes }
    }

    /// Every change becomes durable, as after a clean unmount of the backing store.
    package func makeDurable() {
        state.withLock { $0.makeDurable() }
    }

    // MARK: Power

    /// How many ways of losing power there are now: lengths of the metadata prefix × subsets of page writes.
    package var crashStateCount: Int { moment.count }

    /// The store as it may be found after losing power now; the same seed gives the same choice.
    package func crash(seed: UInt64) -> MemoryStore {
        var random = SplitMix(seed: seed)
        let moment = moment
        return crash(moment, moment.outcome(&random))
    }

    /// The `index`-th of `crashStateCount` ways of losing power.
    package func crash(index: Int) -> MemoryStore {
        let moment = moment
        return crash(moment, moment.outcome(index))
    }

    /// Up to `limit` stores after losing power: all of them where there are no more, else a random choice.
    package func crashes(atMost limit: Int, seed: UInt64 = 1) -> [MemoryStore] {
        let count = crashStateCount
        if count <= limit { return (0..<count).map(crash(index:)) }
        return (0..<limit).map { crash(seed: seed &* 0x1_0000_0001 &+ UInt64($0)) }
    }

    private func crash(_ moment: Moment, _ outcome: Outcome) -> MemoryStore {
        moment.store(outcome) ?? MemoryStore(moment.state.durable, nextObject: moment.state.nextObject)
    }

    /// The store at this time, to cut its power later.
    var moment: Moment { Moment(state.withLock { $0.withoutHistory }) }

    /// The moments just before each sync since `keepMoments()`.
    var moments: [Moment] { state.withLock { $0.moments ?? [] }.map { Moment($0.state) } }
    var momentCount: Int { state.withLock { $0.moments?.count ?? 0 } }
    /// The same, with what the other store was then.
    var jointMoments: [(Moment, Moment)] {
        state.withLock { $0.moments ?? [] }.compactMap { one in one.other.map { (Moment(one.state), Moment($0)) } }
    }

    /// Keeps the store as it stands before each sync from now on: a sync is what takes outcomes away, so the outcomes of
    /// these moments and of the end are those of all times between.
    ///
    /// - Parameter other: a store whose state at the same times is kept as well; for one thread.
    func keepMoments(with other: MemoryStore? = nil) {
        state.withLock { state in
            state.moments = []
            state.companion = other
        }
    }
}

extension MemoryStore.State {
    /// Positions in `pending` of what may or may not have arrived: metadata beyond what is forced, and page writes.
    var open: (metadata: [Int], pages: [Int]) {
        let metadata = pending.indices.filter { $0 >= forcedCount && !pending[$0].change.isData }
        let pages = pending.indices.filter { pending[$0].change.isData && !pending[$0].isForced }
        return (metadata, pages)
    }

    /// The changes on the disk and on the way to it.
    var withoutHistory: Self {
        var copy = self
        copy.records = []
        copy.moments = nil
        copy.companion = nil
        copy.faults = []
        copy.locks = [:]
        copy.contentLocks = nil
        return copy
    }

    mutating func makeDurable() {
        durable = live
        pending = []
        forcedCount = 0
    }

    /// The changes that an fsync of an object makes durable: its pages, and all metadata up to its own last change.
    mutating func force(_ object: Int, dataOnly: Bool) {
        for place in pending.indices {
            let change = pending[place].change
            if change.file == object {
                if change.isData {
                    pending[place].isForced = true
                } else if !dataOnly || change.droppedPages != nil {
                    forcedCount = max(forcedCount, place + 1)
                }
            } else if change.directories.contains(object) {
                forcedCount = max(forcedCount, place + 1)
            }
        }
        settle()
    }

    /// Moves changes that can no longer be lost from `pending` to `durable`.
    private mutating func settle() {
        var count = 0
        while count < pending.count {
            guard pending[count].isForced || (count < forcedCount && !pending[count].change.isData) else { break }
            durable.apply(pending[count].change, at: pending[count].time)
            count += 1
        }
        pending.removeFirst(count)
        forcedCount = max(0, forcedCount - count)
    }

    mutating func now() -> Timestamp {
        if !isClockStopped { clock += 1 }
        return Timestamp(seconds: 1_700_000_000 + clock / 1_000_000, nanoseconds: clock % 1_000_000 * 1000)
    }

    /// Makes a change now; it is durable after the next fsync that covers it.
    mutating func make(_ change: MemoryImage.Change) {
        let time = now()
        live.apply(change, at: time)
        pending.append(MemoryStore.Pending(change: change, time: time))
    }

    /// Records a call and lets faults strike.
    mutating func enter(_ call: StoreCall, _ object: Int, at offset: UInt64 = 0, length: UInt64 = 0) throws(Errno) {
        partial = nil
        if let left = changesUntilCut {
            if left == 0 { throw .EIO }
            if call.changes { changesUntilCut = left - 1 }
        }
        if moments != nil, call.synchronizes {
            let now = withoutHistory
            let other = companion?.state.withLock { $0.withoutHistory }
            moments?.append((now, other))
        }
        if isRecording {
            records.append(StoreRecord(call: call, object: UInt64(object), offset: offset, length: length))
        }
        let concerned = faults.indices.filter { faults[$0].calls?.contains(call) ?? true }
        for place in concerned { faults[place].countdown -= 1 }
        guard
            let struck = concerned.first(where: {
                faults[$0].strikes(call)
            })
        else { return }
        strikes += 1
        let fault = faults[struck].lasts ? faults[struck] : faults.remove(at: struck)
        if let bytes = fault.bytes, call == .read || call == .write || call.changesNames {
            partial = (bytes, fault.error)
        } else {
            throw fault.error
        }
    }

    /// The partial result of the current call, once.
    mutating func takePartial() -> (bytes: Int, error: Errno)? {
        defer { partial = nil }
        return partial
    }
}

/// A small repeatable source of random numbers (SplitMix64).
struct SplitMix {
    private var state: UInt64

    init(seed: UInt64) {
        state = seed
    }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var word = state
        word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
        return word ^ (word >> 31)
    }
}
