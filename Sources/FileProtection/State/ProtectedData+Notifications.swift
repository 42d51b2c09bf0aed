// The same events through NotificationCenter, for programs that are not asynchronous.

import Dispatch

extension ProtectedData {
    /// A lock is about to begin; it waits until all observers of the notification have returned, up to its grace.
    public static let willBecomeUnavailableNotification = Notification.Name("ProtectedDataWillBecomeUnavailable")
    /// The volume is locked, or not mounted any more.
    public static let didBecomeUnavailableNotification = Notification.Name("ProtectedDataDidBecomeUnavailable")
    /// Keys are about to come in.
    public static let willBecomeAvailableNotification = Notification.Name("ProtectedDataWillBecomeAvailable")
    /// The volume is unlocked.
    public static let didBecomeAvailableNotification = Notification.Name("ProtectedDataDidBecomeAvailable")
    /// The volume is unlocked for the first time since it was mounted; `didBecomeAvailableNotification` follows.
    public static let firstUnlockNotification = Notification.Name("ProtectedDataFirstUnlock")

    private static let delivery = DispatchQueue(label: "protectfs.notifications")

    /// Posts what happens from now on to `center`, with this object as its object.
    ///
    /// - Parameters:
    ///   - center: who gets it.
    ///   - queue: where it is posted; nil: a queue of the library's own, never the main one.
    /// - Returns: what keeps it going; it ends with `cancel()` or when nobody holds it any more.
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

    /// Turns events into names; used on the queue of delivery only.
    private final class Poster: @unchecked Sendable {
        /// The state when posting was asked for, until observing has begun.
        private var before: State?
        /// Told of already, when the keys went.
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
    /// Runs `post` here later. On the main queue as an operation: an observer that asks for `OperationQueue.main` is else
    /// waited for from within the main queue wherever the main queue is not on the main thread, which never ends.
    package func deliver(_ post: @escaping @Sendable () -> Void) {
        if getSpecific(key: Self.isMain) == true {
            OperationQueue.main.addOperation(post)
        } else {
            async(execute: post)
        }
    }

    /// Marks the main queue: `DispatchQueue.main` is another object each time.
    private static let isMain: DispatchSpecificKey<Bool> = {
        let key = DispatchSpecificKey<Bool>()
        DispatchQueue.main.setSpecific(key: key, value: true)
        return key
    }()
}
