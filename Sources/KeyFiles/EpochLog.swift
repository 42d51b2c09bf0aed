// The epochs of a mount. The state file lists an epoch before the first write and drops it after a clean unmount.

internal import HostSystem
internal import VolumeFormat

/// Which crash damage is tolerated.
package enum CrashTolerance: Sendable, Equatable {
    /// In blocks of an epoch that ended badly. This is the ordinary case.
    case byEpoch
    /// Everywhere. Used without a state file, and for `-o shared` and `-o recover`.
    case everything
    /// Nowhere. Used for `-o strict`.
    case nothing
}

/// Where a mount draws its epochs, and records durably which are open.
package struct EpochRecord: Sendable {
    /// Draws an epoch above the given one, and records it as open before it returns. No other mount on this machine gets it.
    package let draw: @Sendable (_ highest: UInt32) throws(VolumeError) -> UInt32
    /// Removes epochs from the open ones.
    package let close: @Sendable ([UInt32]) throws(VolumeError) -> Void
    /// Makes a list of changed files for an epoch that was just drawn, durably. Nil if none can be kept.
    package let list: @Sendable (_ epoch: UInt32) -> ChangedListFile?
    /// The seconds since 1970.
    package let clock: @Sendable () -> Int64

    /// A record of one's own.
    package init(
        draw: @escaping @Sendable (_ highest: UInt32) throws(VolumeError) -> UInt32,
        close: @escaping @Sendable ([UInt32]) throws(VolumeError) -> Void,
        list: @escaping @Sendable (_ epoch: UInt32) -> ChangedListFile? = { _ in nil },
        clock: @escaping @Sendable () -> Int64 = { WallClock.seconds }
    ) {
        self.draw = draw
        self.close = close
        self.list = list
        self.clock = clock
    }

    /// No record, for a mount without a state file. Epochs rise by what the mount itself knows, and by the clock.
    ///
    /// - Parameter clock: gives the seconds since 1970.
    package static func none(clock: @escaping @Sendable () -> Int64 = { WallClock.seconds }) -> EpochRecord {
        EpochRecord(
            draw: { (highest) throws(VolumeError) in
                guard let drawn = Epoch.next(after: highest, at: clock()) else { throw .readOnly }
                return drawn
            }, close: { _ in }, clock: clock)
    }
}

/// The epochs of one mount, and those of earlier mounts that ended badly.
///
/// Thread-safe. `epoch(encryptions:)` may write the state file: never call it under the state lock's shared side.
package final class EpochLog: Sendable {
    /// The number of encryptions after which a new epoch is drawn.
    package static let limit: UInt64 = 1 << 32

    private struct State {
        var current: UInt32?
        var encryptions: UInt64 = 0
        var own: [UInt32] = []
        var ended: Set<UInt32>
        /// The highest epoch that this mount knows.
        var highest: UInt32
        var isKeptOpen = false
        /// Whether the list of changed files was begun. It serves all epochs of the mount, and has the name of the first one.
        var hasList = false
    }

    /// The tolerance of this mount.
    package let tolerance: CrashTolerance
    /// The files that this mount changes.
    package let changed = ChangedFiles()
    private let state: Lock<State>
    private let limit: UInt64
    private let record: EpochRecord

    /// The epochs of a mount that begins.
    /// - Parameters:
    ///   - endedBadly: the epochs that the state file lists as open.
    ///   - highest: the highest epoch that it names.
    ///   - record: draws and closes epochs, durably.
    package init(
        endedBadly: [UInt32], highest: UInt32 = 0, tolerance: CrashTolerance, limit: UInt64 = EpochLog.limit,
        record: EpochRecord
    ) {
        self.tolerance = tolerance
        self.limit = limit
        self.record = record
        state = Lock(State(ended: Set(endedBadly), highest: max(endedBadly.max() ?? 0, highest)))
    }

    /// The epoch for `encryptions` more encryptions. Draws a new epoch, durably, if there is none or it is used up.
    package func epoch(encryptions: Int) throws(VolumeError) -> UInt32 {
        try state.withLock { (state: inout State) throws(VolumeError) -> UInt32 in
            if let current = state.current, state.encryptions + UInt64(encryptions) <= limit {
                state.encryptions += UInt64(encryptions)
                return current
            }
            return try enter(&state, encryptions)
        }
    }

    private func enter(_ state: inout State, _ encryptions: Int) throws(VolumeError) -> UInt32 {
        let drawn = try draw(&state)
        if !state.hasList {
            state.hasList = true
            changed.begin(record.list(drawn))
        }
        state.own.append(drawn)
        state.current = drawn
        state.encryptions = UInt64(encryptions)
        return drawn
    }

    private func draw(_ state: inout State) throws(VolumeError) -> UInt32 {
        let drawn = try record.draw(state.highest)
        state.highest = drawn
        return drawn
    }

    /// Draws and records the first epoch now, before the first file is created.
    package func begin() throws(VolumeError) {
        _ = try epoch(encryptions: 0)
    }

    /// The same for a file of this version, which must only rise: if another machine, whose clock may be ahead, has drawn a higher
    /// epoch than this mount has, the mount draws another one.
    package func begin(above version: UInt32) throws(VolumeError) {
        try begin()
        guard follows(version) else { return }
        try state.withLock { (state: inout State) throws(VolumeError) in
            guard let current = state.current, current < version else { return }
            state.highest = max(state.highest, version)
            _ = try enter(&state, 0)
        }
    }

    /// Whether a version may be that of another machine whose clock is right.
    package func follows(_ version: UInt32) -> Bool {
        version <= Epoch.latest(after: state.withLock { $0.highest }, at: record.clock())
    }

    /// Whether `epoch` is one of this mount's.
    package func isOwn(_ epoch: UInt32) -> Bool {
        state.withLock { $0.own.contains(epoch) }
    }

    /// Whether crash damage is tolerated in a block of `epoch`.
    package func isTolerated(_ epoch: UInt32) -> Bool {
        switch tolerance {
        case .nothing: false
        case .everything: !isOwn(epoch)
        case .byEpoch: state.withLock { $0.ended.contains(epoch) }
        }
    }

    /// Whether an epoch ended badly, as rule R0 requires, or will be left open. So a file whose header could not be written
    /// for lack of space is empty at once, and not only after the next mount.
    package var toleratesAny: Bool {
        switch tolerance {
        case .nothing: false
        case .everything: true
        case .byEpoch: state.withLock { !$0.ended.isEmpty || $0.isKeptOpen }
        }
    }

    /// The epochs of earlier mounts that ended badly.
    package var endedBadly: [UInt32] { state.withLock { $0.ended.sorted() } }

    /// The epochs of this mount.
    package var own: [UInt32] { state.withLock { $0.own } }

    /// Leaves this mount's epochs open at unmount, because a header could not be written.
    package func keepOpen() {
        state.withLock { $0.isKeptOpen = true }
    }

    /// Counts this mount's epochs among those that ended badly from now on. Used when the end of a file could not be written:
    /// the next open must read the file as after a crash. The next write draws another epoch, so later writes and repairs are
    /// not suspect.
    package func endBadly() {
        state.withLock { state in
            state.ended.formUnion(state.own)
            state.own = []
            state.current = nil
        }
    }

    /// An epoch that is listed as one that ended badly, from `candidates` if possible. If no such epoch exists, for example
    /// because the state file was lost, draws one and lists it durably. This mount never removes it.
    package func suspect(_ candidates: UInt32?...) throws(VolumeError) -> UInt32 {
        try state.withLock { (state: inout State) throws(VolumeError) -> UInt32 in
            for case .some(let epoch) in candidates where state.ended.contains(epoch) { return epoch }
            if let epoch = state.ended.min() { return epoch }
            let drawn = try draw(&state)
            state.ended.insert(drawn)
            return drawn
        }
    }

    /// Whether `epoch` is listed as one that ended badly.
    package func isSuspect(_ epoch: UInt32) -> Bool {
        state.withLock { $0.ended.contains(epoch) }
    }

    /// Removes this mount's epochs from the list, after `syncfs` at a clean unmount.
    package func close() throws(VolumeError) {
        try state.withLock { (state: inout State) throws(VolumeError) in
            guard !state.isKeptOpen, !state.own.isEmpty else { return }
            try record.close(state.own)
            state.own = []
            state.current = nil
        }
    }

    /// Removes the epochs that ended badly from the list, after a complete unlocked check has read every file.
    package func closeEndedBadly() throws(VolumeError) {
        try state.withLock { (state: inout State) throws(VolumeError) in
            guard !state.ended.isEmpty else { return }
            try record.close(state.ended.sorted())
            state.ended = []
        }
    }
}
