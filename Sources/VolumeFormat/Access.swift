// What each class allows in each state: the one home of the two tables that docs and tests name.

/// The state of a mounted volume.
package enum VolumeState: UInt8, CaseIterable, Sendable, Hashable {
    /// Mounted, not unlocked since.
    case beforeFirstUnlock = 0
    /// Unlocked: everything is allowed.
    case unlocked = 1
    /// Keys are about to leave: nothing new is granted, the page cache's dirty pages are still taken.
    case locking = 2
    /// Locked after a first unlock.
    case locked = 3
    /// Locked, and the kernel still holds pages of class A: a write of before the lock has not come back from the store.
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

    /// The state that a value of `user.protectfs.state` names; nil for any other text.
    package init?(attributeValue text: String) {
        guard let state = Self.allCases.first(where: { "\($0.attributeValue)" == text }) else { return nil }
        self = state
    }
}

/// An operation as the class × state table knows it.
package enum Operation: UInt8, CaseIterable, Sendable, Hashable {
    /// open in any mode, O_TRUNC, O_CREAT on an existing file.
    case open
    /// Creating a new file of the class.
    case create
    /// Reading through a handle.
    case read
    /// Writing through a handle, or COPY_FILE_RANGE's write.
    case write
    /// A page of the kernel's cache coming back (FUSE's `writepage` flag): served to the end of `locking`.
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
    /// A late record going into its file, at an unlock or after it: needs the file's key and nothing else.
    case replay
    /// stat, readdir, rename, unlink, chmod, attributes, fsync, close, locks …: never refused by a class.
    case other

    /// Whether the operation needs a handle that was opened before.
    var needsHandle: Bool {
        switch self {
        case .open, .create, .truncatePath, .replay, .other: false
        case .read, .write, .writeBack, .touchMapped, .handleSize, .copySource, .copyDestination: true
        }
    }
}

/// The class × state table.
package enum Access {
    /// Whether `operation` on a file of `protectionClass` is allowed in `state`; a refusal is EACCES.
    ///
    /// - Parameter handleOpen: whether it comes through a handle that was granted before; without one, an operation
    ///   that needs a handle is judged as `open`.
    package static func isAllowed(
        _ operation: Operation, class protectionClass: ProtectionClass, state: VolumeState, handleOpen: Bool = true
    ) -> Bool {
        if operation == .other || operation == .replay || state == .unlocked { return true }
        let judged = operation.needsHandle && !handleOpen ? .open : operation
        switch protectionClass {
        case .none: return true
        case .completeUntilFirstUserAuthentication: return state != .beforeFirstUnlock
        case .completeUnlessOpen: return judged != .open && judged != .truncatePath
        case .complete: return judged == .writeBack && state == .locking
        }
    }
}

/// The table of changes of class.
package enum ClassChange {
    /// Whether a file of class `from` may be given class `to` in `state`; a refusal is EACCES.
    package static func isAllowed(from: ProtectionClass, to: ProtectionClass, state: VolumeState) -> Bool {
        if from == to || state == .unlocked { return true }
        let afterFirstUnlock = state != .beforeFirstUnlock
        switch (from, to) {
        case (_, .complete), (.complete, _), (.completeUnlessOpen, _): return false
        case (.none, .completeUnlessOpen): return true
        case (.none, _), (.completeUntilFirstUserAuthentication, _): return afterFirstUnlock
        }
    }

    /// Whether the change leaves a key behind that an old header still opens under a weaker class.
    package static func isTightening(from: ProtectionClass, to: ProtectionClass) -> Bool {
        to.isStronger(than: from)
    }
}
