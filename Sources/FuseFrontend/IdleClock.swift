// When protected files were last used: what the idle timer goes by.

internal import HostSystem
internal import HostSystem
internal import ProtectedVolume
internal import Synchronization
internal import VolumeFormat

/// Use of files of classes A and B, the ones that a lock closes. Suspended time counts (CLOCK_BOOTTIME).
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

        /// The use is over.
        consuming func end() {}
    }

    /// A request on `node` begins.
    func begin(_ node: Node) -> Use {
        switch node.protectionClass {
        case .complete, .completeUnlessOpen, nil:
            running.add(1, ordering: .relaxed)
            return Use(self)
        case .completeUntilFirstUserAuthentication, .some(.none):
            return Use(nil)
        }
    }

    private func finished() {
        touch()
        running.subtract(1, ordering: .relaxed)
    }

    /// Counts as use, without a request: an unlock.
    func touch() {
        last.store(WallClock.bootNanoseconds, ordering: .relaxed)
    }

    /// How long nothing has been used; 0 while a request runs.
    var idleNanoseconds: UInt64 {
        if running.load(ordering: .relaxed) > 0 { return 0 }
        return nanoseconds(from: last.load(ordering: .relaxed), to: WallClock.bootNanoseconds)
    }
}
