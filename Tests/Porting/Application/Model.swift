// What the application keeps: notes in class complete, messages in complete unless open, a log in until first unlock.

import FileProtection

/// One line to the test at once.
func say(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

/// An error in the words of the test.
func describe(_ error: any Error) -> String {
    error.isProtectedDataUnavailable ? "locked, error \((error as NSError).code)" : "\(error)"
}

/// Notes in one file that only an unlocked device can read. New notes wait in memory while it is locked.
@MainActor
final class Diary {
    private let url: URL
    private var notes: [String]?
    private var waiting: [String] = []

    init(at directory: URL) { url = directory.appendingPathComponent("diary.json") }

    var count: Int { notes?.count ?? 0 }

    func open() throws {
        let found: [String]
        do {
            found = try JSONDecoder().decode([String].self, from: Data(contentsOf: url))
        } catch CocoaError.fileReadNoSuchFile {
            found = []
        }
        notes = found + waiting
        waiting = []
        try save()
    }

    func add(_ note: String) -> String {
        guard notes != nil else {
            waiting.append(note)
            return "note waits"
        }
        notes?.append(note)
        do {
            try save()
            return "note saved"
        } catch { return "note: \(describe(error))" }
    }

    func close() { notes = nil }

    private func save() throws {
        guard let notes else { return }
        try JSONEncoder().encode(notes).write(to: url, options: [.atomic, .completeFileProtection])
    }
}

/// Messages, each in a file that can be begun in every state and read while unlocked.
@MainActor
final class Inbox {
    private let directory: URL
    private var number = 0

    init(at caches: URL) throws {
        directory = caches.appendingPathComponent("Inbox")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        number = try FileManager.default.contentsOfDirectory(atPath: directory.path).count
    }

    func receive(_ text: String) -> String {
        number += 1
        let url = directory.appendingPathComponent("\(number).txt")
        let partial = URL.temporaryDirectory.appendingPathComponent("\(number).part")
        guard
            FileManager.default.createFile(
                atPath: partial.path, contents: nil,
                attributes: [.protectionKey: FileProtectionType.completeUnlessOpen])
        else { return "message: not made" }
        do {
            // As background downloads do: the file exists, and is opened again to be filled.
            let handle = try FileHandle(forWritingTo: partial)
            for part in text.split(separator: " ") { try handle.write(contentsOf: Data("\(part) ".utf8)) }
            try handle.close()
            try FileManager.default.moveItem(at: partial, to: url)
            return "message \(number) received"
        } catch { return "message: \(describe(error))" }
    }

    func readAll() -> String {
        do {
            return try (0..<number).map {
                try String(contentsOf: directory.appendingPathComponent("\($0 + 1).txt"), encoding: .utf8)
            }.joined(separator: "| ")
        } catch { return "inbox: \(describe(error))" }
    }
}

/// A log that is written in the background, from the first unlock on.
@MainActor
final class BackgroundLog {
    private let url: URL

    init(at url: URL) { self.url = url }

    func add(_ line: String) -> String {
        do {
            if !FileManager.default.fileExists(atPath: url.path) {
                try Data().write(to: url, options: .completeFileProtectionUntilFirstUserAuthentication)
            }
            let handle = try FileHandle(forWritingTo: url)
            try handle.seekToEnd()
            try handle.write(contentsOf: Data((line + "\n").utf8))
            try handle.close()
            return "logged"
        } catch { return describe(error) }
    }
}
