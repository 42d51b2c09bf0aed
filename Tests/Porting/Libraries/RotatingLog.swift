// A log with a limit for its size, as logging libraries are written: a full file is renamed, and the oldest one is removed.

import FileProtection

/// Lines that cannot be written while the class is closed are kept in memory, up to a limit, and written later.
final class RotatingLog {
    private let url: URL
    private let mostBytes: UInt64
    private let mostFiles: Int
    private let type: FileProtectionType
    private var handle: FileHandle?
    private(set) var waiting: [String] = []
    private let manager = FileManager.default

    init(at url: URL, class type: FileProtectionType, mostBytes: UInt64, mostFiles: Int) {
        (self.url, self.type, self.mostBytes, self.mostFiles) = (url, type, mostBytes, mostFiles)
    }

    /// Writes a line and those that wait.
    func log(_ line: String) throws {
        waiting.append(line)
        if waiting.count > 1000 { waiting.removeFirst() }
        do {
            while let first = waiting.first {
                try write(Data((first + "\n").utf8))
                waiting.removeFirst()
            }
        } catch let error where error.isProtectedDataUnavailable {
            // The handle is opened again after the unlock.
            try? handle?.close()
            handle = nil
        }
    }

    func close() throws {
        try handle?.synchronize()
        try handle?.close()
        handle = nil
    }

    /// The file of a number; 0 is the one that is written.
    func place(_ number: Int) -> URL {
        number == 0 ? url : url.deletingPathExtension().appendingPathExtension("\(number).log")
    }

    private func write(_ data: Data) throws {
        var failure: NSError?
        var result: Result<Void, any Error> = .success(())
        // Another part of the program, such as one that sends the log, reads it in the same way.
        NSFileCoordinator().coordinate(writingItemAt: url, error: &failure) { _ in
            result = Result {
                let open = try opened()
                if try open.seekToEnd() + UInt64(data.count) > mostBytes { try rotate() }
                try opened().write(contentsOf: data)
            }
        }
        if let failure { throw failure }
        try result.get()
    }

    private func opened() throws -> FileHandle {
        if let handle { return handle }
        if !manager.fileExists(atPath: url.path) {
            try Data().write(
                to: url,
                options: type == .complete
                    ? .completeFileProtection : .completeFileProtectionUntilFirstUserAuthentication)
        }
        let made = try FileHandle(forWritingTo: url)
        try made.seekToEnd()
        handle = made
        return made
    }

    private func rotate() throws {
        guard try opened().offset() > 0 else { return }
        try close()
        let last = place(mostFiles - 1)
        if manager.fileExists(atPath: last.path) { try manager.removeItem(at: last) }
        for number in stride(from: mostFiles - 2, through: 0, by: -1)
        where manager.fileExists(atPath: place(number).path) {
            try manager.moveItem(at: place(number), to: place(number + 1))
        }
    }
}
