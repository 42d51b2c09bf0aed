// Counts the nodes that the kernel has forgotten, so that their memory goes back to the system.

internal import HostSystem
internal import Synchronization

/// Says when there are many more. What is done then should wait until the kernel has stopped: before that, pages of memory have
/// nodes that are still known.
final class ForgottenNodes: Sendable {
    /// Few enough that the last ones, of which nothing is said, keep no more than some pages of memory.
    private static let many: UInt64 = 1024

    private let count = Atomic<UInt64>(0)
    private let many = Lock<(@Sendable () -> Void)?>(nil)

    /// How many there were so far.
    var number: UInt64 { count.load(ordering: .relaxed) }

    /// From here on `many` is called after many more. It must not wait.
    func whenMany(_ many: (@Sendable () -> Void)?) { self.many.withLock { $0 = many } }

    /// Called for each.
    func note() {
        let number = count.add(1, ordering: .relaxed).newValue
        if number % Self.many == 0 { many.withLock { $0 }?() }
    }
}
