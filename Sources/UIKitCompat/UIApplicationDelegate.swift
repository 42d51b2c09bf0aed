// The delegate of an application: the methods that are called here, all of them optional.

/// The delegate of the application (Apple's `UIApplicationDelegate`). Any object can be the delegate. The methods are
/// called on the main actor, as in UIKit.
@MainActor public protocol UIApplicationDelegate: AnyObject {
    /// The application is starting. The result is not used.
    func application(
        _ application: UIApplication,
        willFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
    ) -> Bool
    /// The application has started, in whatever state the volume is. The result is not used.
    func application(
        _ application: UIApplication,
        didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
    ) -> Bool
    /// The application has started. Called after `application(_:didFinishLaunchingWithOptions:)`.
    func applicationDidFinishLaunching(_ application: UIApplication)
    /// The process was asked to end, and ends when this method returns.
    func applicationWillTerminate(_ application: UIApplication)
    /// Files of class complete are about to be closed. The lock waits until this method returns, up to its grace.
    func applicationProtectedDataWillBecomeUnavailable(_ application: UIApplication)
    /// Files of every class can be opened again.
    func applicationProtectedDataDidBecomeAvailable(_ application: UIApplication)
    /// A lock is about to begin.
    func applicationWillResignActive(_ application: UIApplication)
    /// A lock is about to begin. Called before `applicationProtectedDataWillBecomeUnavailable`.
    func applicationDidEnterBackground(_ application: UIApplication)
    /// The volume was unlocked. Called after `applicationProtectedDataDidBecomeAvailable`.
    func applicationWillEnterForeground(_ application: UIApplication)
    /// The application is in the foreground again.
    func applicationDidBecomeActive(_ application: UIApplication)
}

extension UIApplicationDelegate {
    /// Does nothing.
    public func application(
        _ application: UIApplication,
        willFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
    ) -> Bool { true }
    /// Does nothing.
    public func application(
        _ application: UIApplication,
        didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
    ) -> Bool { true }
    /// Does nothing.
    public func applicationDidFinishLaunching(_ application: UIApplication) {}
    /// Does nothing.
    public func applicationWillTerminate(_ application: UIApplication) {}
    /// Does nothing.
    public func applicationProtectedDataWillBecomeUnavailable(_ application: UIApplication) {}
    /// Does nothing.
    public func applicationProtectedDataDidBecomeAvailable(_ application: UIApplication) {}
    /// Does nothing.
    public func applicationWillResignActive(_ application: UIApplication) {}
    /// Does nothing.
    public func applicationDidEnterBackground(_ application: UIApplication) {}
    /// Does nothing.
    public func applicationWillEnterForeground(_ application: UIApplication) {}
    /// Does nothing.
    public func applicationDidBecomeActive(_ application: UIApplication) {}
}
