// The part of UIKit that speaks of protected data: the application object, its notifications and its delegate.

import Dispatch
@_exported public import FileProtection

/// What the application tells its delegate; any object can be one. Of the main actor, as UIKit's is.
@MainActor public protocol UIApplicationDelegate: AnyObject {
    /// Files of class complete are about to be closed; the lock waits until this returns, up to its grace.
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

/// The process, as far as protected data goes.
///
/// It speaks of one mount: the one given to `useProtectedData(at:)`, else the one that holds the home directory, else the
/// one that holds the working directory, else the only one. Observing begins when a delegate is set or the name of a
/// notification is asked for. Notifications and delegate methods come on the main queue, which has to run (`dispatchMain`,
/// a run loop, or an asynchronous `main`); notifications on another one where `useProtectedData` names it.
public final class UIApplication: @unchecked Sendable {
    /// The process's own.
    public static let shared = UIApplication()

    /// Posted before the volume is locked, which waits until all observers have returned, up to the grace.
    public static var protectedDataWillBecomeUnavailableNotification: Notification.Name {
        shared.begin()
        return willBecomeUnavailable
    }

    /// Posted when the volume has been unlocked.
    public static var protectedDataDidBecomeAvailableNotification: Notification.Name {
        shared.begin()
        return didBecomeAvailable
    }

    private static let willBecomeUnavailable = Notification.Name("UIApplicationProtectedDataWillBecomeUnavailable")
    private static let didBecomeAvailable = Notification.Name("UIApplicationProtectedDataDidBecomeAvailable")

    /// Marks the main queue.
    private static let onMainQueue = DispatchSpecificKey<Bool>()

    /// Guards what follows, but for `isTold`.
    private let lock = NSLock()
    private var data: ProtectedData?
    private weak var object: (any UIApplicationDelegate)?
    private var observation: ProtectedData.Observation?
    private var queue = DispatchQueue.main
    private var hasWarned = false
    /// Whether the program believes that the data is unavailable; used on the queue of delivery only.
    private var isTold = false
    /// What the program was answered since it was told something. Observing may begin after that, and after a change.
    private var answered: Bool?

    private init() { DispatchQueue.main.setSpecific(key: Self.onMainQueue, value: true) }

    /// Says which mount the application speaks of: once, at the start.
    ///
    /// - Parameters:
    ///   - url: any path in it, of something that is there or will be.
    ///   - queue: where notifications come; the main queue unless given. Delegate methods always come on the main queue.
    /// - Throws: `FileProtectionError.notProtected` where `url` is on no protected mount.
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

    /// Who is told; not retained.
    public var delegate: (any UIApplicationDelegate)? {
        get { lock.withLock { object } }
        set {
            lock.withLock { object = newValue }
            if newValue != nil { begin() }
        }
    }

    /// Whether files of every class can be opened. Where there is no protected mount nothing is ever closed: true, and a
    /// line on standard error, once.
    public var isProtectedDataAvailable: Bool {
        let answer = lock.withLock { choose() }?.isAvailable ?? true
        lock.withLock { answered = answer }
        return answer
    }

    /// The mount, once there is one; called with the lock held.
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
            // At the beginning only what is not as the program was answered.
            let answer = lock.withLock { answered }
            if state != .unlocked, answer == true { tellUnavailable() }
            if state == .unlocked, isTold || answer == false { tellAvailable() }
        case .locked, .sweeping, .willUnlock: break
        }
    }

    /// Returns when the delegate has.
    private func tellDelegate(_ tell: @escaping @MainActor @Sendable (any UIApplicationDelegate) -> Void) {
        guard delegate != nil else { return }
        let onMain: @Sendable () -> Void = {
            MainActor.assumeIsolated { if let delegate = self.delegate { tell(delegate) } }
        }
        // Not Thread.isMainThread: under dispatchMain() the main queue runs on another thread.
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
