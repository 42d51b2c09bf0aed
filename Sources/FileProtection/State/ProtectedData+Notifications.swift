// The events as notifications, for programs without asynchronous code.

import Dispatch

extension ProtectedData {
    /// A lock is about to begin. It waits until all observers of the notification have returned, up to its grace.
    public static let willBecomeUnavailableNotification = Notification.Name("ProtectedDataWillBecomeUnavailable")
    /// The volume has been locked or unmounted.
    public static let didBecomeUnavailableNotification = Notification.Name("ProtectedDataDidBecomeUnavailable")
    /// The volume is about to be unlocked.
    public static let willBecomeAvailableNotification = Notification.Name("ProtectedDataWillBecomeAvailable")
    /// The volume has been unlocked.
    public static let didBecomeAvailableNotification = Notification.Name("ProtectedDataDidBecomeAvailable")
    /// The volume has been unlocked for the first time since it was mounted. `didBecomeAvailableNotification` follows.
    public static let firstUnlockNotification = Notification.Name("ProtectedDataFirstUnlock")

    private static let delivery = DispatchQueue(label: "protectfs.notifications")

    /// Posts the mount's events to `center` from now on. The object of the notifications is this `ProtectedData`.
    ///
    /// - Parameters:
    ///   - center: the notification center.
    ///   - queue: the queue on which to post; nil means a queue of the library, never the main queue.
    /// - Returns: the observation, which ends with `cancel()` or when the object is released.
    public func postNotifications(
        to center: NotificationCenter = .default, on queue: DispatchQueue? = nil
    ) -> Observation {
        let poster = Poster(state)
        return observe(answering: true) { [self] event in
            (queue ?? Self.delivery).deliver {
                for name in poster.names(event) { center.post(name: name, object: self) }
                if case .willLock(let lock) = event { lock.done() }
            }
        }
    }

    /// Converts events to notifications. Used only on the queue of delivery.
    private final class Poster: @unchecked Sendable {
        /// The state at the call of `postNotifications`, until observing has begun.
        private var before: State?
        /// Whether the notification has already been posted for `sweeping`.
        private var wasSwept = false

        init(_ state: State) { before = state }

        func names(_ event: Event) -> [Notification.Name] {
            switch event {
            case .connected(let state):
                defer { before = nil }
                if state == .unlocked {
                    let isFirst = before == .beforeFirstUnlock ? [firstUnlockNotification] : []
                    return before == .unlocked ? [] : isFirst + [didBecomeAvailableNotification]
                }
                return before == .unlocked ? [didBecomeUnavailableNotification] : []
            case .willLock: return [willBecomeUnavailableNotification]
            case .sweeping:
                wasSwept = true
                return [didBecomeUnavailableNotification]
            case .locked, .disconnected:
                defer { wasSwept = false }
                return wasSwept ? [] : [didBecomeUnavailableNotification]
            case .willUnlock: return [willBecomeAvailableNotification]
            case .unlocked:
                wasSwept = false
                return [didBecomeAvailableNotification]
            case .firstUnlock: return [firstUnlockNotification, didBecomeAvailableNotification]
            }
        }
    }
}

extension DispatchQueue {
    /// Runs `post` on this queue later. On the main queue it runs as an operation. Otherwise an observer on
    /// `OperationQueue.main` would make the main queue wait for itself if that queue does not run on the main thread.
    package func deliver(_ post: @escaping @Sendable () -> Void) {
        if getSpecific(key: Self.isMain) == true {
            OperationQueue.main.addOperation(post)
        } else {
            async(execute: post)
        }
    }

    /// Marks the main queue, because `DispatchQueue.main` returns a different object each time.
    private static let isMain: DispatchSpecificKey<Bool> = {
        let key = DispatchSpecificKey<Bool>()
        DispatchQueue.main.setSpecific(key: key, value: true)
        return key
    }()
}
