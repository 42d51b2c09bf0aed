// Carries what the front end reports to whoever listens on the control socket, and runs the idle lock.

import Control
import FuseBridge
import FuseFrontend
import HostSystem

/// Made before the mount, connected after it.
final class EventRelay: Sendable {
    private struct Ends {
        weak var mount: RunningMount?
        var service: ControlService?
    }
    private let ends = Lock(Ends())

    /// The control service, once the mount answers.
    var service: ControlService? { ends.withLock { $0.service } }

    /// From here on events go out.
    func begin(_ mount: RunningMount, _ service: ControlService) throws(CommandFailure) {
        ends.withLock { ends in
            ends.mount = mount
            ends.service = service
        }
    }

    /// Called by the front end, on a thread that must not wait.
    func take(_ event: FrontendEvent) {
        let (mount, service) = ends.withLock { ($0.mount, $0.service) }
        guard let mount else { return }
        switch event {
        case .locking: break
        case .locked:
            mount.stateChanged()
            service?.publish(.locked)
        case .sweeping(let files):
            mount.stateChanged()
            service?.publish(.sweeping(files: files))
        case .unlocked(let isFirst):
            mount.stateChanged()
            service?.publish(isFirst ? .firstUnlock : .unlocked)
        case .idle:
            mount.log.write("idle: locking")
            _ = BackgroundThread(name: "idle lock") { _ = mount.lock(grace: nil) }
        }
    }
}

/// How many places of crash damage or tampering were met.
final class DamageCount: Sendable {
    private let count = Lock(0)

    /// One more.
    func add() { count.withLock { $0 += 1 } }

    /// So many.
    var value: Int { count.withLock { $0 } }
}
