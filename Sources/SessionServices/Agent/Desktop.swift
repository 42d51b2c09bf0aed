// The user's bus: screen savers, and notifications. It has a thread of its own, because a desktop that hangs must delay no lock.

import CommandSupport
import DBus
import HostSystem

/// Follows the desktop for the agent, and shows notices on it. It works whether or not there is a desktop, and while one comes and goes.
final class Desktop: Sendable {
    private struct Queue {
        var notices: [MountLocker.Notice] = []
        var isEnding = false
    }

    private let queue = Lock(Queue())
    private let wakeup: Wakeup
    /// Opens after the first attempt to connect.
    let hasTried = Gate()

    /// A notice that could not be shown for so many others is not news.
    private static let mostNotices = 8
    /// How many messages are read before what they need is done.
    private static let messagesAtOnce = 64
    /// How long a screen saver may take to answer.
    private static let patience = 2.0
    /// The screen savers, and the objects of each that may answer.
    private static let savers = [
        (service: "org.freedesktop.ScreenSaver", paths: ["/org/freedesktop/ScreenSaver", "/ScreenSaver"]),
        (service: "org.gnome.ScreenSaver", paths: ["/org/gnome/ScreenSaver"]),
    ]
    private static let notifications = DBusConnection.Target(
        "org.freedesktop.Notifications", "/org/freedesktop/Notifications", "org.freedesktop.Notifications")

    init() throws(SystemError) { wakeup = try Wakeup() }

    /// Shows a notice when there is a desktop.
    func show(_ notice: MountLocker.Notice) {
        queue.withLock { $0.notices = $0.notices.suffix(Self.mostNotices - 1) + [notice] }
        wakeup.raise()
    }

    /// Starts the thread. `lock` is called when a screen saver has begun.
    func start(_ lock: @escaping @Sendable () -> Void) {
        if BackgroundThread(name: "desktop", { [self] in run(lock) }) == nil {
            Output.error("no thread for the desktop: screen savers are not followed")
            hasTried.open()
        }
    }

    private func run(_ lock: () -> Void) {
        var pause = RetryPause()
        var isFirst = true
        while true {
            do throws(DBusError) {
                let bus = try DBusConnection(.session)
                try subscribe(bus, lock)
                pause = RetryPause()
                hasTried.open()
                try serve(bus, lock)
            } catch {
                if isFirst || pause.isFresh { Output.note("no desktop to follow: \(error.message)") }
                isFirst = false
            }
            hasTried.open()
            let end = pause.next()
            while monotonicNanoseconds() < end {
                var entries: [PollEntry] = []
                PollEntry.wait(&entries, until: end)
            }
        }
    }

    private func subscribe(_ bus: DBusConnection, _ lock: () -> Void) throws(DBusError) {
        for saver in Self.savers { try bus.subscribe(saver.service, saver.service, "ActiveChanged") }
        try bus.watch(Self.notifications.service)
        for saver in Self.savers where try isActive(saver.service, bus) { lock() }
    }

    private func serve(_ bus: DBusConnection, _ lock: () -> Void) throws(DBusError) {
        while true {
            var changed: [String] = []
            // Notices are shown though messages come all the time.
            for _ in 0..<Self.messagesAtOnce {
                guard let message = try bus.next() else { break }
                for (service, _) in Self.savers {
                    if message.change?.service == service {
                        changed.append(service)
                    } else if message.isSignal(service, "ActiveChanged"), bus.isFrom(message, service: service) {
                        if (try? message.argument().bool) == true { lock() }
                    }
                }
            }
            // These ask and wait, so they come after what has been said.
            for service in Set(changed) where try isActive(service, bus) { lock() }
            try showAll(bus)
            var entries = [bus.pollEntry, wakeup.pollEntry]
            PollEntry.wait(&entries, until: bus.deadline)
            wakeup.clear()
        }
    }

    /// Whether a screen saver that runs is active now. One that does not run is not started.
    private func isActive(_ service: String, _ bus: DBusConnection) throws(DBusError) -> Bool {
        guard bus.owner(of: service) != nil,
            let paths = Self.savers.first(where: { $0.service == service })?.paths
        else { return false }
        for path in paths {
            do throws(DBusError) {
                let target = DBusConnection.Target(service, path, service)
                let answer = try bus.call(target, "GetActive", seconds: Self.patience).argument().bool
                if let answer { return answer }
            } catch  where !error.isDisconnected {
                continue
            }
        }
        return false
    }

    // MARK: notices

    private func showAll(_ bus: DBusConnection) throws(DBusError) {
        let notices = queue.withLock { queue in
            defer { queue.notices = [] }
            return queue.notices
        }
        for notice in notices {
            try bus.sendOnly(
                Self.notifications, "Notify",
                [
                    .string("protectfs"), .uint32(0), .string("changes-prevent"),
                    .string(Output.oneLine(notice.summary)), .string(Self.escaped(Output.oneLine(notice.text))),
                    .strings([]),
                    .properties([("urgency", .byte(notice.isUrgent ? 2 : 1)), ("category", .string("device"))]),
                    .int32(-1),
                ])
        }
    }

    /// The body of a notification may have markup.
    private static func escaped(_ text: String) -> String {
        text.reduce(into: "") { result, character in
            switch character {
            case "&": result += "&amp;"
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            default: result.append(character)
            }
        }
    }
}

/// Pauses between attempts to connect: a second, then up to half a minute.
struct RetryPause {
    private var seconds: UInt64 = 1
    /// Whether no attempt has failed yet.
    private(set) var isFresh = true

    init() {}

    /// When to try again.
    mutating func next() -> UInt64 {
        defer { seconds = min(seconds * 2, 30) }
        isFresh = false
        return monotonicNanoseconds() + seconds * 1_000_000_000
    }
}
