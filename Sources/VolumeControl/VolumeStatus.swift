// What a mount says of itself, and of a lock.

internal import Control
internal import Keybag
internal import VolumeFormat

/// The state of a mounted volume.
public enum VolumeLockState: Sendable, Hashable, CaseIterable {
    /// Not unlocked since it was mounted. Only files of class `none` can be opened.
    case beforeFirstUnlock
    /// Files of every class can be opened.
    case unlocked
    /// The volume is being locked.
    case locking
    /// Files of class `complete` are closed, and files of class `completeUnlessOpen` cannot be opened.
    case locked
    /// As `locked`, but the kernel still holds plaintext that it cannot drop yet. `locked` follows by itself.
    case sweeping

    init(_ state: VolumeState) {
        switch state {
        case .beforeFirstUnlock: self = .beforeFirstUnlock
        case .unlocked: self = .unlocked
        case .locking: self = .locking
        case .locked: self = .locked
        case .sweeping: self = .sweeping
        }
    }

    private var name: StaticString {
        switch self {
        case .beforeFirstUnlock: VolumeState.beforeFirstUnlock.attributeValue
        case .unlocked: VolumeState.unlocked.attributeValue
        case .locking: VolumeState.locking.attributeValue
        case .locked: VolumeState.locked.attributeValue
        case .sweeping: VolumeState.sweeping.attributeValue
        }
    }
}

extension VolumeLockState: CustomStringConvertible {
    /// The word that `protectfs status` and the attribute `user.protectfs.state` use.
    public var description: String { "\(name)" }
}

/// What a mount says of itself.
public struct VolumeStatus: Sendable, Equatable {
    /// Whether it is locked, and whether it ever was unlocked since it is mounted.
    public let state: VolumeLockState
    /// The state of class `completeWhenUserInactive`, which a lock leaves `unlocked` until its time has run out.
    public let inactiveState: VolumeLockState
    /// Since when it is in this state, in seconds since 1970.
    public let since: Int64
    /// Whether it is mounted read-only.
    public let isReadOnly: Bool
    /// Seconds without use after which it locks; nil for never.
    public let idleLimit: Int64?
    /// Open handles of class `complete`, which a lock would cut off.
    public let openCompleteFiles: Int
    /// Wrong secrets in a row.
    public let failedUnlocks: Int
    /// Seconds until the daemon tries another secret.
    public let retryAfter: Double
    /// The process ID of the daemon.
    public let processID: Int32

    init(_ report: StatusReport) {
        state = VolumeLockState(report.state)
        inactiveState = VolumeLockState(report.inactiveState)
        since = report.since
        isReadOnly = report.isReadOnly
        idleLimit = report.idleLimit
        openCompleteFiles = report.openHandles[.complete] ?? 0
        failedUnlocks = report.unlockFailures
        retryAfter = report.retryAfter
        processID = report.processID
    }
}

/// What a lock has done.
public struct VolumeLock: Sendable, Equatable {
    /// Whether it was locked already, so that there was nothing to do.
    public let wasLocked: Bool
    /// Open handles of class `complete` that are closed until the next unlock.
    public let cutOff: Int
    /// The time that it took.
    public let milliseconds: Int64
    /// The state after it.
    public let state: VolumeLockState
    /// The number of files of which the kernel still holds plaintext. Above 0 only in the state `sweeping`.
    public let files: Int
    /// The number of this lock, or of the one before if it was locked already; nil if the daemon does not say. See
    /// `MountedVolume.unlock(_:ifLock:)`.
    public let number: Int64?

    init(_ report: LockReport) {
        files = report.files
        number = report.number
        wasLocked = report.wasLocked
        cutOff = report.cutOff
        milliseconds = report.milliseconds
        state = VolumeLockState(report.state)
    }
}
