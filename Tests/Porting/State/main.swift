// Drives ProtectedData for Tests/Mount/porting/test_porting_state.py: prints what it is told, a line each.

import Dispatch
import UIKitCompat

func say(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

/// How long this process has used a processor, in milliseconds, and its threads.
func usage() -> (milliseconds: Int, threads: Int) {
    // Fields 14 and 15, hundredths of a second; the name before them holds no blank.
    let fields = (try? String(contentsOfFile: "/proc/self/stat", encoding: .utf8))?.split(separator: " ") ?? []
    let time = fields.count > 15 ? ((Int(fields[13]) ?? 0) + (Int(fields[14]) ?? 0)) * 10 : -1
    let tasks = try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")
    return (time, tasks?.count ?? 0)
}

func describe(_ event: ProtectedData.Event) -> String {
    switch event {
    case .connected(let state): "connected \(state.rawValue)"
    case .willLock(let lock): "willLock \(lock.grace)"
    default: "\(event)"
    }
}

func untilWillLock() async throws {
    for try await event in data.events(answering: true) {
        say(describe(event))
        if case .willLock = event { break }
    }
}

/// Observes by the names of UIKit before a mount need be there. Each line typed is answered with what the application says.
func observeEarly() async throws {
    for name in [
        UIApplication.protectedDataWillBecomeUnavailableNotification,
        UIApplication.protectedDataDidBecomeAvailableNotification,
    ] {
        _ = NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { say($0.name.rawValue) }
    }
    Thread.detachNewThread {
        while readLine() != nil { say("\(UIApplication.shared.isProtectedDataAvailable)") }
        exit(0)
    }
    say("ready")
    while true { try await Task.sleep(for: .seconds(60)) }
}

/// What an application says when it leaves the foreground and comes back. A task keeps it from being locked until "end" is typed.
func followForeground() async throws {
    let application = UIApplication.shared
    let names = [
        UIApplication.willResignActiveNotification, UIApplication.didEnterBackgroundNotification,
        UIApplication.protectedDataWillBecomeUnavailableNotification,
        UIApplication.protectedDataDidBecomeAvailableNotification, UIApplication.willEnterForegroundNotification,
    ]
    for name in names {
        _ = NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) {
            let state = application.applicationState == .background ? "background" : "active"
            say("\($0.name.rawValue.replacingOccurrences(of: "UIApplication", with: "")) \(state)")
        }
    }
    Task {
        for await _ in NotificationCenter.default.notifications(named: UIApplication.didBecomeActiveNotification) {
            say("sequence \(application.applicationState == .active)")
        }
    }
    Thread.detachNewThread {
        var task = UIBackgroundTaskIdentifier.invalid
        while let line = readLine() {
            switch line {
            case "begin": task = application.beginBackgroundTask(withName: "saving") { say("expired") }
            case "end": application.endBackgroundTask(task)
            default: break
            }
            say("\(line) \(task == .invalid)")
        }
        exit(0)
    }
    say("ready")
    while true { try await Task.sleep(for: .seconds(60)) }
}

let words = Array(CommandLine.arguments.dropFirst())
if words[0] == "foreground" {
    try UIApplication.shared.useProtectedData(at: URL(fileURLWithPath: words[1]))
    try await followForeground()
}
if words == ["early"] { try await observeEarly() }
if words[0] == "contained" {
    try ProtectedContainer.use(at: URL(fileURLWithPath: words[1]))
    say("ready")
    while readLine() != nil { say("\(UIApplication.shared.isProtectedDataAvailable)") }
    exit(0)
}
let url = URL(fileURLWithPath: words[1])
let data: ProtectedData
do { data = try ProtectedData(at: url) } catch {
    say("error \(error)")
    exit(1)
}

switch words[0] {
case "state": say("\(data.state.rawValue) \(data.isAvailable)")
case "events":
    do {
        for try await event in data.events { say(describe(event)) }
    } catch { say("error \(error)") }
case "answer":
    // Answers when a line is typed.
    for try await event in data.events(answering: true) {
        say(describe(event))
        guard case .willLock(let lock) = event else { continue }
        _ = readLine()
        lock.done()
    }
case "before":
    let observation = data.beforeLock {
        say("closing")
        _ = readLine()
    }
    // What is said of a lock is left out: the function may be called before it or after it.
    for try await event in data.events { if case .connected = event { say(describe(event)) } }
    observation.cancel()
case "abandon":
    // Leaves in the middle of an announcement.
    try await untilWillLock()
    try await Task.sleep(for: .seconds(60))
case "leave":
    // Two observers of one process: when "leave" is typed one goes without an answer; the other answers at "answer".
    let leaving = Task.detached { try await hear("leaving") { _ in } }
    let staying = Pending()
    Task.detached { try await hear("staying") { await staying.keep($0) } }
    while let line = readLine() {
        if line == "leave" {
            leaving.cancel()
            _ = await leaving.result
            say("left")
        } else {
            say(await staying.answer() ? "answered" : "nothing to answer")
        }
    }
case "available":
    try await data.waitUntilAvailable()
    say("available")
case "first":
    try await data.waitUntilFirstUnlock()
    say("first unlock")
case "cancel":
    let task = Task { try await data.waitUntilAvailable() }
    try await Task.sleep(for: .milliseconds(200))
    task.cancel()
    do { try await task.value } catch { say("\(error is CancellationError)") }
case "many":
    // So many observers; each line typed is answered with what they cost and what they have heard.
    let count = Int(words[2]) ?? 0
    let heard = Heard()
    for _ in 0..<count {
        // Detached: the main actor is held by reading lines.
        Task.detached { for try await event in data.events(answering: true) { await heard.add(event) } }
    }
    while readLine() != nil {
        let (milliseconds, threads) = usage()
        say("\(milliseconds) \(threads) \(await heard.counts)")
    }
case "notifications":
    let names = [
        ProtectedData.willBecomeUnavailableNotification, ProtectedData.didBecomeUnavailableNotification,
        ProtectedData.willBecomeAvailableNotification, ProtectedData.didBecomeAvailableNotification,
        ProtectedData.firstUnlockNotification,
    ]
    for name in names {
        _ = NotificationCenter.default.addObserver(forName: name, object: data, queue: nil) { note in
            say(note.name.rawValue)
            if note.name == ProtectedData.willBecomeUnavailableNotification { _ = readLine() }
        }
    }
    let observation = data.postNotifications()
    for try await event in data.events { if case .connected = event { say("ready") } }
    observation.cancel()
case "main", "application":
    // This program's main is asynchronous; the observers ask for the main queue, from the library or from the application.
    let names: [Notification.Name]
    let observation: ProtectedData.Observation?
    if words[0] == "main" {
        names = [ProtectedData.willBecomeUnavailableNotification, ProtectedData.didBecomeAvailableNotification]
        observation = data.postNotifications(on: .main)
    } else {
        try UIApplication.shared.useProtectedData(at: url)
        observation = nil
        names = [
            UIApplication.protectedDataWillBecomeUnavailableNotification,
            UIApplication.protectedDataDidBecomeAvailableNotification,
        ]
    }
    for name in names {
        _ = NotificationCenter.default.addObserver(forName: name, object: nil, queue: .main) { note in
            let name = note.name.rawValue
            MainActor.assumeIsolated { say(name) }
        }
    }
    for try await event in data.events { if case .connected = event { say("ready") } }
    observation?.cancel()
case "asked":
    // Names no mount; each line typed is answered with what the application says.
    while readLine() != nil { say("\(UIApplication.shared.isProtectedDataAvailable)") }
case "raw-names":
    // Observes by the names alone, and reads nothing of the application.
    for name in ["WillBecomeUnavailable", "DidBecomeAvailable"] {
        _ = NotificationCenter.default.addObserver(
            forName: Notification.Name("UIApplicationProtectedData" + name), object: nil, queue: nil
        ) { note in say(note.name.rawValue) }
    }
    for try await event in data.events { if case .connected = event { say("ready") } }
default: exit(2)
}

/// Prints all that one of several observers is told, and gives on the announcements.
func hear(_ name: String, _ announced: @Sendable (LockAnnouncement) async -> Void) async throws {
    for try await event in data.events(answering: true) {
        if case .willLock(let lock) = event { await announced(lock) }
        switch event {
        case .connected, .willLock: say("\(name) \(describe(event))")
        default: break
        }
    }
}

/// An announcement that is answered when a line says so.
actor Pending {
    private var lock: LockAnnouncement?
    func keep(_ lock: LockAnnouncement) { self.lock = lock }
    func answer() -> Bool {
        guard let lock else { return false }
        lock.done()
        self.lock = nil
        return true
    }
}

/// Counts what all observers have heard, and answers for them.
actor Heard {
    private(set) var counts = "0 0 0"
    private var connected = 0
    private var announced = 0
    private var other = 0

    func add(_ event: ProtectedData.Event) {
        switch event {
        case .connected: connected += 1
        case .willLock(let lock):
            announced += 1
            lock.done()
        default: other += 1
        }
        counts = "\(connected) \(announced) \(other)"
    }
}
