// The two tables of what each class allows in each state. The documents and the tests refer to them.

/// The state of a mounted volume.
package enum VolumeState: UInt8, CaseIterable, Sendable, Hashable {
    /// Mounted, not unlocked yet.
    case beforeFirstUnlock = 0
    /// Unlocked: everything is allowed.
    case unlocked = 1
    /// The keys are about to be wiped. Nothing new is granted, but the page cache's dirty pages are still accepted.
    case locking = 2
    /// Locked after a first unlock.
    case locked = 3
    /// Locked, but the kernel still holds pages of class A, because the store has not accepted a write from before the lock.
    case sweeping = 4

    /// Locked after a first unlock, whether or not the kernel still holds pages.
    package var isLocked: Bool { self == .locked || self == .sweeping }

    /// The value of `user.protectfs.state` on the mount's root.
    package var attributeValue: StaticString {
        switch self {
        case .beforeFirstUnlock: "before-first-unlock"
        case .unlocked: "unlocked"
        case .locking: "locking"
        case .locked: "locked"
        case .sweeping: "sweeping"
        }
    }

    /// The state that a value of `user.protectfs.state` names. Nil for any other text.
    package init?(attributeValue text: String) {
        guard let state = Self.allCases.first(where: { "\($0.attributeValue)" == text }) else { return nil }
        self = state
    }
}

/// An operation in the class × state table.
package enum Operation: UInt8, CaseIterable, Sendable, Hashable {
    /// open(2) in any mode, with O_TRUNC, or with O_CREAT on an existing file. An empty file of class completeUnlessOpen that
    /// is opened for writing is not judged by this: it gets a new key, as with `create`.
    case open
    /// Creating a new file of the class.
    case create
    /// Reading through a handle.
    case read
    /// Writing through a handle, or COPY_FILE_RANGE's write.
    case write
    /// A page that the kernel's cache writes back (FUSE's `writepage` flag). It is served until the end of `locking`.
    case writeBack
    /// Touching a mapped page.
    case touchMapped
    /// truncate(2) by path.
    case truncatePath
    /// ftruncate, fallocate, SEEK_DATA, SEEK_HOLE, SEEK_END, GETATTR with a handle.
    case handleSize
    /// copy_file_range's source.
    case copySource
    /// copy_file_range's destination.
    case copyDestination
    /// Applying a late record to its file, at an unlock or after it. This needs only the file's key.
    case replay
    /// stat, readdir, rename, unlink, chmod, attributes, fsync, close, locks …: a class never refuses them.
    case other

    /// Whether the operation needs a handle that was opened before.
    var needsHandle: Bool {
        switch self {
        case .open, .create, .truncatePath, .replay, .other: false
        case .read, .write, .writeBack, .touchMapped, .handleSize, .copySource, .copyDestination: true
        }
    }
}

/// The states of a mounted volume: that of the lock, and that of class 7, which a lock closes later.
package struct VolumeStates: Sendable, Hashable {
    /// The state of the volume, which all other classes obey.
    package var volume: VolumeState
    /// The state of class 7. It is `unlocked` until the time after a lock has run out, and then passes through the states of a
    /// lock itself. It never differs while the volume is unlocked.
    package var inactive: VolumeState

    /// Two states.
    package init(volume: VolumeState, inactive: VolumeState) {
        self.volume = volume
        self.inactive = inactive
    }

    /// A state in which class 7 has the same: before first unlock, unlocked, and while locked once its time has run out.
    package init(_ state: VolumeState) {
        self.init(volume: state, inactive: state)
    }

    /// The state that `protectionClass` obeys.
    package subscript(_ protectionClass: ProtectionClass) -> VolumeState {
        protectionClass == .completeWhenUserInactive ? inactive : volume
    }
}

/// The class × state table.
package enum Access {
    /// Whether `operation` on a file of `protectionClass` is allowed in `state`. A refusal is EACCES.
    ///
    /// - Parameters:
    ///   - state: the state that the class obeys (`VolumeStates`). The state of a locked volume refuses more of class 7 than it
    ///     must, never less.
    ///   - handleOpen: whether it comes through a handle that was granted before. Without one, an operation that needs a handle
    ///     is judged as `open`.
    package static func isAllowed(
        _ operation: Operation, class protectionClass: ProtectionClass, state: VolumeState, handleOpen: Bool = true
    ) -> Bool {
        if operation == .other || operation == .replay || state == .unlocked { return true }
        let judged = operation.needsHandle && !handleOpen ? .open : operation
        switch protectionClass {
        case .none: return true
        case .completeUntilFirstUserAuthentication: return state != .beforeFirstUnlock
        case .completeUnlessOpen: return judged != .open && judged != .truncatePath
        case .complete, .completeWhenUserInactive: return judged == .writeBack && state == .locking
        }
    }
}

/// The table of changes of class.
package enum ClassChange {
    /// Whether the class of a file may change from `from` to `to` in `states`. A refusal is EACCES.
    package static func isAllowed(from: ProtectionClass, to: ProtectionClass, states: VolumeStates) -> Bool {
        if from == to || states.volume == .unlocked { return true }
        let inactive = ProtectionClass.completeWhenUserInactive
        if from == inactive || to == inactive, states.inactive != .unlocked { return false }
        let afterFirstUnlock = states.volume != .beforeFirstUnlock
        switch (from, to) {
        case (_, .complete), (.complete, _), (.completeUnlessOpen, _): return false
        case (.none, .completeUnlessOpen): return true
        // Class 7 is open here.
        case (.none, _), (.completeUntilFirstUserAuthentication, _), (.completeWhenUserInactive, _):
            return afterFirstUnlock
        }
    }

    /// Whether the change leaves a key that an old header still opens under a weaker class.
    package static func isTightening(from: ProtectionClass, to: ProtectionClass) -> Bool {
        to.isStronger(than: from)
    }
}
