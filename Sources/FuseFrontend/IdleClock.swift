// Records when protected files were last used, for the idle lock.

internal import HostSystem
internal import ProtectedVolume
internal import Synchronization
internal import VolumeFormat

/// The use of files of classes A and B, which a lock closes. Suspended time counts (CLOCK_BOOTTIME).
final class IdleClock: Sendable {
    private let last: Atomic<UInt64>
    private let running = Atomic<Int>(0)

    init() {
        last = Atomic(WallClock.bootNanoseconds)
    }

    /// A use that lasts until `end` or until it is dropped.
    struct Use: ~Copyable {
        private let idleClock: IdleClock?

        fileprivate init(_ idleClock: IdleClock?) {
            self.idleClock = idleClock
        }

        deinit {
            idleClock?.finished()
        }

        /// Ends the use.
        consuming func end() {}
    }

    /// Called when work begins that a lock would end, whatever the class of the file is now.
    func begin() -> Use {
        running.add(1, ordering: .relaxed)
        return Use(self)
    }

    /// Called when a request on `node` begins.
    func begin(_ node: Node) -> Use {
        switch node.protectionClass {
        case .complete, .completeUnlessOpen, nil: return begin()
        case .completeWhenUserInactive, .completeUntilFirstUserAuthentication, .some(.none):
            return Use(nil)
        }
    }

    private func finished() {
        touch()
        running.subtract(1, ordering: .relaxed)
    }

    /// Counts an unlock as use, although it is not a request.
    func touch() {
        last.store(WallClock.bootNanoseconds, ordering: .relaxed)
    }

    /// The time since the last use. 0 while a request runs.
    var idleNanoseconds: UInt64 {
        if running.load(ordering: .relaxed) > 0 { return 0 }
        return nanoseconds(from: last.load(ordering: .relaxed), to: WallClock.bootNanoseconds)
    }
}
