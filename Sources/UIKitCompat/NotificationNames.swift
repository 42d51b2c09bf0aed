// Observers that know the notifications by their names alone, and the names of older versions of UIKit.

public import FileProtection
import PlainFoundation

extension NSNotification.Name {
    /// The older name of `UIApplication.protectedDataWillBecomeUnavailableNotification`.
    public static var UIApplicationProtectedDataWillBecomeUnavailable: NSNotification.Name {
        UIApplication.protectedDataWillBecomeUnavailableNotification
    }

    /// The older name of `UIApplication.protectedDataDidBecomeAvailableNotification`.
    public static var UIApplicationProtectedDataDidBecomeAvailable: NSNotification.Name {
        UIApplication.protectedDataDidBecomeAvailableNotification
    }

    /// The older name of `UIApplication.didEnterBackgroundNotification`.
    public static var UIApplicationDidEnterBackground: NSNotification.Name {
        UIApplication.didEnterBackgroundNotification
    }

    /// The older name of `UIApplication.willEnterForegroundNotification`.
    public static var UIApplicationWillEnterForeground: NSNotification.Name {
        UIApplication.willEnterForegroundNotification
    }

    /// The older name of `UIApplication.didFinishLaunchingNotification`.
    public static var UIApplicationDidFinishLaunching: NSNotification.Name {
        UIApplication.didFinishLaunchingNotification
    }

    /// The older name of `UIApplication.willTerminateNotification`.
    public static var UIApplicationWillTerminate: NSNotification.Name { UIApplication.willTerminateNotification }
}

extension NotificationCenter {
    /// Adds an observer (`NotificationCenter.addObserver(forName:object:queue:using:)`). If the name is that of a
    /// notification about protected data, however it was written, the application begins to observe the mount.
    public func addObserver(
        forName name: NSNotification.Name?, object: Any?, queue: OperationQueue?,
        using block: @escaping @Sendable (Notification) -> Void
    ) -> any NSObjectProtocol {
        UIApplication.shared.begin(for: name)
        return Plain.observe(self, name, object, queue, block)
    }
}
