// Waits for several descriptors at once.

import CLibrary

/// A descriptor to wait for with poll(2), and what has happened to it.
package struct PollEntry: Sendable {
    /// The descriptor; a negative one is never ready.
    package let descriptor: Int32
    /// POLLIN, POLLOUT.
    package let events: Int16
    /// What has happened; 0 is nothing.
    package fileprivate(set) var happened: Int16 = 0

    /// Waits for input.
    package init(_ descriptor: Int32) { self.init(descriptor, events: Int16(POLLIN)) }

    /// Waits for these events.
    package init(_ descriptor: Int32, events: Int16) {
        self.descriptor = descriptor
        self.events = events
    }

    /// Whether anything has happened.
    package var isReady: Bool { happened != 0 }

    /// Waits until an entry is ready or `deadline` (`monotonicNanoseconds()`) has come; nil waits for ever. It may return early.
    package static func wait(_ entries: inout [PollEntry], until deadline: UInt64?) {
        var request = entries.map { pollfd(fd: $0.descriptor, events: $0.events, revents: 0) }
        let now = monotonicNanoseconds()
        // Rounded up: otherwise the caller would turn in circles through the last millisecond.
        let left = deadline.map { $0 <= now ? 0 : min(($0 - now) / 1_000_000 + 1, 3_600_000) }
        let result = unsafe poll(&request, nfds_t(request.count), left.map { Int32($0) } ?? -1)
        for index in entries.indices { entries[index].happened = result > 0 ? request[index].revents : 0 }
    }
}
