// Work that a program finishes before a lock, by the names of UIKit.

import Dispatch
public import FileProtection

/// The identity of a task that was begun with `beginBackgroundTask` (Apple's `UIBackgroundTaskIdentifier`).
public struct UIBackgroundTaskIdentifier: Hashable, RawRepresentable, Sendable {
    /// The number of the task.
    public let rawValue: Int

    /// Makes an identity from its number.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// No task.
    public static let invalid = UIBackgroundTaskIdentifier(rawValue: 0)
}

/// The tasks of the application. A lock waits for them, up to its grace.
final class BackgroundTasks: @unchecked Sendable {
    private typealias Handler = @MainActor @Sendable () -> Void

    /// Guards the fields below.
    private let lock = NSLock()
    private var last = 0
    private var running: [Int: Handler] = [:]
    private var waiting: [@Sendable () -> Void] = []

    func begin(_ expired: (@MainActor @Sendable () -> Void)?) -> UIBackgroundTaskIdentifier {
        lock.withLock {
            last += 1
            running[last] = expired ?? {}
            return UIBackgroundTaskIdentifier(rawValue: last)
        }
    }

    func end(_ task: UIBackgroundTaskIdentifier) {
        let ready = lock.withLock { () -> [@Sendable () -> Void] in
            running[task.rawValue] = nil
            guard running.isEmpty else { return [] }
            defer { waiting = [] }
            return waiting
        }
        for run in ready { run() }
    }

    /// Runs `body` when no task is running any more.
    func afterAll(_ body: @escaping @Sendable () -> Void) {
        let isFree = lock.withLock {
            if !running.isEmpty { waiting.append(body) }
            return running.isEmpty
        }
        if isFree { body() }
    }

    /// Tells the tasks that the lock has not waited for them. Each is told once.
    func expire() {
        let handlers = lock.withLock { () -> [Handler] in
            defer { (running, waiting) = ([:], []) }
            return Array(running.values)
        }
        for handler in handlers { DispatchQueue.main.async(execute: handler) }
    }
}

extension UIApplication {
    /// What the application is doing, with the numbers of UIKit.
    public enum State: Int, Sendable {
        /// In the foreground: the data is available.
        case active
        /// Between the two. It is never given here.
        case inactive
        /// In the background: the volume is locked or about to be.
        case background
    }

    /// Whether the application is in the foreground. There are no windows: it is while protected data is available, and no
    /// lock has been announced.
    public var applicationState: State { isInBackground || !isProtectedDataAvailable ? .background : .active }

    /// Begins a task that is to be finished before the volume is locked (`beginBackgroundTask(withName:expirationHandler:)`).
    /// A lock that comes waits until the task has ended, up to its grace.
    ///
    /// - Parameters:
    ///   - name: what it is, for the reader.
    ///   - handler: called on the main queue if the volume was locked before the task had ended.
    /// - Returns: the task, for `endBackgroundTask`.
    public func beginBackgroundTask(
        withName name: String? = nil, expirationHandler handler: (@MainActor @Sendable () -> Void)? = nil
    ) -> UIBackgroundTaskIdentifier {
        begin()
        return tasks.begin(handler)
    }

    /// Ends a task. A lock that waits for it continues.
    public func endBackgroundTask(_ identifier: UIBackgroundTaskIdentifier) { tasks.end(identifier) }

    /// The notification before a lock, with which an application of an iPhone leaves the foreground.
    public static var willResignActiveNotification: Notification.Name { observed(LifecycleName.willResignActive) }
    /// The notification before a lock, and before that of protected data: the application saves here.
    public static var didEnterBackgroundNotification: Notification.Name { observed(LifecycleName.didEnterBackground) }
    /// The notification after an unlock, and after that of protected data.
    public static var willEnterForegroundNotification: Notification.Name { observed(LifecycleName.willEnterForeground) }
    /// The notification after an unlock, when the application is in the foreground again.
    public static var didBecomeActiveNotification: Notification.Name { observed(LifecycleName.didBecomeActive) }

    private static func observed(_ name: Notification.Name) -> Notification.Name {
        shared.begin()
        return name
    }
}

/// The notifications of an application that leaves the foreground and comes back.
enum LifecycleName {
    static let willResignActive = Notification.Name("UIApplicationWillResignActiveNotification")
    static let didEnterBackground = Notification.Name("UIApplicationDidEnterBackgroundNotification")
    static let willEnterForeground = Notification.Name("UIApplicationWillEnterForegroundNotification")
    static let didBecomeActive = Notification.Name("UIApplicationDidBecomeActiveNotification")
    static let all = [willResignActive, didEnterBackground, willEnterForeground, didBecomeActive]
}
