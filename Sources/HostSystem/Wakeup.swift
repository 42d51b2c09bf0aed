// Wakes a thread that waits in poll(2).

internal import CLinuxShim

/// A descriptor that is ready after `raise`, until `clear`. Any thread may raise it.
package final class Wakeup: Sendable {
    private let descriptor: Descriptor

    /// eventfd(2).
    package init() throws(SystemError) {
        let number = pfs_event_descriptor()
        guard number >= 0 else { throw .last("eventfd") }
        descriptor = Descriptor(taking: number)
    }

    /// Makes it ready.
    package func raise() { pfs_event_raise(descriptor.number) }

    /// Makes it quiet.
    package func clear() { pfs_event_clear(descriptor.number) }

    /// To wait for it.
    package var pollEntry: PollEntry { PollEntry(descriptor.number) }
}
