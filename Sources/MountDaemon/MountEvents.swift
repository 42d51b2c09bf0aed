// Passes a mount's events from the front end to subscribers and to the idle lock.

import Control
import FuseFrontend
import HostSystem
import ProtectedVolume
import VolumeAccess
import VolumeFormat

/// Made before the mount, which reports to it, and before the control socket, which listens to `hub`. It knows neither.
final class MountEvents: Sendable {
    private struct State: Sendable {
        var changed = WallClock.seconds
        var isIdle = false
        var hasEnded = false
    }
    /// The subscribers of the control socket.
    let hub = EventHub()
    private let state = Lock(State())
    private let woken = Condition()

    /// When the volume's state last changed, in seconds since 1970.
    var lastChange: Int64 { state.withLock { $0.changed } }

    /// Called by the front end, on a thread that must not wait.
    func take(_ event: FrontendEvent) {
        switch event {
        case .locking, .classLowered, .damaged: break
        case .locked: changed(.locked)
        case .sweeping(let files): changed(.sweeping(files: files))
        // The state of the volume stays the same.
        case .inactive(let files): hub.publish(.inactive(files: files))
        case .unlocked(let isFirst): changed(isFirst ? .firstUnlock : .unlocked)
        case .idle:
            state.withLock { $0.isIdle = true }
            woken.broadcast()
        }
    }

    private func changed(_ event: ControlEvent) {
        state.withLock { $0.changed = WallClock.seconds }
        hub.publish(event)
    }

    /// Runs `lock` each time the mount becomes idle, until `end`. Needs its own thread. Idle time that ends during a lock does
    /// not start a second one.
    func locksWhenIdle(_ lock: () -> Void) {
        while state.wait(on: woken, { $0.hasEnded ? false : $0.isIdle ? true : nil }) == true {
            lock()
            state.withLock { $0.isIdle = false }
        }
    }

    /// Called when the mount has ended.
    func end() {
        state.withLock { $0.hasEnded = true }
        woken.broadcast()
    }
}

/// Counts crash damage and tampering.
final class DamageCount: Sendable {
    private let count = Lock(0)

    /// Adds one.
    func add() { count.withLock { $0 += 1 } }

    var value: Int { count.withLock { $0 } }
}

extension Record {
    /// Records what a mount noticed while it served programs. Locks and unlocks are recorded where it is known who asked.
    static func write(_ event: FrontendEvent, _ volume: VolumeID) {
        switch event {
        case .classLowered(let change):
            let details: [Detail] = [.inode(change.inode), .classes(from: change.before, to: change.after)]
            write(.classLowered, volume, Detail.by(change.user) + details)
        case .damaged(let damage, let inode): write(.tampering, volume, [.damage(damage), .inode(inode)])
        case .locking, .locked, .sweeping, .inactive, .unlocked, .idle: break
        }
    }
}
