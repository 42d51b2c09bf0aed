// Example 16: an application closes its file when protected data becomes unavailable and opens it again afterwards, told by
// the delegate's methods or by the notifications.

import UIKitCompat

@MainActor
final class Journal {
    private let url: URL
    private var handle: FileHandle?
    private var unsaved: [String] = []

    var isOpen: Bool { handle != nil }

    init(at url: URL) { self.url = url }

    func open() throws {
        if !FileManager.default.fileExists(atPath: url.path) {
            try Data().write(to: url, options: .completeFileProtection)
        }
        let opened = try FileHandle(forWritingTo: url)
        try opened.seekToEnd()
        handle = opened
        while let entry = unsaved.first {
            try add(entry)
            unsaved.removeFirst()
        }
    }

    func add(_ entry: String) throws {
        guard let handle else {
            unsaved.append(entry)
            return
        }
        try handle.write(contentsOf: Data((entry + "\n").utf8))
    }

    func close() {
        try? handle?.close()
        handle = nil
    }
}

final class AppDelegate: NSObject, UIApplicationDelegate {
    private let journal: Journal

    init(_ journal: Journal) { self.journal = journal }

    func applicationProtectedDataWillBecomeUnavailable(_ application: UIApplication) {
        journal.close()
    }

    func applicationProtectedDataDidBecomeAvailable(_ application: UIApplication) {
        try? journal.open()
    }
}

@MainActor
func observeProtectedData(for journal: Journal) -> [any NSObjectProtocol] {
    let center = NotificationCenter.default
    return [
        center.addObserver(
            forName: UIApplication.protectedDataWillBecomeUnavailableNotification, object: nil, queue: .main
        ) { _ in
            MainActor.assumeIsolated { journal.close() }
        },
        center.addObserver(
            forName: UIApplication.protectedDataDidBecomeAvailableNotification, object: nil, queue: .main
        ) { _ in
            MainActor.assumeIsolated { try? journal.open() }
        },
    ]
}
