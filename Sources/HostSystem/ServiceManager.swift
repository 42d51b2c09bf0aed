// Tells the service manager that started this process about its state (sd_notify(3)).

import CLibrary
import CLinuxShim
import Synchronization

/// The service manager of a unit with `Type=notify`. Without one, the calls have no effect.
package enum ServiceManager {
    /// What it can be told.
    package enum State: String, Sendable {
        /// The start is complete: units that are ordered after this one may start.
        case ready = "READY=1"
        /// The service is ending.
        case stopping = "STOPPING=1"
    }

    private static let isStarted = Atomic(false)

    /// Whether such a unit has started this process.
    package static var isThere: Bool { unsafe getenv("NOTIFY_SOCKET") != nil }

    /// Sends the state in a datagram to the socket named in NOTIFY_SOCKET. Never waits. A failure is nothing to the service, and the
    /// manager has time limits of its own.
    package static func notify(_ state: State) {
        // A manager is told of the end of what it was told of the beginning.
        if state == .ready { isStarted.store(true, ordering: .relaxed) }
        guard isStarted.load(ordering: .relaxed) else { return }
        guard let place = unsafe getenv("NOTIFY_SOCKET") else { return }
        var bytes = Array(state.rawValue.utf8)
        _ = unsafe pfs_send_datagram(place, &bytes, UInt(bytes.count))
    }
}
