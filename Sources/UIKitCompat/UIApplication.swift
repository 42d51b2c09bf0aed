// UIKit's interface to protected data: the application object, its notifications and its delegate.

import Dispatch
@_exported public import FileProtection
internal import HostSystem

/// The application object (Apple's `UIApplication`), with the members for protected data.
///
/// It observes one mount: the one given to `useProtectedData(at:deliveringOn:)`, else the one of the program's
/// `ProtectedContainer`, else the one that contains the home directory, else the one that contains the working directory,
/// else the only one that belongs to the user. If several belong to the user, it observes all of them: the data is
/// available while each of them is unlocked. Mounts of other users do not count. Where it has chosen by the user, mounts
/// that appear later count from then on, and those that are unmounted count no longer while there is another one. It
/// begins to observe when a delegate is set or the name of a notification is used.
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

    /// What is to be finished before a lock.
    let tasks = BackgroundTasks()

    /// Guards the fields below, except `isTold`.
    private let lock = NSLock()
    private var data: [ProtectedData] = []
    /// By what `data` was chosen.
    private var choice = Choice.user
    private weak var object: (any UIApplicationDelegate)?
    /// The running observations of `data`, by mount point.
    private var observations: [URL: ProtectedData.Observation] = [:]
    /// Whether the program wants to be told of changes.
    private var isObserving = false
    /// Whether a mount has gone since the program was last told of one.
    private var hasLost = false
    /// Whether a thread waits for changes of the mount table.
    private var isWatching = false
    private var queue = DispatchQueue.main
    private var hasWarned = false
    /// Whether the program was last told that the data is unavailable. Used only on the queue of delivery.
    private var isTold = false
    /// The last value of `isProtectedDataAvailable` that the program has read since it was last told of a change. The
    /// state may change between this and the beginning of the observation.
    private var answered: Bool?
    /// Whether the program was last told that it is in the background.
    private var wasSentAway = false

    /// The number of the last search for mounts, and of that whose result was taken last.
    private var (lastSearch, takenSearch): (UInt64, UInt64) = (0, 0)

    private enum Choice: Equatable {
        /// The program has named the mount.
        case named
        /// The container of this URL is on it, or was.
        case container(URL)
        /// The home directory or the working directory is on it.
        case directory
        /// The mounts are those of the user; none yet, perhaps.
        case user
    }

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
            data = [chosen]
            choice = .named
            self.queue = queue
            observations = [:]
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

    /// Sets the delegate and does not begin to observe yet.
    func launch(_ delegate: (any UIApplicationDelegate)?) { lock.withLock { object = delegate } }

    /// Whether files of every class can be opened. If several mounts belong to the user, and none was named, it is false
    /// as soon as one of them is not unlocked. If there never was a mount of the user, no file of the user is ever closed,
    /// so the value is true. In both cases a warning is written to standard error once. While the mount of the program's
    /// container is away, or the last mount of the user has gone, the value is false.
    public var isProtectedDataAvailable: Bool {
        let isObserving = lock.withLock { self.isObserving }
        if isObserving { begin() }
        let (chosen, isMissing) = choose()
        let answer = !isMissing && chosen.allSatisfy(\.isAvailable)
        lock.withLock { answered = answer }
        return answer
    }

    /// What there is to observe.
    private enum Finding {
        /// What was chosen before.
        case same
        /// The mount of the program's container; nil while it is away.
        case container(URL, ProtectedData?)
        /// The mount of the home directory or of the working directory.
        case directory(ProtectedData)
        /// The mounts of the user.
        case user([ProtectedData])
    }

    /// Chooses the mounts to observe; none if there is none yet. Also says whether the chosen mount is away.
    private func choose() -> (chosen: [ProtectedData], isMissing: Bool) {
        // The search is made without the lock: a call on a mount that hangs does not return, and would hold up the others.
        let (number, choice) = lock.withLock {
            lastSearch += 1
            return (lastSearch, self.choice)
        }
        let finding = Self.find(choice)
        let (chosen, isMissing, warning) = lock.withLock { () -> ([ProtectedData], Bool, String?) in
            // A search that began later counts more, and so does one that has changed the choice meanwhile, or the program.
            let isNewest = number > takenSearch && self.choice == choice
            if isNewest { takenSearch = number }
            let warning = isNewest ? take(finding) : nil
            return (data, data.isEmpty && self.choice != .user, warning)
        }
        if let warning { Warning.write(warning) }
        return (chosen, isMissing)
    }

    private static func find(_ choice: Choice) -> Finding {
        if choice == .named { return .same }
        // A container names the mount, even if another one was guessed before.
        if let container = ProtectedContainer.current, container.wasProtected {
            return .container(container.url, try? ProtectedData(at: container.url))
        }
        if choice == .directory { return .same }
        for place in [NSHomeDirectory(), FileManager.default.currentDirectoryPath] {
            if let found = try? ProtectedData(at: URL(fileURLWithPath: place)) { return .directory(found) }
        }
        return .user(ProtectedMount.own().map { ProtectedData($0) })
    }

    /// Stores what was found. Called with the lock held. Returns a warning to write without it.
    private func take(_ finding: Finding) -> String? {
        switch finding {
        case .same: break
        case .container(let url, let found):
            if let found {
                take([found])
            } else if choice != .container(url) {
                take([])
            }
            choice = .container(url)
        case .directory(let found):
            choice = .directory
            take([found])
        case .user(let own):
            choice = .user
            // If the last one has gone, its files are away, and the program must not take them for available.
            if !own.isEmpty { take(own) }
            guard data.count != 1, !hasWarned else { return nil }
            hasWarned = true
            let why =
                data.isEmpty
                ? "no protected volume of this user is mounted"
                : "this user has several protected mounts; the data is available while all of them are unlocked"
            return "UIKitCompat: \(why): call UIApplication.shared.useProtectedData(at:) at the start"
        }
        return nil
    }

    /// Changes the mounts to observe. Those that remain keep their observations.
    private func take(_ found: [ProtectedData]) {
        let before = data
        data = found.map { new in before.first { $0.mountPoint == new.mountPoint } ?? new }
        if before.contains(where: { old in !data.contains { $0 === old } }) { hasLost = true }
        observations = observations.filter { place, _ in data.contains { $0.mountPoint == place } }
    }

    /// Whether a lock was announced, and no unlock has followed.
    var isInBackground: Bool { lock.withLock { wasSentAway } }

    /// Begins to observe if `name` is that of a notification about protected data, or about the foreground.
    func begin(for name: Notification.Name?) {
        let known = [Self.willBecomeUnavailable, Self.didBecomeAvailable] + LifecycleName.all
        if let name, known.contains(name) { begin() }
    }

    /// Begins to observe, or observes other mounts if the program has named one since, or the user's have changed.
    func begin() {
        lock.withLock { isObserving = true }
        _ = choose()
        let isFirst = lock.withLock {
            let queue = queue
            for data in data where observations[data.mountPoint] == nil {
                observations[data.mountPoint] = data.observe(answering: true) { [self] event in
                    queue.deliver { self.deliver(event, of: data) }
                }
            }
            let isNeeded = choice == .user || data.isEmpty
            defer { isWatching = isWatching || isNeeded }
            return isNeeded && !isWatching
        }
        if isFirst { watch() }
    }

    /// Observes what appears in the mount table from now on. If that fails, the next question for `isProtectedDataAvailable` tries
    /// again.
    private func watch() {
        let thread = BackgroundThread(name: "mounts", stackSize: 512 << 10) { [self] in
            defer { lock.withLock { isWatching = false } }
            guard let watch = try? MountTableWatch() else { return }
            repeat {
                begin()
                let queue = lock.withLock { self.queue }
                queue.deliver { self.settle() }
            } while watch.wait()
        }
        if thread == nil { lock.withLock { isWatching = false } }
    }

    /// Tells the program that the data is available if the mount that was not has gone.
    private func settle() {
        let (data, hasLost) = lock.withLock {
            defer { self.hasLost = false }
            return (self.data, self.hasLost)
        }
        if hasLost, isTold, !data.isEmpty, data.allSatisfy(\.isAvailable) { tellAvailable() }
    }

    private func deliver(_ event: ProtectedData.Event, of data: ProtectedData) {
        let isObserved = lock.withLock { self.data.contains { $0 === data } }
        if !isObserved {
            // It was observed until the program named another mount.
            if case .willLock(let announcement) = event { announcement.done() }
            return
        }
        switch event {
        case .willLock(let announcement):
            tellUnavailable()
            tasks.afterAll { announcement.done() }
        case .disconnected:
            tellUnavailable()
            tasks.expire()
        case .unlocked, .firstUnlock: if areOthersAvailable(than: data) { tellAvailable() }
        case .connected(let state):
            // The first state is reported only if it differs from the last value that the program has read.
            let answer = lock.withLock { answered }
            if state != .unlocked, answer == true { tellUnavailable() }
            if state == .unlocked, isTold || answer == false, areOthersAvailable(than: data) { tellAvailable() }
        case .locked, .sweeping: tasks.expire()
        case .willUnlock: break
        }
    }

    /// Whether every observed mount but this one is unlocked.
    private func areOthersAvailable(than data: ProtectedData) -> Bool {
        lock.withLock { self.data }.allSatisfy { $0 === data || $0.isAvailable }
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
        lock.withLock { (answered, wasSentAway) = (nil, true) }
        tellDelegate { $0.applicationWillResignActive(self) }
        NotificationCenter.default.post(name: LifecycleName.willResignActive, object: self)
        tellDelegate { $0.applicationDidEnterBackground(self) }
        NotificationCenter.default.post(name: LifecycleName.didEnterBackground, object: self)
        tellDelegate { $0.applicationProtectedDataWillBecomeUnavailable(self) }
        NotificationCenter.default.post(name: Self.willBecomeUnavailable, object: self)
    }

    private func tellAvailable() {
        isTold = false
        lock.withLock { (answered, wasSentAway) = (nil, false) }
        tellDelegate { $0.applicationProtectedDataDidBecomeAvailable(self) }
        NotificationCenter.default.post(name: Self.didBecomeAvailable, object: self)
        tellDelegate { $0.applicationWillEnterForeground(self) }
        NotificationCenter.default.post(name: LifecycleName.willEnterForeground, object: self)
        tellDelegate { $0.applicationDidBecomeActive(self) }
        NotificationCenter.default.post(name: LifecycleName.didBecomeActive, object: self)
    }
}
