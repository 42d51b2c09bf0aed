// An application in the manner of an iPhone's, with a delegate: a diary that is closed at the lock, an inbox that takes
// messages in every state, and a log that works in the background. Only the import is another one, and the line that names
// the container.

import UIKitCompat

@main
final class AppDelegate: UIResponder, UIApplicationDelegate {
    private var diary: Diary?
    private var inbox: Inbox?
    private var log: BackgroundLog?

    func application(
        _ application: UIApplication,
        willFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]? = nil
    ) -> Bool {
        do {
            try ProtectedContainer.use(at: URL(fileURLWithPath: CommandLine.arguments[1]))
        } catch {
            say("no container: \(error)")
            exit(1)
        }
        return true
    }

    func application(
        _ application: UIApplication,
        didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
    ) -> Bool {
        do {
            let manager = FileManager.default
            diary = Diary(at: manager.urls(for: .documentDirectory, in: .userDomainMask)[0])
            inbox = try Inbox(
                at: manager.url(for: .cachesDirectory, in: .userDomainMask, appropriateFor: nil, create: true))
            log = BackgroundLog(at: URL.applicationSupportDirectory.appendingPathComponent("launches.log"))
        } catch { say("launch failed: \(error)") }
        say(launchOptions == nil ? "launched" : "launched with options")
        say("log: \(log?.add("launch") ?? "none")")
        if application.isProtectedDataAvailable {
            applicationProtectedDataDidBecomeAvailable(application)
        } else {
            say("diary closed")
        }
        listen()
        return true
    }

    func applicationProtectedDataDidBecomeAvailable(_ application: UIApplication) {
        do {
            try diary?.open()
            say("diary open, \(diary?.count ?? 0) notes")
        } catch { say("diary: \(describe(error))") }
    }

    func applicationProtectedDataWillBecomeUnavailable(_ application: UIApplication) {
        diary?.close()
        say("diary closed")
    }

    func applicationWillTerminate(_ application: UIApplication) {
        diary?.close()
        say("terminated")
    }

    /// Lines of standard input stand for what a user and a network do.
    private func listen() {
        Thread.detachNewThread { [self] in
            while let line = readLine() {
                DispatchQueue.main.sync { MainActor.assumeIsolated { take(line) } }
            }
        }
    }

    private func take(_ line: String) {
        let words = line.split(separator: " ", maxSplits: 1).map(String.init)
        switch words.first {
        case "note": say(diary?.add(words[1]) ?? "no diary")
        case "message": say(inbox?.receive(words[1]) ?? "no inbox")
        case "read": say(inbox?.readAll() ?? "no inbox")
        case "log": say(log?.add(words[1]) ?? "no log")
        case "available": say("\(UIApplication.shared.isProtectedDataAvailable)")
        default: say("?")
        }
    }
}
