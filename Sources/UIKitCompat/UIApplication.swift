// UIKit's interface to protected data: the application object, its notifications and its delegate.

import Dispatch
@_exported public import FileProtection

/// The delegate of the application (Apple's `UIApplicationDelegate`). Any object can be the delegate. The methods are
/// called on the main actor, as in UIKit.
@MainActor public protocol UIApplicationDelegate: AnyObject {
    /// Files of class complete are about to be closed. The lock waits until this method returns, up to its grace.
    func applicationProtectedDataWillBecomeUnavailable(_ application: UIApplication)
    /// Files of every class can be opened again.
    func applicationProtectedDataDidBecomeAvailable(_ application: UIApplication)
}

extension UIApplicationDelegate {
    /// Does nothing.
    public func applicationProtectedDataWillBecomeUnavailable(_ application: UIApplication) {}
    /// Does nothing.
    public func applicationProtectedDataDidBecomeAvailable(_ application: UIApplication) {}
}

/// The application object (Apple's `UIApplication`), with the members for protected data.
///
/// It observes one mount: the one given to `useProtectedData(at:deliveringOn:)`, else the one that contains the home
/// directory, else the one that contains the working directory, else the only one. It begins to observe when a delegate
/// is set or the name of a notification is read.
///
/// Delegate methods are called on the main queue, so this queue must run (`dispatchMain`, a run loop, or an
/// asynchronous `main`). Notifications are also posted there, unless `useProtectedData` names another queue.
public final class UIApplication: @unchecked Sendable {
    /// The application object of this process.
    public static let shared = UIApplication()

    /// The notification before a lock of the volume. The lock waits until all observers have returned, up to its grace.
    public static var protectedDataWillBecomeUnavailableNotification: Notification.Name {
        shared.begin()
        return willBecomeUnavailable
    }

    /// The notification after an unlock of the volume.
    public static var protectedDataDidBecomeAvailableNotification: Notification.Name {
        shared.begin()
        return didBecomeAvailable
    }

    private static let willBecomeUnavailable = Notification.Name("UIApplicationProtectedDataWillBecomeUnavailable")
    private static let didBecomeAvailable = Notification.Name("UIApplicationProtectedDataDidBecomeAvailable")

    /// Marks the main queue.
    private static let onMainQueue = DispatchSpecificKey<Bool>()

    /// Guards the fields below, except `isTold`.
    private let lock = NSLock()
    private var data: ProtectedData?
    private weak var object: (any UIApplicationDelegate)?
    private var observation: ProtectedData.Observation?
    private var queue = DispatchQueue.main
    private var hasWarned = false
    /// Whether the program was last told that the data is unavailable. Used only on the queue of delivery.
    private var isTold = false
    /// The last value of `isProtectedDataAvailable` that the program has read since it was last told of a change. The
    /// state may change between this and the beginning of the observation.
    private var answered: Bool?

    private init() { DispatchQueue.main.setSpecific(key: Self.onMainQueue, value: true) }

    /// Chooses the mount to observe. Call it once, at the start of the program.
    ///
    /// - Parameters:
    ///   - url: any path on the mount. The file need not exist.
    ///   - queue: the queue for notifications. Delegate methods are always called on the main queue.
    /// - Throws: `FileProtectionError.notProtected` if `url` is outside every protected mount.
    public func useProtectedData(
        at url: URL, deliveringOn queue: DispatchQueue = .main
    ) throws(FileProtectionError) {
        let chosen = try ProtectedData(at: url)
        lock.withLock {
            data = chosen
            self.queue = queue
            observation = nil
        }
        begin()
    }

    /// The delegate, which is not retained.
    public var delegate: (any UIApplicationDelegate)? {
        get { lock.withLock { object } }
        set {
            lock.withLock { object = newValue }
            if newValue != nil { begin() }
        }
    }

    /// Whether files of every class can be opened. Without a protected mount no file is ever closed, so the value is
    /// true, and a warning is written to standard error once.
    public var isProtectedDataAvailable: Bool {
        let answer = lock.withLock { choose() }?.isAvailable ?? true
        lock.withLock { answered = answer }
        return answer
    }

    /// The mount to observe; nil if there is none yet. Called with the lock held.
    private func choose() -> ProtectedData? {
        if let data { return data }
        let here = FileManager.default.currentDirectoryPath
        for place in [NSHomeDirectory(), here] {
            data = try? ProtectedData(at: URL(fileURLWithPath: place))
            if data != nil { return data }
        }
        let mounts = ProtectedMount.all()
        if mounts.count == 1 { data = try? ProtectedData(at: URL(fileURLWithPath: mounts[0].path)) }
        if data == nil, !hasWarned {
            hasWarned = true
            let why = mounts.isEmpty ? "no protected volume is mounted" : "there are several protected mounts"
            let text = "UIKitCompat: \(why): call UIApplication.shared.useProtectedData(at:) at the start\n"
            FileHandle.standardError.write(Data(text.utf8))
        }
        return data
    }

    private func begin() {
        lock.withLock {
            guard observation == nil, let data = choose() else { return }
            let queue = queue
            observation = data.observe(answering: true) { [self] event in queue.deliver { self.deliver(event) } }
        }
    }

    private func deliver(_ event: ProtectedData.Event) {
        switch event {
        case .willLock(let announcement):
            tellUnavailable()
            announcement.done()
        case .disconnected: tellUnavailable()
        case .unlocked, .firstUnlock: tellAvailable()
        case .connected(let state):
            // The first state is reported only if it differs from the last value that the program has read.
            let answer = lock.withLock { answered }
            if state != .unlocked, answer == true { tellUnavailable() }
            if state == .unlocked, isTold || answer == false { tellAvailable() }
        case .locked, .sweeping, .willUnlock: break
        }
    }

    /// Calls the delegate and returns after it.
    private func tellDelegate(_ tell: @escaping @MainActor @Sendable (any UIApplicationDelegate) -> Void) {
        guard delegate != nil else { return }
        let onMain: @Sendable () -> Void = {
            MainActor.assumeIsolated { if let delegate = self.delegate { tell(delegate) } }
        }
        // Thread.isMainThread would be wrong, because under dispatchMain() the main queue runs on another thread.
        if DispatchQueue.getSpecific(key: Self.onMainQueue) == true {
            onMain()
        } else {
            DispatchQueue.main.sync(execute: onMain)
        }
    }

    private func tellUnavailable() {
        guard !isTold else { return }
        isTold = true
        lock.withLock { answered = nil }
        tellDelegate { $0.applicationProtectedDataWillBecomeUnavailable(self) }
        NotificationCenter.default.post(name: Self.willBecomeUnavailable, object: self)
    }

    private func tellAvailable() {
        isTold = false
        lock.withLock { answered = nil }
        tellDelegate { $0.applicationProtectedDataDidBecomeAvailable(self) }
        NotificationCenter.default.post(name: Self.didBecomeAvailable, object: self)
    }
}
