// The start of an application: its delegate is made, is told of the launch, and the main queue runs.

import Dispatch
public import FileProtection
internal import HostSystem

extension UIApplication {
    /// A reason of the launch (Apple's `UIApplication.LaunchOptionsKey`). A program on Linux is launched without one.
    public struct LaunchOptionsKey: Hashable, RawRepresentable, Sendable {
        /// The name of the key.
        public let rawValue: String

        /// Makes a key from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// A URL that the application is to open.
        public static let url = LaunchOptionsKey(rawValue: "UIApplicationLaunchOptionsURLKey")
        /// The application that asked for the launch.
        public static let sourceApplication = LaunchOptionsKey(
            rawValue: "UIApplicationLaunchOptionsSourceApplicationKey")
        /// A notification of a server.
        public static let remoteNotification = LaunchOptionsKey(
            rawValue: "UIApplicationLaunchOptionsRemoteNotificationKey")
        /// A change of place.
        public static let location = LaunchOptionsKey(rawValue: "UIApplicationLaunchOptionsLocationKey")
        /// A shortcut that the user chose.
        public static let shortcutItem = LaunchOptionsKey(rawValue: "UIApplicationLaunchOptionsShortcutItemKey")
        /// An activity of the user.
        public static let userActivityDictionary = LaunchOptionsKey(
            rawValue: "UIApplicationLaunchOptionsUserActivityDictionaryKey")
    }

    /// The notification after `application(_:didFinishLaunchingWithOptions:)`.
    public static let didFinishLaunchingNotification = Notification.Name("UIApplicationDidFinishLaunchingNotification")
    /// The notification after `applicationWillTerminate(_:)`.
    public static let willTerminateNotification = Notification.Name("UIApplicationWillTerminateNotification")

    /// What lives as long as the application: its delegate, and what tells it of its end.
    @MainActor private static var kept: ((any UIApplicationDelegate)?, [any DispatchSourceSignal])?

    /// Runs the application with this delegate until the process is asked to end (SIGTERM, SIGINT).
    @MainActor static func run(_ delegate: (any UIApplicationDelegate)?) -> Never {
        let application = UIApplication.shared
        application.launch(delegate)
        let ends = [SIGTERM, SIGINT].filter { !isIgnored($0) }.map { number in
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { @Sendable in
                Task { @MainActor in
                    application.delegate?.applicationWillTerminate(application)
                    NotificationCenter.default.post(name: willTerminateNotification, object: application)
                    exit(0)
                }
            }
            // Until then the signal ends the process at once. One that was ignored meanwhile would be lost.
            let isRegistered = DispatchSemaphore(value: 0)
            source.setRegistrationHandler { @Sendable in isRegistered.signal() }
            source.resume()
            _ = isRegistered.wait(timeout: .now() + 5)
            return source
        }
        _ = delegate?.application(application, willFinishLaunchingWithOptions: nil)
        // By now the program may have named the mount.
        application.begin()
        _ = delegate?.application(application, didFinishLaunchingWithOptions: nil)
        delegate?.applicationDidFinishLaunching(application)
        NotificationCenter.default.post(name: didFinishLaunchingNotification, object: application)
        // A run loop without a timer would return at once.
        RunLoop.main.add(Timer(fire: .distantFuture, interval: 0, repeats: false) { _ in }, forMode: .default)
        kept = (delegate, ends)
        while true { _ = RunLoop.main.run(mode: .default, before: .distantFuture) }
    }
}

extension UIApplicationDelegate where Self: UIResponder {
    /// Starts the application with this delegate. This is what `@main` on a delegate calls.
    public static func main() { UIApplication.run(Self()) }
}

/// Starts the application (Apple's `UIApplicationMain(_:_:_:_:)`) and does not return.
///
/// - Parameters:
///   - argumentCount: the number of the program's arguments, which nothing is done with.
///   - arguments: the program's arguments, which nothing is done with.
///   - principalClass: nil. There is only one class of applications here.
///   - delegateClass: the name of the delegate's class, as `NSStringFromClass` gives it. It must be a `UIResponder` and a
///     `UIApplicationDelegate`; otherwise the process ends with a message.
@MainActor @discardableResult public func UIApplicationMain(
    _ argumentCount: Int32, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?, _ principalClass: String?,
    _ delegateClass: String?
) -> Int32 {
    guard let delegateClass else { UIApplication.run(nil) }
    guard let type = NSClassFromString(delegateClass) as? any (UIResponder & UIApplicationDelegate).Type else {
        fatalError("UIApplicationMain: \(delegateClass) is no UIResponder that is a UIApplicationDelegate")
    }
    UIApplication.run(type.init())
}
